"""The desk: asks one worker many questions, sequentially, in threads or in one event loop.

Answers may be cached on disk by content: the worker, its options and the question form the key, so
a question is asked once, whichever node asks. A cached answer counts as the call that it saves,
so only the money paid for a record depends on the cache. Invariant: `answer` never raises because
of a worker's fault; a fault is an answer without a value, with one failure if the call itself
failed. Only an endpoint that fails from the start is an error.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from waggle.core.errors import EndpointError
from waggle.core.protocols import Usage
from waggle.core.schema import Json
from waggle.core.worker import MAX_ANSWER, Answer, Work, Worker, tokens
from waggle.laws.replies import Reply, ReplyCache
from waggle.plugin_files import FAULTS, raised

_LOG = logging.getLogger(__name__)


class WorkerDesk:
    """The interface through which the nodes of a swarm call a worker.

    Args:
        worker: the callable; async calls are awaited together, and a worker with a method
            `together(works)` gets all questions in one call.
        about: name and options, as stored in records.
        identity: distinguishes its answers from those of other workers in the cache.
        cache: SQLite file of answers; empty for none.
    """

    def __init__(
        self, worker: Worker, about: Mapping[str, Json], identity: str = "", cache: str = ""
    ) -> None:
        self.about = about
        self.sampled = bool(getattr(worker, "sampled", False))
        self._worker = worker
        self._identity = identity
        self._cache = ReplyCache(cache) if cache else None
        self._threads = int(getattr(worker, "concurrency", 1))
        call = worker if inspect.isroutine(worker) else getattr(worker, "__call__", None)  # noqa: B004
        self._waits = inspect.iscoroutinefunction(call)
        self._warned = False

    def answer(self, works: Sequence[Work]) -> list[Answer]:
        """Answer every question; a fault is an answer without a value."""
        questions = [work.question() for work in works]
        keys = [self._key(work, text) for work, text in zip(works, questions, strict=True)]
        found = [self._find(key) for key in keys]
        # With a cache, a question that several nodes ask together is asked once.
        todo: dict[str, int] = {}
        for place, answer in enumerate(found):
            if answer is None:
                todo.setdefault(keys[place] or str(place), place)
        raw = self._ask([works[place] for place in todo.values()])
        fresh = {
            name: self._checked(value, questions[place])
            for (name, place), value in zip(todo.items(), raw, strict=True)
        }
        for name, answer in fresh.items():
            self._keep(keys[todo[name]], answer)
        answers = []
        for place, answer in enumerate(found):
            if answer is None:
                name = keys[place] or str(place)
                answer = fresh[name]
                fresh[name] = _paid(answer)  # an equal question of another node costs no money
            answers.append(answer)
        return answers

    def _ask(self, works: Sequence[Work]) -> list[Any]:
        """Return the worker's result for each question, or the exception that it raised."""
        if not works:
            return []
        together = getattr(self._worker, "together", None)
        if together is not None:
            return self._all(together, works)
        if self._waits:
            # In a separate thread: the caller may be a notebook, which already runs an event loop.
            with ThreadPoolExecutor(1) as pool:
                return pool.submit(asyncio.run, self._gather(works)).result()
        if self._threads > 1:
            with ThreadPoolExecutor(min(self._threads, len(works))) as pool:
                return list(pool.map(self._one, works))
        return [self._one(work) for work in works]

    def _all(self, together: Callable[[Sequence[Work]], Any], works: Sequence[Work]) -> list[Any]:
        """Ask all questions in one call; an error or a wrong number of answers fails them all."""
        try:
            found = list(together(works))
            if len(found) == len(works):
                return found
            raise ValueError(f"together() returned {len(found)} answers for {len(works)} questions")
        except EndpointError:
            raise
        except FAULTS as error:  # a broken worker is data
            return [error] * len(works)

    def _one(self, work: Work) -> Any:
        try:
            return self._worker(work)
        except FAULTS as error:  # a broken worker is data
            return error

    async def _gather(self, works: Sequence[Work]) -> list[Any]:
        limit = asyncio.Semaphore(self._threads if self._threads > 1 else len(works))

        async def one(work: Work) -> Any:
            async with limit:
                call: Any = self._worker
                try:
                    return await call(work)
                except FAULTS as error:  # a broken worker is data
                    return error

        return await asyncio.gather(*map(one, works))

    def _checked(self, value: Any, question: bytes) -> Answer:
        """Return an answer with its cost; a value that is not bounded JSON is replaced by None."""
        cost = Usage(calls=1, input_tokens=tokens(question))
        if isinstance(value, FAULTS):
            self._warn(value)
            return Answer(None, msgspec.structs.replace(cost, failures=1))
        if isinstance(value, Answer):
            cost, value = msgspec.structs.replace(value.usage, calls=1), value.value
        try:
            text = msgspec.json.encode(value)
            value = msgspec.json.decode(text)  # the value as a record or the cache will return it
        except (TypeError, ValueError, OverflowError, RecursionError):
            return Answer(None, cost)
        if len(text) > MAX_ANSWER:
            return Answer(None, cost)
        if not (cost.output_tokens or cost.failures):
            cost = msgspec.structs.replace(cost, output_tokens=tokens(text))
        return Answer(value, cost)

    def _warn(self, error: BaseException) -> None:
        """Log only the first fault, since a broken worker fails every time."""
        if not self._warned:
            self._warned = True
            _LOG.warning(
                "worker %s failed (%s); its nodes keep their latest proposal",
                self.about.get("name"), raised(error)[:200],
            )  # fmt: skip

    def _key(self, work: Work, question: bytes) -> str:
        if self._cache is None:
            return ""
        named = {"worker": self._identity, "question": question.decode(), "draw": work.entropy}
        return ReplyCache.key(named)

    def _find(self, key: str) -> Answer | None:
        reply = self._cache.find(key) if self._cache is not None else None
        if reply is None:
            return None
        try:
            value = msgspec.json.decode(reply.text)
        except (msgspec.MsgspecError, RecursionError):
            return None
        return Answer(value, Usage(1, reply.input_tokens, reply.output_tokens))

    def _keep(self, key: str, answer: Answer) -> None:
        if self._cache is not None and answer.value is not None:
            text = msgspec.json.encode(answer.value).decode()
            usage = answer.usage
            self._cache.keep(key, Reply(text, usage.input_tokens, usage.output_tokens))


def _paid(answer: Answer) -> Answer:
    """Return an answer whose money was paid already."""
    usage = msgspec.structs.replace(answer.usage, cost=0)
    return msgspec.structs.replace(answer, usage=usage)
