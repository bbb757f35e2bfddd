"""Workers inside an episode: same record as without, schedules, faults, replay, relabelling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from waggle import plugins
from waggle.core.errors import ConfigError
from waggle.core.protocols import Case, Usage
from waggle.core.record import EpisodeRecord
from waggle.core.schema import WAIT
from waggle.core.worker import Work
from waggle.runtime.perturb import Perturbation
from waggle.runtime.records import RecordFile, read
from waggle.runtime.replay import first_difference, replay, view_of
from waggle.runtime.staff import Staff
from waggle.testing.episodes import permutation, play
from waggle.testing.propositions import first_difference as relabelled_difference
from waggle.workers.desk import WorkerDesk
from waggle.workers.hire import hire

PURSUIT = Case("swarmbench", "pursuit", 8, 10_000, 20, True)
COUNT = Case("silo", "I-05", 8, 10_003, 18, True)
CASES = [PURSUIT, COUNT, Case("silo", "II-16", 8, 10_000)]
SILO = [Case("silo", task, 4, 10_001, 3) for task in plugins.get_substrate("silo").tasks]


def run(case: Case, staff: Staff | None, **settings: Any) -> EpisodeRecord:
    law = plugins.get_law("expert")
    return play(plugins.get_substrate(case.substrate), law, case, staff=staff, **settings)


def staff_of(worker: Callable[[Work], Any], schedule: Any = "full") -> Staff:
    return Staff(WorkerDesk(worker, {"name": "test"}), schedule)


def without_work(record: EpisodeRecord) -> EpisodeRecord:
    """Return a record as if nobody had been hired."""
    rounds = tuple(
        msgspec.structs.replace(
            r, updates=tuple(msgspec.structs.replace(u, work=None) for u in r.updates)
        )
        for r in record.rounds
    )
    counters = {k: v for k, v in record.footer.counters.items() if not k.startswith("worker.")}
    return EpisodeRecord(
        msgspec.structs.replace(record.header, worker={}),
        rounds,
        msgspec.structs.replace(record.footer, counters=counters),
    )


@pytest.mark.parametrize("case", [*CASES, *SILO], ids=lambda case: case.task)
def test_the_substrates_own_rule_behind_the_door_changes_nothing(case: Case) -> None:
    hired = run(case, hire("native"))
    assert first_difference(run(case, None), without_work(hired)) == ""
    assert hired.footer.counters["worker.calls"] == hired.footer.counters["updates"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.task)
def test_the_same_seed_gives_the_same_record_and_it_replays(case: Case, tmp_path: Path) -> None:
    record = run(case, hire("slips", rate=0.3, schedule="reuse"))
    assert record == run(case, hire("slips", rate=0.3, schedule="reuse"))
    path = tmp_path / "record.jsonl.gz"
    with RecordFile(path) as sink:
        sink.header(record.header)
        for entry in record.rounds:
            sink.round(entry)
        sink.footer(record.footer)
    world = plugins.get_substrate(case.substrate).open(case)
    assert replay(read(path), world).difference == ""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.task)
@pytest.mark.parametrize("schedule", ["full", "reuse"])
def test_both_engines_and_relabelled_swarms_ask_the_same(case: Case, schedule: str) -> None:
    regime = Perturbation(delay=1, loss=0.1, churn=0.2)
    keys = permutation(case.n, 3)
    one = run(case, hire("slips", schedule=schedule), perturbation=regime)
    two = run(case, hire("slips", schedule=schedule), perturbation=regime, engine="event")
    assert one.rounds == two.rounds and one.footer == two.footer
    other = run(case, hire("slips", schedule=schedule), perturbation=regime, keys=keys, salt=4)
    assert relabelled_difference(one, other) is None


def test_reuse_asks_first_and_when_something_new_was_delivered() -> None:
    case = Case("silo", "II-16", 8, 10_000)
    full, reuse = run(case, hire("native")), run(case, hire("native", schedule="reuse"))
    assert [r.score for r in full.rounds] == [r.score for r in reuse.rounds]
    held: dict[int, int] = {}
    for entry in reuse.rounds:
        for update in entry.updates:
            view = view_of(reuse.header, update)
            gained = view.private.observation["gained"]
            assert (update.work is not None) == (update.node not in held or gained != 0)
            held[update.node] = 1
    one, two = full.footer.counters, reuse.footer.counters
    assert two["worker.calls"] + two["worker.reused"] == one["worker.calls"]
    assert two["worker.tokens.input"] < one["worker.tokens.input"]


def test_late_counterevidence_is_solved_anew_under_reuse() -> None:
    record = run(COUNT, hire("native", schedule="reuse"))
    assert record.shock is not None
    entry = record.rounds[record.shock.round]
    asked = {u.node for u in entry.updates if u.work is not None}
    assert set(record.shock.nodes) <= asked


def test_calls_and_tokens_of_every_worker_stand_in_the_record() -> None:
    record = run(PURSUIT, hire("native"))
    spent: Counter[int] = Counter()
    for update in (u for r in record.rounds for u in r.updates):
        assert update.work is not None and update.work.usage.calls == 1
        spent[update.node] += update.work.usage.input_tokens
    assert sum(spent.values()) == record.footer.counters["worker.tokens.input"] and len(spent) == 8
    assert record.header.worker == {"name": "native", "schedule": "full"}


def fails(work: Work) -> Any:
    raise RuntimeError("no")


@pytest.mark.parametrize(
    ("worker", "case"),
    [
        (fails, PURSUIT),
        (fails, COUNT),
        (lambda work: "FLY", PURSUIT),
        (lambda work: "", COUNT),
        (lambda work: "\x1b[2J", COUNT),
        (lambda work: ["UP"], PURSUIT),
    ],
)
def test_a_worker_that_never_answers_leaves_its_node_waiting(
    worker: Callable[[Work], Any], case: Case
) -> None:
    record = run(case, staff_of(worker))
    count = record.footer.counters
    kind = "worker.failures" if worker is fails else "worker.refused"
    assert count[kind] == count["worker.calls"] == count["updates"]
    for update in (u for r in record.rounds for u in r.updates):
        proposal = view_of(record.header, update).proposal
        assert proposal.claim is None and proposal.action in (WAIT, "GATHER")
    world = plugins.get_substrate(case.substrate).open(case)
    assert replay(record, world).difference == ""


def test_a_worker_that_fails_later_leaves_its_node_the_latest_proposal() -> None:
    left = 8  # one answer for each of eight nodes

    def tires(work: Work) -> Any:
        nonlocal left
        left -= 1
        return "UP" if left >= 0 else fails(work)

    record = run(PURSUIT, staff_of(tires, "reuse"))
    last = record.rounds[-1].updates
    assert {view_of(record.header, u).proposal.action for u in last} == {"UP"}
    count = record.footer.counters
    assert count["worker.calls"] == 8 + count["worker.failures"]


def test_a_failed_solve_is_tried_again_under_reuse() -> None:
    calls = 0

    def fails_once(work: Work) -> Any:
        nonlocal calls
        calls += 1
        return fails(work) if calls <= 8 else "DOWN"

    record = run(PURSUIT, staff_of(fails_once, "reuse"))
    used = [u.work.usage for u in record.rounds[1].updates if u.work is not None]
    assert used and all(isinstance(u, Usage) and u.failures == 0 for u in used)


def test_a_substrate_without_work_says_so() -> None:
    case = Case("beacon", "beacon", 8, 10_000)
    with pytest.raises(ConfigError, match="no private workers"):
        run(case, hire("native"))
