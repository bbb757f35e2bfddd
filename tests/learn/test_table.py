"""The experiments with a table in place of a law: it plays, and learns from what stood better."""

from lab.leader_election import LeaderElection
from lab.synchronization import Synchronization
from lab.table import Game, Table, development_score, sampled
from waggle.learn.config import training_cases
from waggle.learn.luck import jobs_of


def taught(game: Game, temperature: float, batches: int, **smaller: object) -> Table:
    """Return a table that has learned from a few small batches."""
    settings = game.settings.model_copy(update=smaller)
    law = Table(game, temperature)
    for batch in range(batches):
        jobs = jobs_of(training_cases(settings, 0, batch), settings.replays, 0, batch, trunk=True)
        found = sampled(settings, law, jobs)
        assert len(found.rewards) == len(jobs)
        law.learn(found)
    return law


def test_who_holds_the_smallest_priority_answers_yes_more_often() -> None:
    game = LeaderElection()
    law = taught(game, 4.0, 3, n=(4,), vary={}, cases=4)
    assert law.logits[0][1, ..., 1].sum() > law.logits[0][0, ..., 1].sum()
    one = game.settings.model_copy(update={"n": (4,), "vary": {}})
    assert 0 <= development_score(one, law) <= 1


def test_switching_is_found_to_be_better_than_staying() -> None:
    law = taught(Synchronization(), 7.0, 2, n=(4,), rounds=8, cases=4)
    assert law.logits[0][..., 1].sum() > law.logits[0][..., 2].sum() + 1
