"""Candidate, executed, suppressed by cause; commitments that form, hold, reopen."""

from __future__ import annotations

import pytest

from tests.runtime.swarms import CASE, REFUTED, SEEN, Toy, play
from waggle.core.errors import ContractError
from waggle.core.protocols import Request, Write
from waggle.core.record import EpisodeRecord
from waggle.core.schema import BROADCAST, Commitment, Decision, Trace, View
from waggle.runtime import names
from waggle.runtime.names import HANDLES, handle
from waggle.runtime.perturb import Perturbation, Schedule
from waggle.runtime.state import Swarm
from waggle.runtime.switches import Switches
from waggle.runtime.transport import Transport
from waggle.runtime.views import show


def deposit(view: View, channel: str | None = None, conflict: int = 0) -> Trace:
    row = view.private.evidence[0]
    handle = channel or max(view.private.channels, key=lambda p: (p.lot, p.channel)).channel
    return Trace(handle, row.claim, 0 if conflict else 4, 0 if conflict else 3, conflict, 8)


def speak(request: Request) -> Decision:
    view = request.view
    if not view.private.evidence:
        return Decision("GO", None, (), None)
    conflict = 4 if view.private.evidence[0].conflict else 0
    return Decision("GO", None, (deposit(view, BROADCAST, conflict),), None)


def causes(record: EpisodeRecord) -> list[str | None]:
    return [w.cause for r in record.rounds for u in r.updates for w in u.writes]


def test_broadcast_reaches_every_contact_once_and_repeats_are_blocked() -> None:
    world = Toy(evidence={(t, 0): [SEEN] for t in range(4)})
    record = play(world, speak)
    assert causes(record) == [None, "duplicate", "duplicate", "duplicate"]
    assert record.footer.counters["messages.delivered"] == 2
    assert [r.delivered for r in record.rounds] == [2, 0, 0, 0]


def test_refresh_lets_a_repeat_through() -> None:
    world = Toy(evidence={(t, 0): [SEEN] for t in range(4)})
    record = play(world, speak, switches=Switches(refresh=2))
    assert causes(record) == [None, "duplicate", None, "duplicate"]
    assert record.footer.counters["writes.refreshed"] == 1


def test_context_safeguard_and_lonely_broadcast_have_their_cause() -> None:
    world = Toy(rounds=1, evidence={(0, 0): [SEEN]})
    world.withheld = "route"
    assert causes(play(world, speak)) == ["route"]
    world = Toy(rounds=1, evidence={(0, 0): [SEEN]})
    world.edges = set()
    assert causes(play(world, speak)) == ["no_contact"]


def test_unverified_challenge_is_blocked() -> None:
    """A relayed conflict without own evidence is a candidate, but never sent."""

    def law(request: Request) -> Decision:
        view = request.view
        if view.private.evidence:
            return speak(request)
        hostile = [t for t in view.traces if t.conflict]
        if not hostile:
            return Decision("GO", None, (), None)
        t = hostile[0]
        return Decision("GO", None, (Trace(BROADCAST, t.claim, 0, 0, t.conflict, t.ttl - 1),), None)

    record = play(Toy(rounds=2, evidence={(0, 0): [REFUTED]}), law)
    assert causes(record) == [None, "unverified", "unverified"]


def test_zero_mass_missing_source_and_spent_lifetime() -> None:
    world = Toy(rounds=1, evidence={(0, 0): [SEEN]})
    swarm = Swarm(world, CASE, Switches(), 0)
    transport = Transport(swarm, Schedule(Perturbation(), 0, world.keys, 1))
    shown = show(swarm, 0, 0, "shuffled")
    claim = shown.view.private.evidence[0].claim
    nothing = Decision("GO", None, (Trace(BROADCAST, claim, 0, 0, 0, 8),), None)
    assert transport.stage(0, shown, nothing, 0)[0].cause == "zero_mass"
    relay = Write(0, 1, "apple", 1, 1, 0, 3, None, False)
    assert transport._cause(shown, [relay], False) == "missing"
    spent = Write(0, 1, "apple", 1, 1, 0, 0, None, True)
    assert transport._cause(shown, [spent], True) == "lifetime"


def commit_then_challenge(request: Request) -> Decision:
    view = request.view
    if not view.private.evidence:
        return Decision("GO", None, (), None)
    if view.private.evidence[0].conflict:
        return Decision("GO", None, (deposit(view, BROADCAST, 4),), None)
    claim = view.private.evidence[0].claim
    return Decision("GO", None, (), Commitment(claim, 3))


EVIDENCE = {(0, 0): [SEEN], (1, 0): [], (2, 0): [REFUTED], (3, 0): []}


def commitments(record: EpisodeRecord) -> list[str | None]:
    return [r.updates[0].claim for r in record.rounds]


def test_commitment_forms_holds_and_reopens_by_verified_conflict() -> None:
    record = play(Toy(evidence=EVIDENCE), commit_then_challenge)
    assert commitments(record) == ["apple", "apple", None, None]
    assert record.rounds[2].updates[0].reopened == "apple"


@pytest.mark.parametrize("switches", [Switches(conflict=False), Switches(reversible=False)])
def test_ablations_never_reopen(switches: Switches) -> None:
    record = play(Toy(evidence=EVIDENCE), commit_then_challenge, switches=switches)
    assert commitments(record) == ["apple"] * 4


def test_no_decay_keeps_traces() -> None:
    world = Toy(rounds=4, evidence={(0, 0): [SEEN]})
    kept = play(world, speak, switches=Switches(decay=False))
    faded = play(Toy(rounds=4, evidence={(0, 0): [SEEN]}), speak)
    assert kept.rounds[-1].field["apple"].novelty == 8
    assert faded.rounds[-1].field["apple"].novelty == 2


def test_writes_become_visible_at_the_next_update_only() -> None:
    seen: list[int] = []

    def law(request: Request) -> Decision:
        seen.append(len(request.view.traces))
        return speak(request)

    play(Toy(rounds=2, evidence={(0, 0): [SEEN]}), law)
    assert seen == [0, 0, 0, 0, 1, 1]


def test_a_node_that_has_used_all_its_handles_is_told_so() -> None:
    taken = list(HANDLES)
    assert handle(1, 2, 0, taken[:-1]) == taken[-1]
    with pytest.raises(ContractError, match="let handles last for a contact"):
        handle(1, 2, 0, taken)


def test_an_episode_that_has_used_all_its_aliases_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "CLAIMS", 2)
    aliases = names.Aliases(1, 0)
    assert aliases.alias("one") != aliases.alias("two")
    with pytest.raises(ContractError, match="share a claim"):
        aliases.alias("three")
    assert aliases.alias("one") in aliases.claims


@pytest.mark.parametrize(
    ("share", "nodes", "away"),
    [(0.07, 100, 7), (0.1, 64, 7), (0.1, 30, 3), (1e-9, 100, 1), (1.0, 5, 5), (1, 5, 5), (0, 5, 0)],
)
def test_a_share_of_the_nodes_is_away(share: float, nodes: int, away: int) -> None:
    schedule = Schedule(Perturbation(churn=share, churn_at=0), 1, range(nodes), 4)
    assert len(schedule.suspended(0)) == away
