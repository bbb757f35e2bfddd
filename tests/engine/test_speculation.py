"""Drafts are what followed the same tokens, in an answer that was given or in the text itself."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from waggle.engine.speculation import (
    GAP,
    ORDERS,
    RECENT_TOKENS,
    NGramProposer,
    RecentAnswers,
    packed,
)

# Few tokens, so that contexts recur; with those of one byte, matches across two tokens, too.
TOKEN = st.sampled_from([0, 1, 1 << 8, 1 << 24])


def slow(text: list[int], answers: list[list[int]], count: int) -> list[int]:
    """What a proposal means, written plainly."""
    given = [token for answer in answers for token in (*answer, GAP)]
    for order in ORDERS:
        context = text[-order:]
        for source in (given, text):
            places = reversed(range(len(source) - order))
            at = next((at for at in places if source[at : at + order] == context), None)
            if at is not None:
                found = source[at + order :][:count]
                found = found[: found.index(GAP)] if GAP in found else found
                if found:
                    return found
    return []


@given(
    st.lists(TOKEN, min_size=ORDERS[0], max_size=24),
    st.lists(st.lists(TOKEN, min_size=8, max_size=24), max_size=4),
)
@settings(deadline=None, max_examples=100)
def test_a_draft_follows_the_longest_context_in_the_latest_answer(
    text: list[int], given_answers: list[list[int]]
) -> None:
    answers, kept = RecentAnswers(), dict[tuple[int, ...], None]()
    for answer in given_answers:
        answers.add([9] * 4, answer)
        kept.pop((9, 9, 9, 9, *answer), None)
        kept[9, 9, 9, 9, *answer] = None
    for count in (1, 5):
        found = NGramProposer(answers).propose(packed(text), count)
        assert found == slow(text, [list(words) for words in kept], count)


def test_a_draft_begins_with_a_token_that_is_allowed() -> None:
    answers = RecentAnswers()
    answers.add([1, 2, 3, 4], [5, 6])
    answers.add([0, 0, 3, 4], [7, 8])
    proposer, text = NGramProposer(answers), packed([1, 2, 3, 4])
    assert proposer.propose(text, 8) == [5, 6]
    assert proposer.propose(text, 8, (7, 9)) == [7, 8]
    assert proposer.propose(text, 8, (9,)) == []


def test_answers_are_kept_once_and_the_oldest_go_first() -> None:
    answers = RecentAnswers()
    for number in range(100):
        for _ in range(2):
            answers.add([], range(number, number + 80))
    text = answers.text()
    assert answers.text() is text and len(text) == RECENT_TOKENS
    kept = [part[part != GAP].tolist() for part in np.split(text, np.where(text < 0)[0])]
    assert [part[0] for part in kept if part] == list(range(100 - RECENT_TOKENS // 81, 100))
    answers.add([], (7,) * (RECENT_TOKENS + 1))
    assert answers.text().tolist() == text.tolist(), "one that is too long would leave no room"
    answers.add([], range(80, 160))
    assert answers.text()[-3:].tolist() == [158, 159, GAP], "the last that was given is last"
    assert sorted(answers.text()) == sorted(text)
    assert answers.packed() == answers.text()[-len(answers.packed()) // 4 :].tobytes()
