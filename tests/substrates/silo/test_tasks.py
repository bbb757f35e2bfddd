"""Draws, golds on subsets, completeness and scoring of the thirty tasks."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest

from waggle.core.errors import ConfigError
from waggle.substrates.silo.cases import (
    TASKS,
    draw_case,
    find_task,
    independent_case,
    upstream_cases,
)
from waggle.substrates.silo.scoring import Score, normalise, rate, score
from waggle.substrates.silo.task import Level, Setting, Task, beside, everything, own, split, up_to

IDS = list(TASKS)


def gold(task: Task, shards: Mapping[int, Any], position: int, setting: Setting) -> Any:
    """Return the answer for a position as far as some shards determine it."""
    parts = {p: task.summarise(shards[p], setting) for p in sorted(shards)}
    return task.combine(parts, position, setting)


def score_answers(level: Level, answers: Sequence[Any], golds: Sequence[Any]) -> Score:
    """Score one answer per agent against one gold per agent."""
    return score([rate(level, a, g) for a, g in zip(answers, golds, strict=True)])


def test_registry_lists_the_thirty_tasks_in_stream_order() -> None:
    assert len(TASKS) == 30
    assert [task.level for task in TASKS.values()] == ["I"] * 10 + ["II"] * 10 + ["III"] * 10
    assert {t.id for t in TASKS.values() if t.segmented} == {"II-11", "II-14", "II-20", "III-21"}


def test_unknown_task_names_the_fix() -> None:
    with pytest.raises(ConfigError, match="use I-01"):
        find_task("IV-31")


def test_agent_count_is_bounded() -> None:
    with pytest.raises(ConfigError, match="agents"):
        independent_case("I-01", 1, 0)


@pytest.mark.parametrize("task_id", IDS)
def test_questions_name_no_size_and_no_topology(task_id: str) -> None:
    asks = TASKS[task_id].asks.lower()
    assert not any(word in asks for word in ("agent", "topology", "broadcast", "ring", "{", " n "))


@pytest.mark.parametrize("task_id", IDS)
def test_needed_shards_suffice_and_the_gold_reads_nothing_else(task_id: str) -> None:
    case = independent_case(task_id, 10, 3)
    for position in range(10):
        needed = case.task.needs(position, 10) | 1 << position
        assert case.answer(needed, position) == case.golds[position]
        known = {p: shard for p, shard in enumerate(case.shards) if needed >> p & 1}
        assert gold(case.task, known, position, case.setting) == case.golds[position]


@pytest.mark.parametrize("task_id", IDS)
def test_every_subset_with_the_own_shard_has_an_answer(task_id: str) -> None:
    case = independent_case(task_id, 8, 1)
    rng = Random(5)
    for _ in range(20):
        position = rng.randrange(8)
        case.answer(rng.getrandbits(8) | 1 << position, position)


@pytest.mark.parametrize("task_id", IDS)
def test_streams_are_reproducible_and_independent(task_id: str) -> None:
    first, again, other = (independent_case(task_id, 6, seed) for seed in (1, 1, 2))
    assert first.shards == again.shards and first.golds == again.golds
    if task_id != "II-20":
        assert first.shards != other.shards


def test_upstream_stream_begins_as_published() -> None:
    first = next(upstream_cases(2))
    assert first.task.id == "I-01" and list(first.shards[0][:2]) == [309, -772]


def test_split_gives_the_remainder_to_the_last() -> None:
    assert split([1, 2, 3, 4, 5, 6, 7], 3) == [[1, 2], [3, 4], [5, 6, 7]]


def test_needs() -> None:
    assert everything(1, 4) == 0b1111 and own(2, 4) == 0b100 and up_to(2, 4) == 0b111
    assert [beside(p, 4) for p in range(4)] == [0b0011, 0b0111, 0b1110, 0b1100]


def test_error_line_settles_any_match_before_all_is_known() -> None:
    task = TASKS["I-04"]
    assert task.settled([False, True]) and not task.settled([False, False])
    assert not TASKS["I-01"].settled([1, 2])


def test_sums_survive_a_small_oracle() -> None:
    setting = Setting(2, {})
    assert gold(TASKS["I-06"], {0: [5, 3], 1: [6]}, 0, setting) == 5 ^ 3 ^ 6
    assert gold(TASKS["II-16"], {0: [3, 0], 1: [2]}, 0, setting) == 2
    assert gold(TASKS["II-15"], {0: "AAB", 1: "BCABC"}, 0, setting) == 2
    assert gold(TASKS["II-13"], {0: "xabc", 1: "cbay"}, 0, setting) == 6


def test_gap_keeps_stretches_apart() -> None:
    assert gold(TASKS["II-17"], {0: [1, 4], 2: [9, 7]}, 0, Setting(3, {})) == [3, -2]
    assert gold(TASKS["II-13"], {0: "ab", 2: "ba"}, 0, Setting(3, {})) == 1


def test_palindromes_agree_with_brute_force() -> None:
    rng = Random(3)
    for _ in range(50):
        text = "".join(rng.choice("ab") for _ in range(14))
        pieces = [text[i:j] for i in range(14) for j in range(i + 1, 15)]
        longest = max(len(piece) for piece in pieces if piece == piece[::-1])
        assert gold(TASKS["II-13"], {0: text}, 0, Setting(2, {})) == longest


@pytest.mark.parametrize("task_id", ["I-05", "III-26"])
def test_renewed_shards_refute_the_old_answer(task_id: str) -> None:
    case = draw_case(TASKS[task_id], 8, Random(4))
    assert case.task.renew is not None
    renewed = case.task.renew(Random(1), case.shards[0], case.setting)
    shards = dict(enumerate(case.shards)) | {0: renewed}
    assert gold(case.task, shards, 0, case.setting) > case.golds[0]


@pytest.mark.parametrize("task_id", IDS)
def test_gold_scores_one_and_silence_zero(task_id: str) -> None:
    case = independent_case(task_id, 6, 2)
    score = score_answers(case.task.level, case.golds, case.golds)
    assert (score.success, score.strict, score.matched) == (1, 1, 1)
    nothing = score_answers(case.task.level, [None] * 6, case.golds)
    assert nothing == (0, 0, 0, 0)


def test_official_p_keeps_its_defect_and_ours_does_not() -> None:
    repeated = [[3, 3, 5]]
    score = score_answers("III", repeated, repeated)
    assert score.success == 1 and score.partial == pytest.approx(2 / 3) and score.matched == 1


def test_level_rules_of_p() -> None:
    assert score_answers("I", [1188], [1199]).partial == 1
    assert score_answers("I", [0.001], [0]).partial == 0
    assert score_answers("II", [[1, 9, 3, 4]], [[1, 2, 3]]).partial == pytest.approx(2 / 3)
    assert score_answers("III", [[2, 1, 3]], [[1, 2, 3]]).partial == pytest.approx(2 / 3)
    nested = score_answers("III", [[[1, 2], [3, 5]]], [[[1, 2], [3, 4]]])
    assert nested.partial == 0 and nested.matched == 0.5


def test_answers_are_read_as_the_benchmark_reads_them() -> None:
    assert normalise(" 12 ") == 12 and normalise("1.5") == 1.5 and normalise("[1, 2]") == [1, 2]
    assert normalise(("3", "x")) == [3, "x"] and normalise('{"a": "1"}') == {"a": "1"}
    assert normalise("[" * 100_000) == "[" * 100_000 and normalise("{broken") == "{broken"
    assert score_answers("I", ["1" * 5000], [7]).success == 0
