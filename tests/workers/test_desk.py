"""A desk answers every question, counts what it cost, and never raises for what a worker did."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from waggle.core.errors import ConfigError, ContractError, EndpointError
from waggle.core.protocols import Usage
from waggle.core.worker import MAX_ANSWER, Answer, Work, tokens
from waggle.workers.desk import WorkerDesk


def work(number: int = 1, **state: Any) -> Work:
    return Work("test/sum", "Add one.", {"number": number, **state}, {"told": [2]})


def desk(worker: Any, cache: str = "") -> WorkerDesk:
    return WorkerDesk(worker, {"name": "test"}, "test", cache)


def plus_one(asked: Work) -> Any:
    number = asked.state["number"]
    assert isinstance(number, int)
    return number + 1


async def plus_one_later(asked: Work) -> Any:
    await asyncio.sleep(0)
    return plus_one(asked)


class Threaded:
    concurrency = 4

    def __call__(self, asked: Work) -> Any:
        return plus_one(asked)


class Waiting:
    async def __call__(self, asked: Work) -> Any:
        return await plus_one_later(asked)


@pytest.mark.parametrize("worker", [plus_one, plus_one_later, Threaded(), Waiting()])
def test_any_callable_answers_in_order(worker: Any) -> None:
    answers = desk(worker).answer([work(k) for k in range(9)])
    assert [a.value for a in answers] == list(range(1, 10))
    assert all(a.usage.calls == 1 and a.usage.failures == 0 for a in answers)
    assert answers[0].usage.input_tokens == tokens(work(0).question()) > 10


def test_an_async_worker_answers_inside_a_running_loop() -> None:
    async def notebook() -> Any:
        return desk(plus_one_later).answer([work()])[0].value

    assert asyncio.run(notebook()) == 2


def broken(asked: Work) -> Any:
    raise RuntimeError("no")


async def broken_later(asked: Work) -> Any:
    raise RuntimeError("no")


def leaving(asked: Work) -> Any:
    sys.exit(3)


async def leaving_later(asked: Work) -> Any:
    sys.exit(3)


@pytest.mark.parametrize("worker", [broken, broken_later, leaving, leaving_later])
def test_a_failed_call_is_data_and_is_counted(
    worker: Any, caplog: pytest.LogCaptureFixture
) -> None:
    for answer in desk(worker).answer([work(1), work(2)]):
        assert answer.value is None
        assert (answer.usage.calls, answer.usage.failures) == (1, 1)
    assert len(caplog.records) == 1, "the first is logged, and no other"


@pytest.mark.parametrize(
    "worker",
    [
        lambda asked: None,
        lambda asked: object(),
        lambda asked: "x" * (MAX_ANSWER + 1),
        lambda asked: Answer(None),
        lambda asked: float("nan"),
    ],
)
def test_nonsense_is_no_answer(worker: Any) -> None:
    (answer,) = desk(worker).answer([work()])
    assert answer.value is None
    assert (answer.usage.calls, answer.usage.failures) == (1, 0)


def test_a_worker_may_count_its_own_tokens() -> None:
    counted = Answer(7, Usage(1, 100, 20))
    assert desk(lambda asked: counted).answer([work()]) == [counted]


def test_answers_are_kept_by_content_and_cost_the_same_from_the_cache(tmp_path: Path) -> None:
    calls: list[int] = []

    def worker(asked: Work) -> Any:
        calls.append(1)
        return plus_one(asked)

    path = str(tmp_path / "answers.sqlite")
    first = desk(worker, path).answer([work(1), work(1), work(2)])
    again = desk(worker, path).answer([work(1), work(1), work(2)])
    assert again == first and len(calls) == 2
    assert WorkerDesk(worker, {}, "another", path).answer([work(1)])[0].value == 2
    assert len(calls) == 3, "another worker has answers of its own"


def test_equal_questions_of_a_round_are_paid_for_once(tmp_path: Path) -> None:
    priced = Answer(7, Usage(1, 100, 20, cost=5))
    path = str(tmp_path / "answers.sqlite")
    for costs in ([5, 0, 5], [0, 0, 0]):
        answers = desk(lambda asked: priced, path).answer([work(1), work(1), work(2)])
        assert [answer.usage for answer in answers] == [Usage(1, 100, 20, cost=c) for c in costs]


def test_a_kept_answer_that_cannot_be_read_is_asked_for_again(tmp_path: Path) -> None:
    path = str(tmp_path / "answers.sqlite")
    assert desk(plus_one, path).answer([work()])[0].value == 2
    with sqlite3.connect(path) as database:
        database.execute("UPDATE replies SET text = ?", ("[" * 100_000 + "]" * 100_000,))
    assert desk(plus_one, path).answer([work()])[0].value == 2


def test_a_cache_that_cannot_be_is_one_line_of_no_law(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="another file for the cache"):
        desk(plus_one, str(tmp_path))


def test_faults_are_not_kept(tmp_path: Path) -> None:
    path = str(tmp_path / "answers.sqlite")
    assert desk(broken, path).answer([work()])[0].value is None
    assert desk(plus_one, path).answer([work()])[0].value == 2


@pytest.mark.parametrize("state", [{"agent_id": 3}, {"seen": {"population": 4}}, {"x": object()}])
def test_what_names_a_node_or_is_no_json_is_not_asked(state: Any) -> None:
    with pytest.raises(ContractError):
        desk(plus_one).answer([work(1, **state)])


class Together:
    def __init__(self, found: Any) -> None:
        self.found = found

    def __call__(self, asked: Work) -> Any: ...

    def together(self, works: Any) -> Any:
        if isinstance(self.found, BaseException):
            raise self.found
        return self.found


@pytest.mark.parametrize("found", [RuntimeError("no"), SystemExit(3), [1], None])
def test_a_worker_that_answers_all_at_once_may_fail(
    found: Any, caplog: pytest.LogCaptureFixture
) -> None:
    for answer in desk(Together(found)).answer([work(1), work(2)]):
        assert answer.value is None
        assert (answer.usage.calls, answer.usage.failures) == (1, 1)
    assert len(caplog.records) == 1
    with pytest.raises(EndpointError):
        desk(Together(EndpointError("dead"))).answer([work()])
