"""Replay of recorded vectors: `waggle check vectors swarmbench DIR`.

Every episode is replayed from its seed and from its stored state; positions, grid, score, task
state, views and heard messages are compared in every round. Invariant: a malformed file is a
failed vector with a reason, never an exception.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from waggle.core.errors import ConfigError, WaggleError
from waggle.substrates.swarmbench.sim.answer import parse_answer, render_view
from waggle.substrates.swarmbench.sim.config import LETTERS, Cell, WorldConfig
from waggle.substrates.swarmbench.sim.errors import StateError
from waggle.substrates.swarmbench.sim.levels import generate
from waggle.substrates.swarmbench.sim.stored import (
    Episode,
    Initial,
    Seen,
    StoredLayout,
    StoredRound,
    level_of_state,
)
from waggle.substrates.swarmbench.sim.world import GridWorld

MAX_BYTES = 256 * 1024 * 1024
"""A vector file larger than this, unpacked, is refused."""
TOLERANCE = 1e-9
_T = TypeVar("_T")


class VectorReport(msgspec.Struct, frozen=True):
    """What a replay found; `ok` only if everything passed and there was something to pass."""

    passed: int
    failed: int
    first_difference: str | None
    skipped: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether all vectors passed and at least one was found."""
        return self.failed == 0 and self.passed > 0


class StoredRender(msgspec.Struct, frozen=True):
    """One recorded text of a view."""

    view: list[str]
    pos: Cell
    text: str


class StoredAnswer(msgspec.Struct, frozen=True):
    """One recorded parse of an answer."""

    text: str
    sync: bool = False
    move: str | None = None
    speak: str | None = None


def check_vectors(folder: Path) -> VectorReport:
    """Replay every vector of a folder.

    Raises:
        ConfigError: if the folder does not exist.
    """
    if not folder.is_dir():
        raise ConfigError(f"no folder {str(folder)!r}; give the folder that holds the vectors")
    passed = failed = 0
    first: str | None = None
    skipped: list[str] = []
    for path in sorted(folder.iterdir()):
        if not path.name.endswith((".json", ".json.gz")) or path.name.startswith("manifest."):
            continue
        checker = _checker(path.name)
        if checker is None:
            skipped.append(path.name)
            continue
        for difference in _guarded(checker, path):
            passed += difference is None
            failed += difference is not None
            if difference is not None and first is None:
                first = f"{path.name}: {difference}"
    return VectorReport(passed, failed, first, tuple(skipped))


_Checker = Callable[[Path], Iterator[str | None]]


def _checker(name: str) -> _Checker | None:
    stem = name.removesuffix(".gz").removesuffix(".json")
    named: dict[str, _Checker] = {
        "layouts": _check_layouts,
        "render": _check_renders,
        "parser": _check_answers,
    }
    return named.get(stem) or (_check_episode if name.endswith(".json.gz") else None)


def _guarded(checker: _Checker, path: Path) -> Iterator[str | None]:
    """Turn whatever a bad file causes into one failed vector with its reason."""
    try:
        yield from checker(path)
    except (WaggleError, msgspec.MsgspecError, OSError, EOFError, zlib.error) as error:
        yield f"not a valid vector: {error}"
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
        yield f"not a valid vector ({type(error).__name__}: {error})"


def _read(path: Path, kind: type[_T]) -> _T:
    if path.stat().st_size > MAX_BYTES:
        raise StateError(f"larger than {MAX_BYTES} bytes; split it")
    data = path.read_bytes()
    if path.name.endswith(".gz"):
        data = _unpack(data)
    return msgspec.json.decode(data, type=kind)


def _unpack(packed: bytes) -> bytes:
    """Unpack gzip data, stopping at the size limit."""
    stream = zlib.decompressobj(wbits=31)
    data = stream.decompress(packed, MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise StateError(f"larger than {MAX_BYTES} bytes; split it")
    if not stream.eof:
        raise StateError("the gzip data is cut short; fetch the file again")
    return data


def _check_layouts(path: Path) -> Iterator[str | None]:
    for k, layout in enumerate(_read(path, list[StoredLayout])):
        difference = _layout_difference(layout)
        yield difference and f"layout {k} ({layout.task}, seed {layout.seed}): {difference}"


def _layout_difference(layout: StoredLayout) -> str | None:
    config = WorldConfig(
        task=layout.task,
        num_agents=layout.num_agents,
        width=layout.side,
        height=layout.side,
        seed=layout.seed,
        upstream_seed=True,
    )
    world = GridWorld(config, generate(config))
    return _first(
        ("agents", layout.agents, world.agents),
        ("grid", layout.grid, world.grid()),
        ("state", layout.state, world.state()),
    )


def _check_renders(path: Path) -> Iterator[str | None]:
    for k, stored in enumerate(_read(path, list[StoredRender])):
        text = render_view([row.split(" ") for row in stored.view], stored.pos)
        yield _first((f"text {k}", stored.text, text))


def _check_answers(path: Path) -> Iterator[str | None]:
    for k, stored in enumerate(_read(path, list[StoredAnswer])):
        answer = parse_answer(stored.text, stored.sync)
        yield _first((f"answer {k}", (stored.move, stored.speak), tuple(answer)))


def _check_episode(path: Path) -> Iterator[str | None]:
    episode = _read(path, Episode)
    config = episode.config.open()
    for origin in ("seed", "state"):
        if origin == "seed":
            world = GridWorld.from_seed(config)
        else:
            world = GridWorld(config, level_of_state(config, episode.initial))
        difference = _replay(world, episode, origin == "state")
        if difference is not None:
            yield f"from the {origin}, {difference}"
            return
    yield None


def _replay(world: GridWorld, episode: Episode, from_state: bool) -> str | None:
    difference = _initial_difference(world, episode.initial)
    if difference is not None:
        return f"initial {difference}"
    drawn = not from_state or episode.initial.rng_state is not None
    for t, stored in enumerate(episode.rounds):
        difference = _play(world, stored, drawn)
        if difference is not None:
            return f"round {t}: {difference}"
    return _final_difference(world, episode)


def _initial_difference(world: GridWorld, initial: Initial) -> str | None:
    return _first(
        ("agents", initial.agents, world.agents),
        ("terrain", initial.terrain, world.terrain),
        ("grid", initial.grid or world.grid(), world.grid()),
        ("state", initial.state, world.state()),
        ("score", initial.score, world.score),
    )


def _play(world: GridWorld, stored: StoredRound, drawn: bool) -> str | None:
    """Play one recorded round; return the first difference before or after it.

    Without a stored generator the next prey cannot be drawn, so it is put where it was recorded.
    """
    if stored.relocate_prey_before is not None:
        world.relocate_prey(stored.relocate_prey_before)
    for seen in stored.obs:
        difference = _view_difference(world, seen)
        if difference is not None:
            return f"agent {seen.id} {difference}"
    actions = [LETTERS[letter] for letter in stored.act]
    world.step(actions, {int(agent): text for agent, text in stored.say.items()})
    if stored.respawn is not None and not drawn:
        world.relocate_prey(stored.respawn)
    return _first(
        ("agents", stored.agents, world.agents),
        ("grid", stored.grid, world.grid()),
        ("state", stored.state, world.state()),
        ("score", stored.score, world.score),
    )


def _view_difference(world: GridWorld, seen: Seen) -> str | None:
    if not 0 <= seen.id < world.n:
        raise StateError(f"observed agent {seen.id} does not exist")
    observation = world.observe(seen.id)
    return _first(
        ("pos", seen.pos, observation.pos),
        ("view", seen.view, [" ".join(row) for row in observation.view]),
        ("heard", seen.heard, observation.heard),
        ("extra", seen.extra, dict(observation.extra)),
    )


def _final_difference(world: GridWorld, episode: Episode) -> str | None:
    final = episode.final
    if final is None:
        return None
    escaped = [agent for agent, gone in enumerate(world.escaped) if gone]
    difference = _first(
        ("final score", final.score, world.score),
        ("rounds", final.rounds, world.round),
        ("escaped", sorted(final.escaped), escaped),
    )
    if difference is None and final.ended != "cap" and not world.finished:
        return f"ended by {final.ended!r}, but the world is not finished"
    return difference


def _first(*pairs: tuple[str, object, object]) -> str | None:
    """Name the first pair that differs, with both values cut to a readable length."""
    for name, expected, found in pairs:
        if isinstance(expected, float) and isinstance(found, int | float):
            same = abs(expected - found) <= TOLERANCE
        else:
            same = expected == found
        if not same:
            return f"{name}: expected {str(expected)[:200]}, found {str(found)[:200]}"
    return None
