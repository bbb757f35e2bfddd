"""Defences: sealed provenance, doubt by handle, bounded reopening; off they leave no mark."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from tests.runtime.swarms import CASE, REFUTED, SEEN, Toy, play
from waggle import plugins
from waggle.core.canon import encode_view
from waggle.core.errors import ConfigError
from waggle.core.naming import Renaming
from waggle.core.protocols import Case, HeldTrace, Request, Write
from waggle.core.record import EpisodeRecord
from waggle.core.schema import Commitment, Decision, Evidence, Port, Trace, View, private_decision
from waggle.laws import exchange, moves
from waggle.runtime.defence import DOUBT, WINDOW, Defence, Provenance, Reopenings, Reputation, Tag
from waggle.runtime.perturb import Perturbation, Schedule
from waggle.runtime.recorder import Memory
from waggle.runtime.replay import first_difference, replay, view_of
from waggle.runtime.state import Swarm
from waggle.runtime.switches import Switches
from waggle.runtime.sync import Engine
from waggle.runtime.transport import Message, Transport
from waggle.testing import episodes
from waggle.testing.propositions import relabelling

ALL = Defence(provenance=True, reputation=True, reopening=1)
STALE = Perturbation(byzantine=0.2, attack="stale", delay=1)
SILO = Case("silo", "II-11", 12, 10_003, 6)
BEACON = Case("beacon", "beacon", 8, 10_003, 8, shock=True)
PURSUIT = Case("swarmbench", "pursuit", 8, 10_003, 6)


def write(claim: str = "apple", ttl: int = 8, fresh: bool = True, sender: int = 0) -> Write:
    return Write(sender, 2, claim, 4, 4, 0, ttl, None, fresh)


def held(write: Write) -> HeldTrace:
    return HeldTrace(write.sender, write.claim, 4, 4, 0, write.ttl, None)


def defended(
    case: Case, regime: Perturbation = STALE, engine: episodes.EngineName = "sync"
) -> EpisodeRecord:
    substrate, law = plugins.get_substrate(case.substrate), plugins.get_law("expert")
    return episodes.play(substrate, law, case, engine=engine, perturbation=regime, defence=ALL)


# Provenance.


def test_a_tag_fits_its_own_claim_origin_age_and_hops_alone() -> None:
    proof = Provenance(7, (0, 1, 2), exclusive=False)
    tag = proof.tag(write(), (), 3)
    assert tag is not None and tag.born == 3 and tag.hops == 0
    assert proof.fault(write(), tag, ()) is None
    forged = [
        (write("pear"), tag),
        (write(), tag._replace(born=5)),
        (write(), tag._replace(hops=1)),
        (write(), tag._replace(origin=tag.origin + 1)),
        (write(), Tag(tag.origin, 3, 0, bytes(16))),
        (write(), None),
        (write(), Provenance(8, (0, 1, 2), exclusive=False).tag(write(), (), 3)),
    ]
    assert [proof.fault(*each, ()) for each in forged] == ["forged"] * len(forged)
    assert proof.refused == {"forged": len(forged)}


def test_a_relay_keeps_the_origin_of_what_it_passes_on() -> None:
    proof = Provenance(7, (0, 1, 2), exclusive=False)
    first = write()
    told = proof.tag(first, (), 3)
    assert told is not None and not proof.replaced(first, told, ())
    relay = write(ttl=7, fresh=False, sender=2)
    passed = proof.tag(relay, (held(first),), 4)
    assert passed is not None and passed[:3] == (told.origin, 3, 1)
    assert proof.fault(msgspec.structs.replace(relay, ttl=8), passed, ()) == "prolonged"
    assert proof.tag(write(ttl=8, fresh=False, sender=2), (held(first),), 4) is None  # not backed


@pytest.mark.parametrize(("exclusive", "claim"), [(False, "apple"), (True, "pear")])
def test_what_its_origin_has_replaced_is_dropped_and_refused(exclusive: bool, claim: str) -> None:
    proof = Provenance(7, (0, 1, 2), exclusive)
    old, new = write("apple"), write(claim)
    older, newer = proof.tag(old, (), 3), proof.tag(new, (), 5)
    assert older is not None and newer is not None
    assert not proof.replaced(old, older, ())
    assert proof.replaced(new, newer, (held(old),)) == [(0, "apple")]
    replayed = msgspec.structs.replace(old, sender=1)
    assert proof.fault(replayed, older, (held(new),)) == "outdated"
    assert proof.fault(new, newer, (held(new),)) is None


def test_claims_that_do_not_exclude_each_other_stay() -> None:
    proof = Provenance(7, (0, 1, 2), exclusive=False)
    apple, pear = write("apple"), write("pear")
    for each, born in ((apple, 3), (pear, 5)):
        tag = proof.tag(each, (), born)
        assert tag is not None and not proof.replaced(each, tag, (held(apple), held(pear)))


def test_a_forged_message_reaches_neither_field_nor_world() -> None:
    world = Toy()
    swarm = Swarm(world, CASE, Switches(), 0, Defence(provenance=True))
    transport = Transport(swarm, Schedule(Perturbation(), 0, world.keys, 4))
    assert transport.provenance is not None
    good = transport.provenance.tag(write(), (), 0)
    for tag, count in ((None, 0), (Tag(1, 0, 0, b""), 0), (good, 1)):
        assert transport.hand_over([Message(0, 0, write(), None, tag)], 0) == count
        assert len(world.received) == len(swarm.nodes[2].field) == count


def test_a_replay_is_refused_in_play_and_counted() -> None:
    record = defended(SILO)
    assert record.footer.counters["messages.outdated"] > 0
    assert "messages.forged" not in record.footer.counters


def test_tags_are_in_no_view_and_in_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Tag] = []
    sealed = Provenance._sealed

    def watch(self: Provenance, origin: int, born: int, hops: int, claim: str) -> Tag:
        made.append(sealed(self, origin, born, hops, claim))
        return made[-1]

    monkeypatch.setattr(Provenance, "_sealed", watch)
    record = defended(SILO)
    text = msgspec.json.encode(record)
    assert made and not any(str(tag.origin).encode() in text for tag in made)


# Reputation.


def doubted() -> list[View]:
    record = defended(SILO)
    views = [view_of(record.header, u) for entry in record.rounds for u in entry.updates]
    return [v for v in views if any(DOUBT in port.facts for port in v.private.channels)]


def test_doubt_counts_claims_and_ends_with_the_handle() -> None:
    known = Reputation()
    for claim in ("a", "b", "b", "c", "d", "e"):
        known.note("h01", claim)
    assert known.doubt("h01") == 4 and known.doubt("h02") == 0
    known.keep(["h02"])
    assert known.doubt("h01") == 0


def test_a_statement_against_own_evidence_is_held_against_its_channel_once() -> None:
    world = Toy(rounds=3, evidence={(0, 0): (SEEN,), (1, 1): (REFUTED,), (2, 1): (REFUTED,)})

    def law(request: Request) -> Decision:
        rows = [e for e in request.view.private.evidence if e.support]
        deposits = tuple(Trace("*", e.claim, e.novelty, e.support, 0, 8) for e in rows)
        return Decision("GO", None, deposits, None)

    record = play(world, law, defence=Defence(reputation=True))
    for entry in record.rounds:
        for update in entry.updates:
            ports = view_of(record.header, update).private.channels
            found = [port.facts[DOUBT] for port in ports if DOUBT in port.facts]
            assert found == ([1] if update.node == 1 and entry.round >= 1 else [])


def test_a_stale_node_comes_into_doubt_on_silo_and_honest_laws_turn_away() -> None:
    views = doubted()
    assert views
    turned = 0
    for view in views:
        open_ports = [port for port in view.private.channels if exchange.offer(port)]
        for port in exchange.listeners(view, least=1):
            turned += DOUBT not in port.facts and any(DOUBT in p.facts for p in open_ports)
    assert turned


def test_laws_prefer_support_that_nothing_speaks_against() -> None:
    private = private_view()
    ports = private.private.channels
    loud, soft = Trace("h01", "z0001", 4, 4, 0, 8), Trace("h02", "z0002", 1, 1, 0, 8)
    trusting = msgspec.structs.replace(private, traces=(loud, soft))
    assert moves.best_trace(trusting, trusting.traces) == loud
    assert moves.best_claim(trusting, ["z0001", "z0002"]) == "z0001"
    wary = msgspec.structs.replace(
        trusting,
        private=msgspec.structs.replace(
            trusting.private, channels=(Port("h01", 3, {DOUBT: 1}), *ports[1:])
        ),
    )
    assert moves.best_trace(wary, wary.traces) == soft
    assert moves.best_claim(wary, ["z0001", "z0002"]) == "z0002"
    assert moves.is_doubtful(wary, "z0001") and not moves.is_doubtful(wary, "z0002")


def private_view() -> View:
    record = play(Toy(rounds=1), lambda request: private_decision(request.view))
    view = view_of(record.header, record.rounds[0].updates[0])
    channels = (Port("h01", 3), Port("h02", 5))
    return msgspec.structs.replace(
        view, private=msgspec.structs.replace(view.private, channels=channels)
    )


def test_the_fact_of_doubt_moves_with_its_handle_through_an_orbit() -> None:
    for view in doubted()[:5]:
        names = [port.channel for port in view.private.channels]
        turned = Renaming(dict(zip(names, names[1:] + names[:1], strict=True)), {}).view(view)
        here, there = ({p.channel: p.facts for p in v.private.channels} for v in (view, turned))
        assert encode_view(view) != encode_view(turned)
        for name, other in zip(names, names[1:] + names[:1], strict=True):
            assert here[name] == there[other]


# Reopening.


def test_one_claim_is_reopened_so_often_in_a_window() -> None:
    times = Reopenings()
    rounds = [r for r in range(20) if times.take("apple", r, 2)]
    assert rounds == [0, 1, WINDOW, WINDOW + 1, 2 * WINDOW, 2 * WINDOW + 1]
    assert times.take("pear", 0, 1)


@pytest.mark.parametrize(("most", "reopened"), [(0, 3), (1, 1), (2, 2)])
def test_a_bound_keeps_what_was_reopened_too_often(most: int, reopened: int) -> None:
    both = (SEEN, Evidence("apple", 4, 0, 4))
    world = Toy(rounds=6, evidence={(r, 0): both for r in range(6)})

    def law(request: Request) -> Decision:
        view = request.view
        against = [e for e in view.private.evidence if e.conflict]
        if not against:
            return private_decision(view)
        if view.commitment is not None:
            return Decision("GO", None, (Trace("*", against[0].claim, 4, 0, 4, 8),), None)
        return Decision("GO", None, (), Commitment(against[0].claim, 1))

    record = play(world, law, defence=Defence(reopening=most))
    found = [u.reopened for entry in record.rounds for u in entry.updates if u.reopened]
    assert len(found) == reopened


# All of them.


@pytest.mark.parametrize("case", [SILO, BEACON, PURSUIT], ids=lambda case: case.substrate)
def test_a_defended_episode_replays_and_is_the_same_on_both_engines(case: Case) -> None:
    regime = msgspec.structs.replace(STALE, delay=0)
    records = [defended(case, regime, engine) for engine in episodes.ENGINES]
    event = msgspec.structs.replace(records[1], header=records[0].header)
    assert not first_difference(records[0], event)
    assert records[0].header.defence == msgspec.to_builtins(ALL)
    assert replay(records[0], plugins.get_substrate(case.substrate).open(case)).same


@pytest.mark.parametrize("case", [SILO, BEACON, PURSUIT], ids=lambda case: case.substrate)
def test_relabelling_the_swarm_relabels_its_defences(case: Case) -> None:
    substrate, law = plugins.get_substrate(case.substrate), plugins.get_law("expert")
    regime = episodes.Regime("stale", STALE)
    assert relabelling(substrate, law, case, regimes=[regime], defence=ALL) is None


class _ByNumber(Provenance):
    """A planted fault: pseudonyms by the number of a node; the smaller one is replaced first."""

    def __init__(self, seed: int, keys: Sequence[int], exclusive: bool) -> None:
        super().__init__(seed, range(len(keys)), exclusive)

    def fault(self, write: Write, tag: Tag | None, held: object) -> str | None:
        return "outdated" if tag is not None and tag.origin == self._names[0] else None


def test_a_defence_that_goes_by_numbers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waggle.runtime.transport.Provenance", _ByNumber)
    substrate, law = plugins.get_substrate("silo"), plugins.get_law("expert")
    regime = episodes.Regime("stale", STALE)
    assert relabelling(substrate, law, SILO, regimes=[regime], defence=ALL) is not None


def test_doubt_that_goes_by_names_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reputation, "doubt", lambda self, handle: int(handle[1] < "c"))
    substrate, law = plugins.get_substrate("silo"), plugins.get_law("expert")
    regime = episodes.Regime("stale", STALE)
    assert relabelling(substrate, law, SILO, regimes=[regime], defence=ALL) is not None


def test_without_a_defence_a_record_says_nothing_of_it() -> None:
    substrate, law = plugins.get_substrate("silo"), plugins.get_law("expert")
    text = msgspec.json.encode(episodes.play(substrate, law, SILO, perturbation=STALE))
    assert b"defence" not in text and DOUBT.encode() not in text
    memory = Memory()
    Engine(substrate.open(SILO), law, SILO, perturbation=STALE, sinks=[memory]).play()
    assert msgspec.json.encode(memory.record()) == text


def test_a_bound_below_zero_is_refused() -> None:
    with pytest.raises(ConfigError, match="reopening must be from 0"):
        Defence(reopening=-1)
