"""Play one episode from Python.

    episode = waggle.run("beacon", "heuristic", n=16, seed=10_000, shock=True, scouts=0.5)

`prepare` resolves everything that determines the episode; `run` plays it and keeps its record in
memory. `waggle run` prepares in the same way and writes the record to disk while it plays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from operator import index
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Literal, TypeAlias

import msgspec

from waggle.api import screen
from waggle.api.episode import Episode
from waggle.api.given import LawLike, TaskLike, WorkerLike, among, find_law, find_task, find_worker
from waggle.api.options import LAW, SETTINGS, WORKER, checked, mirror, sort_options
from waggle.api.progress import counting
from waggle.api.watch import FPS, Frames
from waggle.core.errors import ConfigError
from waggle.core.order import Order
from waggle.core.protocols import Case, Law, Substrate, World
from waggle.core.record import Footer, RoundRecord
from waggle.plugins import Task
from waggle.runtime.defence import Defence
from waggle.runtime.eventdriven import EventEngine
from waggle.runtime.perturb import Perturbation
from waggle.runtime.recorder import Memory, Sink
from waggle.runtime.staff import Staff
from waggle.runtime.switches import Switches
from waggle.runtime.sync import Engine, Watcher, native_order, native_switches
from waggle.runtime.worlds import check_world
from waggle.shards.cluster import on_ray
from waggle.shards.coordinator import Coordinator

MAX_N = 1_000_000
"""More agents than this are taken for a typing error."""
EngineName: TypeAlias = Literal["sync", "event"]
"""The two engines."""
RunEngine: TypeAlias = Literal["sync", "event", "ray"]
"""How one episode is played: on an engine, or on the synchronous one over many Ray actors."""


@dataclass(frozen=True)
class Setup:
    """Everything that determines one episode, with its world opened."""

    task: Task
    substrate: Substrate
    case: Case
    world: World
    law: Law
    make: Callable[[], Law]
    """Creates the law again, in another process."""
    engine: RunEngine
    order: Order
    switches: Switches
    perturbation: Perturbation
    defence: Defence
    staff: Staff | None

    def settings(self) -> dict[str, Any]:
        """Return the settings of the runtime."""
        return {
            "order": self.order, "switches": self.switches, "perturbation": self.perturbation,
            **({} if self.defence == Defence() else {"defence": self.defence}),
        }  # fmt: skip

    def play(self, sinks: Sequence[Sink], watch: Watcher | None = None) -> Footer:
        """Play the episode in this process; a world can be played only once."""
        kind = Engine if self.engine == "sync" else EventEngine
        engine = kind(
            self.world, self.law, self.case, sinks=sinks, watch=watch, staff=self.staff,
            **self.settings(),
        )  # fmt: skip
        return engine.play()

    def on_ray(self, folder: Path, watch: Watcher | None = None, **sharding: Any) -> Coordinator:
        """Return the episode on Ray, ready to play; `sharding` as in `waggle.shards.cluster`.

        Raises:
            ConfigError: if the episode cannot be divided into shards.
        """
        if self.staff is not None:
            raise ConfigError("private workers need the engine sync or event; leave --worker out")
        return on_ray(
            self.world, self.law, self.make, self.substrate.open, self.case, folder=folder,
            watch=watch, **sharding, **self.settings(),
        )  # fmt: skip


def run(
    task: TaskLike,
    law: LawLike = "heuristic",
    *,
    worker: WorkerLike = "",
    n: int = 16,
    seed: int = 0,
    rounds: int | None = None,
    order: Order | None = None,
    engine: RunEngine = "sync",
    shards: int = 2,
    shock: bool = False,
    watch: bool | Watcher = False,
    progress: bool = True,
    **options: Any,
) -> Episode:
    """Play one episode and return it.

    The same call gives the same episode, except with laws that call an endpoint which samples.

    Args:
        task: a name of `waggle list tasks`, a substrate, or a pair (substrate, name of a task).
        law: a name of `waggle list laws`, a Python file that registers one law, a law's folder, a
            class, or an object with `decide`.
        worker: the source of private proposals, instead of the task's own rule: a name,
            `FILE.py:callable`, or a callable.
        n: agents in the swarm.
        seed: names the episode; use 10,000 to 10,999 while you develop.
        rounds: local updates per agent; the task's own horizon if None.
        order: how a view lists its records; the law's own order if None.
        engine: `sync` forms all views of a round from one state; `event` runs calls, deliveries and
            timers in virtual time; `ray` plays the same as `sync`, over many Ray actors.
        shards: number of actors that the nodes are divided among, on the engine `ray`.
        shock: whether late counterevidence is injected, if the task supports it.
        watch: draw every round; or a function that is called with every round and the world.
        progress: show a bar on a terminal, a line in a notebook.
        **options: options of the task, law, worker and runtime, by their names after the dot on
            the command line, such as `regime="ports"` or `loss=0.1`.

    Raises:
        WaggleError: one line that names what was wrong and the fix.
    """
    setup = prepare(
        task, law, worker=worker, n=n, seed=seed, rounds=rounds, order=order, engine=engine,
        shock=shock, options=options,
    )  # fmt: skip
    memory = Memory()
    start = perf_counter()
    with watching(setup.world, watch, quiet=not progress, tell=screen.write) as watcher:
        if engine == "ray":
            with TemporaryDirectory() as folder:
                setup.on_ray(Path(folder), watcher, shards=shards).play([memory])
        else:
            setup.play([memory], watcher)
    return Episode(memory.record(), setup.substrate, perf_counter() - start)


def prepare(
    task: TaskLike,
    law: LawLike,
    *,
    worker: WorkerLike,
    n: int,
    seed: int,
    rounds: int | None,
    order: Order | None,
    engine: RunEngine,
    shock: bool,
    options: Mapping[str, Any],
) -> Setup:
    """Resolve an episode and open its world; arguments are those of `run`.

    Raises:
        WaggleError: if the episode cannot be played as given.
    """
    among("engine", engine, RunEngine)
    found, source = find_task(task), find_law(law)
    hired = find_worker(worker) if worker else None
    substrate = found.substrate
    sorted_ = sort_options(
        options,
        {
            substrate.name: substrate.options.model_fields,
            LAW: source.options,
            WORKER: hired.options if hired else (),
            **{name: struct.__struct_fields__ for name, struct in SETTINGS.items()},
        },
    )
    own = checked(substrate.name, substrate.options, sorted_[substrate.name])
    perturb, switch, defend = (
        checked(name, mirror(struct), sorted_[name]) for name, struct in SETTINGS.items()
    )
    horizon = None if rounds is None else count("rounds", rounds)
    case = Case(
        found.task.substrate, found.task.task, count("n", n), _seed(seed), horizon, shock, own
    )
    made = source.make(**sorted_[LAW])
    world = substrate.open(case)
    check_world(world, substrate.name)
    native = native_switches(made, world)
    return Setup(
        found.task,
        substrate,
        case,
        world,
        made,
        partial(source.make, **sorted_[LAW]),
        engine,
        among("order", order or native_order(made), Order),
        msgspec.structs.replace(native, **switch),
        Perturbation(**perturb).on(engine),
        Defence(**defend),
        hired.make(**sorted_[WORKER]) if hired else None,
    )


def count(name: str, value: int) -> int:
    """Return a number of agents or rounds.

    Raises:
        ConfigError: if it is not a whole number from 1 to `MAX_N`.
    """
    number = _whole(name, value)
    if not 1 <= number <= MAX_N:
        raise ConfigError(f"{name} must be from 1 to {MAX_N:,}, not {number}")
    return number


def _seed(value: int) -> int:
    number = _whole("seed", value)
    if number < 0:
        raise ConfigError(f"seed must be at least 0, not {number}")
    return number


def _whole(name: str, value: int) -> int:
    """Return an integer of any type, such as a NumPy integer, as an `int` for the record."""
    try:
        return int(index(value))
    except TypeError:
        raise ConfigError(f"{name} is a whole number, not {value!r:.60}") from None


@contextmanager
def watching(
    world: World,
    watch: bool | Watcher,
    *,
    quiet: bool,
    tell: Any = screen.note,
    fps: float = FPS,
    step: bool = False,
) -> Iterator[Watcher]:
    """Yield a watcher for one episode: the given one, drawn rounds, lines, or a progress bar.

    Rounds are drawn in place on a terminal, with `fps` and `step` as in `Frames`.
    """
    terminal = screen.err()
    if not isinstance(watch, bool):
        yield watch
    elif watch and terminal.is_terminal and not terminal.is_dumb_terminal:
        with Frames(terminal, fps=fps, step=step) as frames:
            yield frames
    elif watch:
        yield screen.Rounds(tell)
    else:
        with counting("rounds", world.rounds, quiet=quiet) as count_one:

            def advance(entry: RoundRecord, _: World) -> None:
                count_one(screen.score_of(entry))

            yield advance
