"""The law that ships, as it ships: it spells, it agrees with its teacher, it is anonymous.

In float32, where an answer does not depend on what shares its batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from waggle import plugins, shipped
from waggle.core.canon import encode_decision
from waggle.core.protocols import Case, Decode, Law, Request
from waggle.core.schema import Decision
from waggle.runtime.replay import first_difference
from waggle.runtime.sync import Engine
from waggle.testing.episodes import REGIMES, play
from waggle.testing.propositions import relabelling

pytest.importorskip("torch")
CASE = Case("silo", "I-05", 4, 10_002, rounds=4)
SILO = Case("silo", "I-05", 4, 10_000, 8, True)
PURSUIT = Case("swarmbench", "pursuit", 8, 10_001, 23, True)


@pytest.fixture(scope="module")
def nano() -> Law:
    """The shipped law, loaded once."""
    assert shipped.present("nano"), "src/waggle/shipped/nano is missing; ship it with `law pack`"
    return plugins.get_law("nano", dtype="float32")


class Remembered:
    """Asks nano once for what several episodes ask: the same request has the same answer."""

    name, order = "remembered", "canonical"

    def __init__(self, law: Law) -> None:
        self.law, self.known = law, dict[bytes, Decode]()

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        """Return nano's decodes; those that are new in one batch."""
        keys = [msgspec.json.encode(request) for request in requests]
        new = {key: one for key, one in zip(keys, requests, strict=True) if key not in self.known}
        self.known |= zip(new, self.law.decide(list(new.values())) if new else (), strict=True)
        return [self.known[key] for key in keys]


@pytest.fixture(scope="module")
def remembered(nano: Law) -> Law:
    return Remembered(nano)


class Compared:
    """Lets nano play and counts how often another law would have written the same record."""

    name, order = "compared", "canonical"

    def __init__(self, law: Law, other: Law) -> None:
        self.law, self.other, self.same, self.asked = law, other, 0, 0

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        """Return nano's decodes."""
        decodes = self.law.decide(requests)
        for mine, theirs in zip(decodes, self.other.decide(requests), strict=True):
            self.asked += 1
            self.same += written(mine) == written(theirs)
        return decodes


def written(decode: Decode) -> str:
    output = decode.output
    return encode_decision(output).decode() if isinstance(output, Decision) else output


class Unmetered:
    """Leaves out what a decode cost: that depends on which requests came together."""

    name, order = "unmetered", "canonical"

    def __init__(self, law: Law) -> None:
        self.law = law

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        """Return nano's texts alone."""
        return [Decode(decode.output) for decode in self.law.decide(requests)]


def test_every_first_decode_is_admitted_and_most_are_the_teachers(remembered: Law) -> None:
    law = Compared(remembered, plugins.get_law("expert"))
    world = plugins.get_substrate(CASE.substrate).open(CASE)
    footer = Engine(world, law, CASE, order="canonical").play()
    assert footer.counters["stage.first"] == footer.counters["updates"] == law.asked
    assert law.same >= 0.9 * law.asked
    assert footer.scores["score"] > 0.9


def test_a_relabelled_swarm_gives_the_relabelled_trajectory(nano: Law) -> None:
    case = msgspec.structs.replace(CASE, rounds=2)  # one to write in, one to be heard in
    substrate = plugins.get_substrate(case.substrate)
    found = relabelling(
        substrate, Unmetered(nano), case, order="canonical", engines=("sync",), regimes=REGIMES[:1]
    )
    assert found is None


@pytest.mark.parametrize(
    "case",
    [pytest.param(SILO, id="silo"), pytest.param(PURSUIT, id="pursuit", marks=pytest.mark.slow)],
)
def test_both_engines_play_the_same_episode_with_late_counterevidence(
    remembered: Law, case: Case
) -> None:
    """The whole record is compared: views, texts, decisions, writes, messages, field, scores."""
    substrate = plugins.get_substrate(case.substrate)
    one, two = (
        play(substrate, Unmetered(remembered), case, engine=engine, order="canonical")
        for engine in ("sync", "event")
    )
    assert (one.header.engine, two.header.engine) == ("sync", "event")
    header = msgspec.structs.replace(one.header, engine="event")
    assert first_difference(msgspec.structs.replace(one, header=header), two) == ""
    assert one.rounds == two.rounds and one.footer == two.footer

    assert one.shock is not None, "nothing to reorganize after"
    later = [update for entry in one.rounds[one.shock.round :] for update in entry.updates]
    assert all(isinstance(text, str) for update in later for text in update.raw)
    assert any(update.reopened in one.shock.old_claims for update in later)


def test_in_8_bit_integers_it_says_the_same(remembered: Law) -> None:
    from waggle.engine.model.int8 import int8_works

    if not int8_works():
        pytest.skip("no 8-bit products in this torch")
    law = Compared(remembered, plugins.get_law("nano", dtype="int8"))
    play(plugins.get_substrate(CASE.substrate), law, CASE, order="canonical")
    assert law.asked >= 16 and law.same >= 0.9 * law.asked
