"""Conformance of a substrate: the requirements of the anonymous contract on every world.

    check_substrate(Hive()).require()

Each check plays short episodes and inspects their records. The relabelling checks are
Propositions 1 and 2: the same case with permuted bodies and fresh opaque names must give the
relabelled trajectory bit for bit, on both engines, also under delay, loss and churn. The last two
checks test that the law, not the adapter, organises the swarm (`channels`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isclose
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import msgspec

from waggle import plugins
from waggle.core.admit import violations
from waggle.core.errors import ConfigError, suggest
from waggle.core.protocols import Case, Law, Local, Sensed, Substrate, World
from waggle.core.record import RoundRecord
from waggle.core.schema import WAIT, Json, private_decision
from waggle.core.worker import Workplace
from waggle.core.world import Divisible
from waggle.runtime import replay
from waggle.runtime.perturb import Perturbation
from waggle.runtime.recorder import Memory
from waggle.runtime.replay import view_of
from waggle.runtime.sync import Engine
from waggle.shards.coordinator import Coordinator
from waggle.shards.division import divide
from waggle.shards.inline import InlineShards
from waggle.testing import channels
from waggle.testing.episodes import permutation, play, shocked, short
from waggle.testing.propositions import first_difference, relabelling
from waggle.testing.report import Report
from waggle.workers.hire import hire

LAWS = ("heuristic", "random-legal")
"""The laws that a substrate is played with: a sensible one and one that tries everything."""

_SEEDS = 4
_TOLERANCE = 1e-9
"""The largest allowed difference between the mean of the shares and their score."""


def check_substrate(
    substrate: Substrate | str,
    task: str | None = None,
    *,
    n: int = 8,
    seed: int = 10_000,
    options: Mapping[str, Json] | None = None,
    laws: Sequence[str] = LAWS,
    trajectories: bool = True,
) -> Report:
    """Check one task of a substrate, or all of them.

    Args:
        substrate: the object, or its registered name.
        task: one task; None checks all.
        n: population of the test episodes; choose one that the substrate allows.
        seed: seed of the test episodes.
        options: the substrate's own options.
        laws: registered laws to play it with.
        trajectories: whether to play the relabelled episodes too, which takes the longest.
    """
    made = plugins.get_substrate(substrate) if isinstance(substrate, str) else substrate
    chosen = made.tasks if task is None else (task,)
    if task is not None and task not in made.tasks:
        hint = suggest(task, list(made.tasks))
        raise ConfigError(f"task {task!r} is unknown; see `waggle list tasks`{hint}")
    report = Report(f"substrate {made.name}")
    cases = [Case(made.name, t, n, seed, options=dict(options or {})) for t in chosen]
    for name, about, check in _CHECKS if trajectories else _CHECKS[:-1]:
        report.run(name, about, lambda check=check: _first(check, made, cases, laws))  # type: ignore[misc]
    declared = all(channels.declares_snapshots(made, case) for case in cases)
    about = "exempt: declared snapshots" if declared else "nothing travels that no view shows"
    report.run("payload", about, lambda: _among(channels.unseen, made, cases))
    about = "an action that a law chooses is done, or nothing"
    report.run("law chooses", about, lambda: _among(channels.overridden, made, cases))
    return report


_Check = Callable[[Substrate, Case, Law], Iterator[str]]


def _first(
    check: _Check, substrate: Substrate, cases: Sequence[Case], laws: Sequence[str]
) -> str | None:
    """Return the first finding of a check over tasks and laws."""
    for case in cases:
        for law in laws:
            cut = short(substrate, case)
            finding = next(check(substrate, cut, plugins.get_law(law)), None)
            if finding is not None:
                return f"{case.task} under {law}: {finding}"
    return None


def _among(
    look: Callable[[Substrate, Case], Iterator[str]], substrate: Substrate, cases: Sequence[Case]
) -> str | None:
    """Return the first finding of a check that chooses its own laws."""
    for case in cases:
        finding = next(look(substrate, case), None)
        if finding is not None:
            return f"{case.task}: {finding}"
    return None


def _views(substrate: Substrate, case: Case, law: Law) -> Iterator[str]:
    """Check views by playing: the engine itself rejects an unbounded view or a forbidden key."""
    world = substrate.open(case)
    if any(i in world.neighbours(i) for i in world.active()):
        yield "neighbours() names the node itself; a node is no contact of its own"
    play(substrate, law, case)


def _actions(substrate: Substrate, case: Case, law: Law) -> Iterator[str]:
    """Check that every view's proposal is admissible and every actor gets a native action."""
    record = play(substrate, law, case)
    if WAIT not in record.header.contract.actions:
        yield f"{WAIT} is not among the contract's actions"
    for entry in record.rounds:
        for update in entry.updates:
            view = view_of(record.header, update)
            codes = violations(view, private_decision(view))
            if codes:
                yield f"round {entry.round}: the proposal {view.proposal.action!r} breaks {codes}"
            if update.native is None:
                yield f"round {entry.round}: step() returned no native action for an actor"


def _pure(substrate: Substrate, case: Case, law: Law) -> Iterator[str]:
    """Check that sensing twice returns the same result and changes nothing."""
    world = substrate.open(case)
    if _sensed(world) != _sensed(world):
        yield "sense() shows something else when called again; it must not change state"
    memory = Memory()
    Engine(cast(World, _SensedTwice(substrate.open(case))), law, case, sinks=[memory]).play()
    found = replay.first_difference(play(substrate, law, case), memory.record())
    if found:
        yield f"calling sense() twice in every round changes the episode: {found}"


class _SensedTwice:
    """A wrapper of a world that senses every node twice."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    def sense(self, node: int, local: Local) -> Sensed:
        """Return what the node senses the second time."""
        self._world.sense(node, local)
        return self._world.sense(node, local)


def _seeding(substrate: Substrate, case: Case, law: Law) -> Iterator[str]:
    """Check that one seed gives one episode, and not all seeds give the same world."""
    found = first_difference(play(substrate, law, case), play(substrate, law, case))
    if found is not None:
        yield f"the same seed twice differs: {found}"
    worlds = [substrate.open(_reseeded(case, k)) for k in range(_SEEDS)]
    if all(_sensed(world) == _sensed(worlds[0]) for world in worlds[1:]):
        yield f"seeds {case.seed} to {case.seed + _SEEDS - 1} all open the same world"


def _batch_order(substrate: Substrate, case: Case, law: Law) -> Iterator[str]:
    """Check that nodes are sensed from one state, so that the order of sensing does not matter."""
    world = substrate.open(case)
    nodes = list(world.active())
    nothing = Local((), None)
    forth = {i: world.sense(i, nothing) for i in nodes}
    back = {i: world.sense(i, nothing) for i in reversed(nodes)}
    if forth != back:
        yield "what a node senses depends on who was sensed before it"


def _private_work(substrate: Substrate, case: Case, law: Law) -> Iterator[str]:
    """Check that questions to workers, and the proposals they make, are pure and name no nodes."""
    keys = permutation(case.n, case.seed)
    here, there = substrate.open(case), substrate.open(case, keys)
    if not isinstance(here, Workplace) or not isinstance(there, Workplace):
        return
    place = {body: node for node, body in enumerate(keys)}
    nothing = Local((), None)
    for node in here.active():
        work = here.work(node, nothing)
        asked = work.question()
        if here.work(node, nothing).question() != asked:
            yield "work() asks something else when called again; it must not change state"
        if there.work(place[node], nothing).question() != asked:
            yield "work() asks something else of a relabelled swarm; it must not name nodes"
    if work.native is None:
        return
    one = play(substrate, law, case, staff=hire("native"))
    two = play(substrate, law, case, staff=hire("native"), keys=keys, salt=1)
    found = first_difference(one, two)
    if found is not None:
        yield f"with workers, relabelling the swarm changes more than labels: {found}"


def _shares(substrate: Substrate, case: Case, law: Law) -> Iterator[str]:
    """Check that a world's shares average to its score, and are relabelled with the swarm."""
    here, there = substrate.open(case), substrate.open(case, permutation(case.n, case.seed))
    if not hasattr(here, "share"):
        return
    parts = _shared(here, law, case), _shared(there, law, case)
    for round, (score, shares) in enumerate(parts[0]):
        missing = [part is None for part in shares.values()]
        if all(missing):
            continue
        if any(missing):
            yield f"round {round}: share() is None for some nodes; give all of them a part, or none"
        mean = sum(shares.values()) / case.n
        if not isclose(mean, score, abs_tol=_TOLERANCE):
            name = getattr(here, "share_of", "score")
            yield f"round {round}: shares average to {mean:.6g}, but {name!r} is {score:.6g}"
    for round, (one, two) in enumerate(zip(*parts, strict=True)):
        if one[1] != two[1]:
            yield f"round {round}: relabelling the swarm gives the shares to other bodies"


def _shared(world: Any, law: Law, case: Case) -> list[tuple[float, dict[int, Any]]]:
    """Play an episode; return the score and the shares of all bodies after every round."""
    found: list[tuple[float, dict[int, Any]]] = []

    def watch(entry: RoundRecord, _: World) -> None:
        score = entry.score[getattr(world, "share_of", "score")]
        found.append((score, {world.keys[i]: world.share(i) for i in range(world.n)}))

    Engine(world, law, case, watch=watch).play()
    return found


def _dealt(substrate: Substrate, case: Case, law: Law) -> Iterator[str]:
    """Check that a world that can be divided among shards gives the record of one process."""
    late = shocked(substrate, case)
    world = substrate.open(late)
    if not isinstance(world, Divisible) or world.n < 2:
        return
    setting: dict[str, Any] = {"order": "shuffled", "perturbation": Perturbation(delay=1)}
    memory = Memory()
    with TemporaryDirectory() as folder:
        division = divide(
            world, law, substrate.open, late, shards=2, folder=Path(folder), **setting
        )
        group = InlineShards(division, law)
        Coordinator(division, world, law, group, keep_every=2).play([memory])
    found = replay.first_difference(play(substrate, law, late, **setting), memory.record())
    if found:
        yield f"two shards, one process: {found}"


def _relabelling(substrate: Substrate, case: Case, law: Law) -> Iterator[str]:
    """Check Propositions 1 and 2 over engines and regimes."""
    found = relabelling(substrate, law, case)
    if found is not None:
        yield found


def _sensed(world: World) -> list[tuple[Sequence[int], Sensed]]:
    """Return what every active node senses at the start."""
    nothing = Local((), None)
    return [(tuple(world.neighbours(i)), world.sense(i, nothing)) for i in world.active()]


def _reseeded(case: Case, offset: int) -> Case:
    return msgspec.structs.replace(case, seed=case.seed + offset)


_CHECKS: tuple[tuple[str, str, _Check], ...] = (
    ("bounded view", "views are bounded and hold no forbidden key", _views),
    ("legal actions", "proposals are admissible and actors get a native action", _actions),
    ("pure sensing", "sensing changes nothing", _pure),
    ("seeding", "a seed fixes the episode and seeds differ", _seeding),
    ("batch order", "the order of nodes does not matter", _batch_order),
    ("private work", "what workers are asked names nobody, if any can be hired", _private_work),
    ("shares", "shares average to their score, if any are given", _shares),
    ("shards", "two shards give the record of one process, if it can be dealt", _dealt),
    ("relabelling", "relabelled swarms give the relabelled trajectory", _relabelling),
)
