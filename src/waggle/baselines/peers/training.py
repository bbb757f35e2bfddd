"""Offline training of organisers: small parameters in one JSON file, step by step.

A method's `Fit` improves the parameters step by step and plays its episodes through a callback. The
file is written every few steps, so that an interrupted fit can resume; random draws are seeded by
the step, so that a resumed fit gives the same result as an uninterrupted one. Invariant: only
development cases are played, and a file is read only by the method that wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from importlib import import_module
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from waggle import plugins
from waggle.baselines.peers import METHODS
from waggle.baselines.peers.conductor import Conductor, Peer
from waggle.baselines.peers.organiser import Organiser
from waggle.core.errors import ConfigError, suggest
from waggle.core.protocols import Case
from waggle.core.seeds import Split, derive, require
from waggle.runtime.sync import Engine

Parameters: TypeAlias = dict[str, Any]
Steps: TypeAlias = "int | Mapping[str, int] | None"
"""Steps of every group of cases, or by substrate; the method's default if none is given."""
Play: TypeAlias = Callable[[Organiser, Case, int], float]
"""Plays one case with an organiser and the number of a draw, and returns the utility."""
WORKING = "working"
"""Key of the state that only an unfinished fit needs, such as moments of gradients."""
SAVED = 10
"""Steps between two writes of the file."""


class Learner(Protocol):
    """The trainer of a method."""

    @property
    def name(self) -> str:
        """The name of the method."""
        ...

    @property
    def steps(self) -> int:
        """Number of steps, unless a recipe names another."""
        ...

    @property
    def batch(self) -> int:
        """Cases per step."""
        ...

    @property
    def per_size(self) -> bool:
        """Whether every substrate and population is trained in separate steps."""
        ...

    def plays(self, step: int) -> int:
        """Return how many episodes a step plays."""
        ...

    def start(self) -> Parameters:
        """Return the initial parameters; the entry `WORKING` is dropped when a fit ends."""
        ...

    def step(self, found: Parameters, step: int, cases: Sequence[Case], play: Play) -> Parameters:
        """Return the parameters after one step on the given cases."""
        ...


class Progress(NamedTuple):
    """The progress of a fit."""

    step: int
    of: int
    digest: str


class _FitFile(msgspec.Struct, forbid_unknown_fields=True):
    """The file of a fit."""

    method: str
    plan: str
    """A digest of cases and steps, so that a fit is not continued with others."""
    step: int
    steps: int
    parameters: Parameters


def learner_of(method: str) -> Learner:
    """Return the trainer of a method by its name."""
    trained = [name for name, each in METHODS.items() if each.learner]
    if method not in trained:
        hint = suggest(method, trained)
        raise ConfigError(f"{method!r} is not trained; there is {', '.join(trained)}{hint}")
    module, _, name = METHODS[method].learner.partition(":")
    made: Learner = getattr(import_module(module), name)()
    return made


def state_of(path: Path, learner: Learner) -> str:
    """Describe the parameters a fit begins with: their digest and the number of steps done."""
    if not path.exists():
        return f"{digest_of(learner.start())}, untrained"
    kept = _read(path, learner.name)
    return f"{digest_of(kept.parameters)}, {kept.step} of {kept.steps} steps"


def digest_of(found: Parameters) -> str:
    """Return a digest of the parameters: twelve hex digits."""
    return blake2b(msgspec.json.encode(found, order="sorted"), digest_size=6).hexdigest()


def read(path: Path, method: str) -> tuple[Parameters, str]:
    """Return the parameters of a finished fit and their digest."""
    kept = _read(path, method)
    if kept.step < kept.steps:
        raise ConfigError(
            f"{path} has {kept.step} of {kept.steps} steps; run `waggle fit {method}` to its end"
        )
    return kept.parameters, digest_of(kept.parameters)


def _read(path: Path, method: str) -> _FitFile:
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=_FitFile)
    except OSError as error:
        raise ConfigError(
            f"cannot read {path} ({error.strerror}); make it with `waggle fit {method}`"
        ) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} holds no parameters ({error}); fit {method} again") from None
    if kept.method != method:
        raise ConfigError(f"{path} belongs to {kept.method!r}; fit {method} into its own file")
    return kept


def utility(organiser: Organiser, case: Case, draw: int) -> float:
    """Play one development case and return its partial score, else its score."""
    require(case.seed, Split.DEVELOPMENT)
    world = plugins.get_substrate(case.substrate).open(case)
    scores = Engine(world, _SeededPeer(organiser, draw), case).play().scores
    return scores.get("partial", scores["score"])


class _SeededPeer(Peer):
    """A peer with the random draws of one sample of one case."""

    def __init__(self, organiser: Organiser, draw: int) -> None:
        super().__init__(organiser)
        self._draw = draw

    def conduct(self, world: Any, case: Case) -> Conductor:
        """Return a conductor whose random draws depend on the sample."""
        return Conductor(self.organiser, self._solver, world, case, self._draw)


def fit(
    learner: Learner,
    cases: Sequence[Case],
    path: Path,
    *,
    steps: Steps = None,
    play: Play = utility,
    watch: Callable[[Progress], None] | None = None,
) -> Parameters:
    """Train a method on development cases, or resume where an earlier call was interrupted.

    Args:
        learner: the method's `Fit`.
        cases: development cases; for a method with separate steps for every population, they are
            grouped by substrate and size.
        path: the file of the parameters.
        steps: steps of every group, or by substrate.
        play: callable that plays a case.
        watch: called whenever the file is written.
    """
    for case in cases:
        require(case.seed, Split.DEVELOPMENT)
    turns = _turns(learner, cases, steps)
    total = len(turns)
    plan = f"{derive(total, 'fit', learner.name, msgspec.json.encode(list(cases)).decode()):016x}"
    kept = _FitFile(learner.name, plan, 0, total, learner.start())
    if path.exists():
        kept = _read(path, learner.name)
        if kept.plan != plan:
            raise ConfigError(f"{path} was fitted to other cases or steps; name another --out")
    while kept.step < total:
        group = turns[kept.step]
        chosen = [
            group[derive(kept.step, "fit-case", learner.name, k) % len(group)]
            for k in range(learner.batch)
        ]
        kept.parameters = learner.step(kept.parameters, kept.step, chosen, play)
        kept.step += 1
        if kept.step == total:
            kept.parameters.pop(WORKING, None)
        if kept.step % SAVED == 0 or kept.step == total:
            _write(path, kept)
            if watch is not None:
                watch(Progress(kept.step, total, digest_of(kept.parameters)))
    return kept.parameters


def episodes(learner: Learner, cases: Sequence[Case], steps: Steps = None) -> int:
    """Return how many episodes a fit plays."""
    return sum(map(learner.plays, range(len(_turns(learner, cases, steps)))))


def _turns(learner: Learner, cases: Sequence[Case], steps: Steps) -> list[list[Case]]:
    """Return, for every step, the cases that it draws from."""
    if not cases:
        raise ConfigError("a fit needs cases; name tasks, sizes and development seeds")
    groups: dict[tuple[str, int], list[Case]] = {}
    for case in cases:
        group = (case.substrate, case.n) if learner.per_size else ("", 0)
        groups.setdefault(group, []).append(case)
    given = steps if isinstance(steps, Mapping) else {}
    default = steps if isinstance(steps, int) else learner.steps
    return [group for (name, _), group in groups.items() for _ in range(given.get(name, default))]


def _write(path: Path, kept: _FitFile) -> None:
    """Replace the file atomically, so that an interruption leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_bytes(msgspec.json.format(msgspec.json.encode(kept, order="sorted"), indent=1))
    beside.replace(path)


def adam(
    values: dict[str, float],
    slope: Mapping[str, float],
    moments: Mapping[str, Sequence[float]],
    rate: float,
) -> dict[str, list[float]]:
    """Update values in place by one Adam step of gradient ascent; return the new moments."""
    found: dict[str, list[float]] = {name: list(kept) for name, kept in moments.items()}
    for name in sorted({*slope, *found}):
        first, second, count = found.get(name, [0.0, 0.0, 0.0])
        g = slope.get(name, 0.0)
        first, second, count = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g * g, count + 1
        scale = sqrt(second / (1 - 0.999**count)) + 1e-8
        values[name] = values.get(name, 0.0) + rate * first / (1 - 0.9**count) / scale
        found[name] = [first, second, count]
    return found
