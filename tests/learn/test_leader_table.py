"""The experiment with a table in place of a law: it plays, and learns from who stands well."""

import numpy as np

from lab.leader_election import HEAD_START, Table, development_score, learn, sampled
from waggle.learn.config import Settings, training_cases
from waggle.learn.luck import jobs_of


def test_a_table_moves_towards_what_stood_better() -> None:
    settings = Settings(
        tasks=("agentsnet/leader_election",),
        n=(4,),
        credit="progress",
        discount=0.9,
        cases=4,
        replays=8,
    )
    law = Table(temperature=4.0)
    begin = [logits.copy() for logits in law.logits]
    for batch in range(3):
        law.drawn.clear()
        jobs = jobs_of(training_cases(settings, 0, batch), settings.replays, 0, batch, trunk=True)
        found = sampled(settings, law, jobs)
        assert len(found.rewards) == 32 and not np.isnan(found.rewards).any()
        learn(law, found)
    assert any((a != b).any() for a, b in zip(begin, law.logits, strict=True))
    heard_smaller, not_smaller = law.logits[0][0, ..., 1].sum(), law.logits[0][1, ..., 1].sum()
    assert not_smaller > heard_smaller  # who holds the smallest priority answers Yes more often
    assert 0 <= development_score(settings, law) <= 1 and HEAD_START > 0
