"""The law that ships plays one and the same episode on both engines, late counterevidence included.

In float32, where an answer does not depend on what shares its batch. The whole record is compared:
views, raw texts, decisions, writes, commitments, messages, field and scores.
"""

from __future__ import annotations

import msgspec
import pytest

from tests.shipped.test_nano import Unmetered
from waggle import plugins
from waggle.core.protocols import Case, Law
from waggle.runtime.replay import first_difference
from waggle.testing.episodes import play

pytest.importorskip("torch")
SILO = Case("silo", "III-26", 4, 10_000, 8, True)
PURSUIT = Case("swarmbench", "pursuit", 8, 10_001, 23, True)


@pytest.fixture(scope="module")
def nano() -> Law:
    """The shipped law, loaded once."""
    return Unmetered(plugins.get_law("nano", dtype="float32"))


@pytest.mark.parametrize(
    "case",
    [pytest.param(SILO, id="silo"), pytest.param(PURSUIT, id="pursuit", marks=pytest.mark.slow)],
)
def test_an_unperturbed_event_engine_is_the_synchronous_one(nano: Law, case: Case) -> None:
    substrate = plugins.get_substrate(case.substrate)
    one, two = (
        play(substrate, nano, case, engine=engine, order="canonical")
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
