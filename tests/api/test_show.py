"""A decision as a person reads it, in full and in a line."""

from __future__ import annotations

from typing import Any

import pytest

import waggle
from waggle.api.show import text
from waggle.core.admit import CODES
from waggle.core.errors import ConfigError
from waggle.evaluate.episodes import thin


@pytest.fixture(scope="module")
def record() -> waggle.EpisodeRecord:
    return waggle.run("beacon", n=6, seed=10_000, shock=True, scouts=0.5, progress=False).record


def test_an_update_is_told_from_view_to_outcome(record: waggle.EpisodeRecord) -> None:
    for entry in record.rounds:
        for update in entry.updates:
            told = text(record, entry.round, update.node)
            for part in ("\nsaw\n", "\nsaid\n", "\nadmitted as emitted\n", "\ndid\n"):
                assert part in told
            assert told.count("\n  trace ") == bytes(update.view).count(b'"ttl"')
            assert told.count("silenced: ") == sum(w.cause is not None for w in update.writes)
            assert f"\n  holds        {update.claim or 'nothing'}" in told
    shock = record.shock
    assert shock is not None and "counterevidence" in text(record, shock.round, 0)


def test_what_admission_refused_is_told_with_its_rule() -> None:
    class Babble:
        name = "babble"

        def decide(self, requests: Any) -> list[waggle.Decode]:
            return [waggle.Decode("I fly.") for _ in requests]

    told = text(waggle.run("beacon", Babble(), n=3, rounds=2).record, 1, 2)
    assert "admitted the private proposal instead" in told
    assert "\n  first        'I fly.'\n  second       'I fly.'\n" in told
    assert any(f"\n  {code:<12} {rule}\n" in told for code, rule in CODES.items())


def test_rounds_and_agents_are_told_in_a_line_each(record: waggle.EpisodeRecord) -> None:
    assert len(text(record).splitlines()) == 1 + 32
    assert len(text(record, 20).splitlines()) == 1 + 6
    lines = text(record, agent=2).splitlines()
    assert len(lines) == 1 + 32 and lines[0].split()[0] == "round"


def test_who_was_away_is_said_to_be_away() -> None:
    record = waggle.run("beacon", n=4, rounds=6, departures=1.0, departures_at=3).record
    assert text(record, 3, 0).endswith("took no part in this round: suspended")


def test_a_thin_record_says_what_it_lacks(record: waggle.EpisodeRecord) -> None:
    assert "the record holds measures only" in text(thin(record), 3, 1)


@pytest.mark.parametrize(("place", "hint"), [((32, 0), "0 to 31"), ((0, 6), "0 to 5")])
def test_a_place_outside_is_refused(
    record: waggle.EpisodeRecord, place: tuple[int, int], hint: str
) -> None:
    with pytest.raises(ConfigError, match=hint):
        text(record, *place)
