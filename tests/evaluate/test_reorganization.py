"""The course of an episode agrees with its metrics; the event-driven engine is a fair reference."""

from __future__ import annotations

import pytest

from waggle import plugins
from waggle.core.protocols import Case
from waggle.core.record import EpisodeRecord
from waggle.evaluate import shocks
from waggle.evaluate.reorganization import after, around, course, remaining, takeover
from waggle.runtime.eventdriven import EventEngine
from waggle.runtime.perturb import Perturbation
from waggle.runtime.recorder import Memory
from waggle.runtime.replay import first_difference
from waggle.runtime.sync import Engine

SILO = Case("silo", "III-26", 8, 10_000, None, True)
PURSUIT = Case("swarmbench", "pursuit", 8, 10_001, None, True)


def play(case: Case, engine: type[Engine] = Engine, **given: float) -> EpisodeRecord:
    memory = Memory()
    world = plugins.get_substrate(case.substrate).open(case)
    perturbation = Perturbation(**given)  # type: ignore[arg-type]
    engine(world, plugins.get_law("expert"), case, perturbation=perturbation, sinks=[memory]).play()
    return memory.record()


@pytest.fixture(scope="module", params=[SILO, PURSUIT], ids=["silo", "pursuit"])
def episode(request: pytest.FixtureRequest) -> EpisodeRecord:
    return play(request.param)


def test_course_sums_to_the_metrics(episode: EpisodeRecord) -> None:
    found = course(episode)
    start = int(found["injection"][0])
    assert episode.rounds[start].shock is not None
    assert {len(series) for name, series in found.items() if len(series) > 1} == {
        len(episode.rounds)
    }
    assert after(found, "stale") == pytest.approx(shocks.stale_auc(episode), abs=0.01)
    assert after(found, "delivered") == pytest.approx(shocks.post_messages(episode), abs=0.01)
    last = shocks.shares(episode)[-1]
    assert (found["old"][-1], found["new"][-1]) == pytest.approx((last.old, last.new), abs=1e-4)
    holders, cleared = found["holders"][0], found["cleared"][0]
    assert 0 <= cleared <= holders <= 1
    if shocks.recovery(episode):
        assert 2 * cleared >= holders > 0
    reopened = sum(u.reopened is not None for r in episode.rounds for u in r.updates)
    assert sum(found["reopened"]) * episode.header.case.n == pytest.approx(reopened, abs=0.1)


def test_no_course_without_counterevidence() -> None:
    assert course(play(Case("silo", "III-26", 8, 10_000))) == {}
    assert after({}, "stale") is None


def test_takeover_is_the_first_lead() -> None:
    made = {"injection": [1.0], "old": [0.5, 0.5, 0.2, 0.2], "new": [0.9, 0.0, 0.2, 0.3]}
    assert takeover(made) == 2.0
    assert takeover({**made, "new": [0.9, 0.0, 0.0, 0.0]}) is None
    assert takeover({}) is None


def test_remaining_is_read_so_many_rounds_on_or_at_the_end() -> None:
    course = {"injection": [1.0], "old": [0.5, 0.5, 0.25, 0.0]}
    assert [remaining(course, rounds) for rounds in (0, 1, 10)] == [0.5, 0.25, 0.0]
    assert remaining({}, 1) is None


def test_around_averages_what_is_there() -> None:
    short = {"injection": [1.0], "old": [1.0, 0.5]}
    long = {"injection": [2.0], "old": [0.0, 0.0, 0.0, 1.0]}
    assert around([short, long, {}], "old", -2, 2) == [0.0, 0.5, 0.25, 1.0, None]


def test_unperturbed_event_engine_is_the_synchronous_one(episode: EpisodeRecord) -> None:
    one, two = episode, play(episode.header.case, EventEngine)
    assert (one.header.engine, two.header.engine) == ("sync", "event")
    assert one.rounds == two.rounds and one.footer == two.footer


@pytest.mark.parametrize(
    "regime", [{"delay": 1}, {"delay": 2}, {"loss": 0.2}, {"churn": 0.1}, {"delay": 2, "loss": 0.1}]
)
def test_every_regime_perturbs(regime: dict[str, float]) -> None:
    calm, rough = play(SILO, EventEngine), play(SILO, EventEngine, **regime)
    assert first_difference(calm, rough)
    if "loss" in regime:
        counts = rough.footer.counters
        assert counts["messages.delivered"] < counts["messages.attempted"]


def test_churn_starts_with_the_injection_and_lasts_two_rounds() -> None:
    record = play(SILO, EventEngine, churn=0.1)
    shock = record.shock
    assert shock is not None
    away = {entry.round: len(entry.suspended) for entry in record.rounds if entry.suspended}
    assert away == {shock.round: 1, shock.round + 1: 1}
    absent = record.rounds[shock.round].suspended[0]
    assert absent not in {u.node for u in record.rounds[shock.round].updates}
