"""Drafts are given up where they foretell too little, and tried again; answers never change."""

from typing import Any

import pytest

from tests.engine.helpers import prompts, reference, row_engine
from waggle.engine import judge
from waggle.engine.judge import Judge


def test_too_little_ends_drafts_for_a_while_that_grows() -> None:
    mind = Judge()
    rests = []
    for _ in range(8):
        assert mind.drafts
        mind.drafted(judge.TRIED, judge.TRIED // 4, 1 / 3)
        assert not mind.drafts
        rest = 0
        while not mind.drafts:
            mind.plain(judge.REST // 4)
            rest += judge.REST // 4
        rests.append(rest)
    assert rests[:3] == [judge.REST, 2 * judge.REST, 4 * judge.REST]
    assert max(rests) == judge.MAX_REST


def test_enough_goes_on_and_forgets_earlier_rests() -> None:
    mind = Judge()
    for foretold, rest in ((0, judge.REST), (judge.TRIED, 0), (0, judge.REST)):
        mind.drafted(judge.TRIED, foretold, 1 / 3)
        assert mind.drafts == (rest == 0)
        mind.plain(rest)
        assert mind.drafts


def test_a_little_decides_nothing() -> None:
    mind = Judge()
    mind.drafted(judge.TRIED - 1, 0, 1.0)
    assert mind.drafts


@pytest.mark.parametrize("rolls", [True, False])
def test_rows_change_between_drafts_and_steps_on_the_way(
    tiny: Any, record_grammar: Any, monkeypatch: pytest.MonkeyPatch, rolls: bool
) -> None:
    monkeypatch.setattr(judge, "TRIED", 40)
    monkeypatch.setattr(judge, "REST", 200)
    monkeypatch.setattr(judge, "MAX_REST", 200)
    engine = row_engine(tiny, 5, rolls=rolls)
    monkeypatch.setattr(engine.backend, "least", lambda rows, effort: 0.999)
    monkeypatch.setattr(engine.backend, "recalls", lambda rows: 1.0)
    batch = prompts(tiny[1], 48, skeleton=engine.constraint(record_grammar))
    want = [reference(*tiny, prompt) for prompt in batch]
    done = engine.generate(batch)
    assert [each.tokens for each in done] == want
    drafting = [each.usage.drafted_tokens > 0 for each in done]
    assert any(drafting) and not all(drafting)
    later = drafting[drafting.index(False) :]
    assert any(later), "drafts were never tried again"
