"""Controls: silent, random, scripted, and the port rules."""

from __future__ import annotations

import pytest

from tests.laws.views import episode_views, view
from waggle.core import seeds
from waggle.core.admit import violations
from waggle.core.protocols import Decode, Request
from waggle.core.schema import Commitment, Contract, Evidence, Port, Proposal, Trace, View
from waggle.laws.controls import PrivateOnly, RandomLegal, Scripted
from waggle.laws.ports import FirstListed, MaxOffer, RandomPort, RoundRobin

OWN = Evidence("zb", 4, 2, 0)
ANSWERING = Contract("silo/x", "Answer.", ("READ", "ANSWER", "WAIT"), response="ANSWER")
PORTS = [
    Port("ha", 3, {"offer": 1, "sent": 6}),
    Port("hb", 7, {"offer": 4, "sent": 2}),
    Port("hc", 9, {"offer": 4, "sent": 6}),
]


def channel_of(
    law: RandomPort | RoundRobin | MaxOffer | FirstListed, shown: View, k: int = 0
) -> str:
    decision = law.decide([Request(shown, k)])[0].output
    assert not isinstance(decision, str)
    return decision.deposits[0].channel


def test_private_only_never_writes_or_commits() -> None:
    for decode in PrivateOnly().decide([Request(v) for v in episode_views()]):
        assert not isinstance(decode.output, str)
        assert decode.output.deposits == () and decode.output.commit is None


def test_random_legal_is_legal_and_depends_on_entropy_alone() -> None:
    views = episode_views()[::7]
    requests = [Request(v, seeds.derive(1, "t", k)) for k, v in enumerate(views)]
    decodes = RandomLegal().decide(requests)
    assert decodes == RandomLegal().decide(requests)
    for request, decode in zip(requests, decodes, strict=True):
        assert not isinstance(decode.output, str)
        assert violations(request.view, decode.output) == ()
    others = RandomLegal().decide(
        [Request(v, seeds.derive(2, "t", k)) for k, v in enumerate(views)]
    )
    assert decodes != others


def test_scripted_says_what_it_is_told() -> None:
    requests = [Request(view()), Request(view(), 5)]
    assert Scripted("{}").decide(requests) == [Decode("{}"), Decode("{}")]
    assert [d.output for d in Scripted(lambda r: str(r.entropy)).decide(requests)] == ["0", "5"]


def test_each_port_rule_names_its_port() -> None:
    shown = view(ports=PORTS, evidence=(OWN,))
    assert channel_of(RoundRobin(), shown) == "hc"
    assert channel_of(MaxOffer(), shown) == "hc"
    assert channel_of(FirstListed(), shown) == "ha"
    assert {channel_of(RandomPort(), shown, k) for k in range(50)} == {"ha", "hb", "hc"}


def test_the_fact_decides_before_the_lot() -> None:
    rows = [Port("ha", 15, {"offer": 1, "sent": 1}), Port("hb", 0, {"offer": 2, "sent": 2})]
    assert channel_of(RoundRobin(), view(ports=rows, evidence=(OWN,))) == "hb"
    assert channel_of(MaxOffer(), view(ports=rows, evidence=(OWN,))) == "hb"


def test_first_listed_relays_the_first_trace_it_may() -> None:
    dead, alive = Trace("hb", "zc", 1, 4, 0, 1), Trace("hb", "zd", 1, 2, 0, 5)
    decision = (
        FirstListed().decide([Request(view(traces=(dead, alive), evidence=(OWN,)))])[0].output
    )
    assert not isinstance(decision, str)
    assert decision.deposits == (Trace("ha", "zd", 1, 2, 0, 4),)


@pytest.mark.parametrize("law", [RandomPort(), RoundRobin(), MaxOffer(), FirstListed()])
def test_port_rules_answer_when_ready_or_when_told_to(law: RandomPort) -> None:
    reading = Proposal("READ", "42", "zb")
    waiting = view(contract=ANSWERING, proposal=reading, evidence=(OWN,), coverage=2)
    ready = view(contract=ANSWERING, proposal=reading, evidence=(OWN,), ready=("zb",))
    last = view(contract=ANSWERING, proposal=Proposal("ANSWER", "42", "zb"), evidence=(OWN,))
    first, second, third = (
        d.output for d in law.decide([Request(v) for v in (waiting, ready, last)])
    )
    assert not isinstance(first, str) and not isinstance(second, str) and not isinstance(third, str)
    assert (first.task_action, first.commit) == ("READ", None)
    assert (second.task_action, second.response) == ("ANSWER", "42")
    assert second.commit == Commitment("zb", 4)
    assert (third.task_action, third.response, third.commit) == ("ANSWER", "42", None)
    for shown, decision in ((waiting, first), (ready, second), (last, third)):
        assert violations(shown, decision) == ()
        assert len(decision.deposits) == 1


@pytest.mark.parametrize("law", [RandomPort(), RoundRobin(), MaxOffer(), FirstListed()])
def test_port_rules_are_admissible_on_real_views(law: RandomPort) -> None:
    views = episode_views()
    for shown, decode in zip(views, law.decide([Request(v, 9) for v in views]), strict=True):
        assert not isinstance(decode.output, str)
        assert violations(shown, decode.output) == ()
