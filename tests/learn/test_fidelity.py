"""Credit fidelity: the credit of a batch beside branches of the same decisions."""

from typing import Any

import numpy as np
import pytest

from tests.backbones import save_backbone
from waggle.learn.config import Settings, development_cases, training_cases
from waggle.learn.decisions import SampledDecision, pack
from waggle.learn.fidelity import correlation, measure
from waggle.learn.luck import Job, jobs_of
from waggle.learn.rollout import Outcome, Player, executable
from waggle.learn.start import find_start
from waggle.models.nano import nano_tokenizer


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = save_backbone(tmp_path_factory.mktemp("tiny"), nano_tokenizer())
    return Settings(
        tasks=("agentsnet/matching",), n=(12,), rounds=1, start="scratch", backbone=str(folder),
        cases=1, replays=2, probes=6, temperature=2.0, reward={"answered": 1.0}, fidelity=12,
    )  # fmt: skip


def test_the_correlation_is_one_for_the_same_and_none_where_nothing_varies() -> None:
    assert correlation([1, 2, 3], [2, 4, 6]) == pytest.approx(1.0)
    assert correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    assert correlation([1, 1], [2, 3]) is None
    assert correlation([1], [2]) is None


class _Scripted:
    """Episodes of one decision each, whose branches are scripted."""

    def __init__(self, rewards: list[float], branched: list[float]) -> None:
        self._told = list(zip(rewards, branched, strict=True))

    def sample(self, _weights: None, jobs: list[Job], branches: int) -> list[Outcome]:
        assert (len(jobs), branches) == (len(self._told), 1)
        one = SampledDecision([1], [2], [], 0, 0, legal=True)
        return [
            Outcome({"score": reward}, None, pack([one], [float("nan")]), np.array([branch]))
            for reward, branch in self._told
        ]


@pytest.mark.parametrize(
    ("branched", "expected"), [([1, -1, 1, -1], 1.0), ([-1, 1, -1, 1], -1.0), ([1, 1, -1, -1], 0.0)]
)
def test_the_credit_that_was_used_is_what_is_compared(
    branched: list[float], expected: float
) -> None:
    settings = Settings(tasks=("beacon",), cases=2, replays=2, credit="group", fidelity=4)
    rollouts: Any = _Scripted([1.0, 0.0, 1.0, 0.0], branched)
    found = measure(rollouts, None, settings, seed=0)
    assert found["correlation"] == pytest.approx(expected)
    assert (found["decisions"], found["mattered"]) == (4, 4)


@pytest.mark.parametrize("credit", ["group", "frozen", "progress"])
def test_a_law_that_samples_is_measured(settings: Settings, credit: str) -> None:
    settings = settings.model_copy(update={"credit": credit, "rounds": 3, "probes": 2})
    player: Any = Player(find_start(settings), settings)
    found = measure(player, None, settings, seed=0)
    assert found["decisions"] == settings.fidelity
    assert 0 <= found["mattered"] <= found["decisions"]
    value = found["correlation"]
    assert value is None or -1.0 <= value <= 1.0
    assert measure(player, None, settings, seed=0) == found


def test_branches_draw_other_alternatives_than_the_credit(settings: Settings) -> None:
    """Else the credit `branch` would be compared with itself."""
    settings = settings.model_copy(update={"credit": "branch", "probes": 12})
    player = Player(find_start(settings), settings)
    (one, _) = player.sample(None, jobs_of(training_cases(settings, 0, 0), 2, 0, 0), branches=12)
    assert one.branched is not None
    own = one.decisions.counterfactual[:12]
    assert np.isfinite(own).all()
    assert np.isfinite(one.branched[:12]).all()
    assert np.isnan(one.branched[12:]).all()  # alternatives are not decisions of the episode
    assert own.tolist() != one.branched[:12].tolist()


def test_a_law_is_also_played_as_it_is_sampled(settings: Settings) -> None:
    player = Player(find_start(settings), settings)
    cases = development_cases(settings, 2, final=True)
    ended = player.sampled(None, cases)
    assert [one.case for one in ended] == cases
    assert [one.scores for one in player.sampled(None, cases)] == [one.scores for one in ended]


def test_cases_of_one_seed_do_not_share_what_was_sampled(settings: Settings) -> None:
    """Their nodes draw alike, so a decision for one task could be taken for another's."""
    settings = settings.model_copy(update={"tasks": ("agentsnet",)})
    player = Player(find_start(settings), settings)
    ended = player.sampled(None, development_cases(settings, 1, final=True))
    assert len(ended) == 5
    assert executable(ended) == 1.0
