"""The floor `relay` tells what it sees, relays what it hears, and organises nothing."""

from __future__ import annotations

from tests.laws.views import episode_views, view
from waggle.core.admit import violations
from waggle.core.schema import CLAIM_ARGUMENT, ClaimRow, Commitment, Contract, Evidence, Trace
from waggle.laws.relay import Relay, decide

SEEN = Evidence("zb", 4, 2, 0)
HEARD = Trace("ha", "zc", 1, 4, 0, 5)


def test_it_tells_what_it_sees_before_what_it_hears() -> None:
    decision = decide(view(evidence=(SEEN,), traces=(HEARD,)))
    assert [d.claim for d in decision.deposits] == ["zb"]
    assert decision.execution_intent is None


def test_it_relays_what_it_hears_and_follows_it_where_that_is_an_action() -> None:
    decision = decide(view(traces=(HEARD,)))
    assert [(d.claim, d.ttl) for d in decision.deposits] == [("zc", 4)]
    assert decision.task_action == "GO"
    contract = Contract("unknown/task", "Do well.", ("GO", f"TO:{CLAIM_ARGUMENT}", "WAIT"))
    listed = (ClaimRow("zc", {"way": "N"}),)
    follows = decide(view(traces=(HEARD,), contract=contract, claims=listed))
    assert follows.task_action == "TO:zc"
    sees = decide(view(traces=(HEARD,), evidence=(SEEN,), contract=contract, claims=listed))
    assert sees.task_action == "GO"


def test_it_tells_first_those_who_did_not_tell_it() -> None:
    """Channel `hb` has the larger lot."""
    told = Trace("hb", "zc", 1, 4, 0, 5)
    assert decide(view(traces=(told,))).deposits[0].channel == "ha"
    assert decide(view(traces=(told, HEARD))).deposits[0].channel == "hb"


def test_it_neither_commits_nor_challenges() -> None:
    refuted = decide(view(held=Commitment("za", 4), evidence=(Evidence("za", 2, 0, 3),)))
    assert not any(deposit.conflict for deposit in refuted.deposits)
    assert decide(view(ready=("zb",), evidence=(SEEN,))).commit is None


def test_every_decision_of_an_episode_is_admissible() -> None:
    for seen in episode_views():
        assert violations(seen, decide(seen)) == ()
    assert Relay.name == "relay"
