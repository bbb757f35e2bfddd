"""The client of a chat endpoint: many questions at once, each within one deadline.

The first question goes alone: if it gets no answer, an `EndpointError` repeats the server's own
sentence, and nothing is played. What the server refuses of the optional parameters is learned there
and remembered. Later failures are data. A question is tried again after overload and lost
connections, and its deadline holds for all attempts and waits together, however slowly a server
sends. Redirects are not followed: the key goes to the address that was given and to no other.
Invariants: the key is in no reply, error or log line; no answer is read beyond its bound.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import cache
from http import HTTPStatus
from typing import Any, NamedTuple

from waggle.core.errors import ConfigError, EndpointError
from waggle.extras import install
from waggle.laws.replies import Reply, ReplyCache
from waggle.laws.wire import Malformed, Turns, Wire, adapted, blamed, one_line, sentence

MAX_BODY = 4 << 20
"""Bytes of a response that are read; a longer one counts as a failure."""
SHORTEST_SECRET = 6
"""Characters of a key that is kept out of texts; what is shorter, such as EMPTY, is no secret."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 8.0
"""Seconds before another attempt, doubled every time, unless the server names its own."""
IDLE_SECONDS = 3.0
"""How long a connection waits for its next question; many servers close theirs after five."""
_LOG = logging.getLogger(__name__)


class Limits(NamedTuple):
    """How hard an endpoint is asked."""

    timeout: float = 120.0
    """Seconds that one question may take, with all its attempts and waits."""
    retries: int = 3
    concurrency: int = 16
    rate: float = 0.0
    """Questions a minute; 0 for no limit."""
    patience: int = 16
    """Failures in a row after which it is left alone for the time of one question."""


class Question(NamedTuple):
    """A chat, and parameters of its own beside those of the endpoint."""

    turns: Turns
    parameters: Mapping[str, Any] = {}


class Failure(NamedTuple):
    """Why a question got no answer, in one line."""

    reason: str
    fix: str = ""


class _FailedAttempt(Exception):
    """An attempt that failed, and whether another one may help."""

    def __init__(self, reason: str, *, fix: str, again: bool = False) -> None:
        super().__init__(reason)
        self.fix = fix
        self.again = again
        self.wait: float | None = None
        """Seconds that the server asks to wait."""
        self.said = ""
        """The beginning of a refusal of the question as it was put; empty for other failures."""


class Endpoint:
    """One model behind one address."""

    def __init__(
        self,
        base_url: str,
        wire: Wire,
        parameters: Mapping[str, Any],
        *,
        key_env: str = "",
        limits: Limits = Limits(),  # noqa: B008  (frozen)
        fixed: Sequence[str] = (),
        cache: ReplyCache | None = None,
    ) -> None:
        """Name an endpoint; nothing is sent yet.

        Args:
            base_url: its address, to which the protocol adds a path.
            wire: its protocol.
            parameters: what every question says beside its turns.
            key_env: environment variable with the key; the protocol's own if empty.
            limits: how hard it is asked.
            fixed: parameters that are never given up, whatever the server says of them.
            cache: where replies are kept.
        """
        try:
            import httpx2
        except ImportError as error:
            raise ConfigError(
                f"chat endpoints need the httpx2 package; install it with `{install('chat')}`"
            ) from error
        self._http: Any = httpx2
        self._wire, self._limits, self._cache = wire, limits, cache
        self._url = base_url.rstrip("/") + wire.path
        self._parameters, self._fixed = dict(parameters), frozenset(fixed)
        self._key_env = key_env or wire.key_env
        self._given_up: frozenset[str] = frozenset()
        """Optional parameters that the server refused."""
        self._sessions: dict[int, _Session] = {}
        self.trouble = ""
        """Why the last question failed that did; empty if none has."""
        self.renew()

    def renew(self) -> None:
        """Read the key again, and forget that the endpoint was dead."""
        self._key = _key(self._key_env)
        self._proven = False
        self._dead = ""
        """Why nothing is asked any more; empty for an endpoint that may live."""
        self._warned = False
        self._failures = 0
        self._resume = 0.0

    def ask(self, questions: Sequence[Question]) -> list[Reply | Failure]:
        """Ask several questions at once and return what became of each, in order.

        Where replies are kept, equal questions are asked once, as they are later.

        Raises:
            EndpointError: if the first question ever that is not in the cache gets no answer.
        """
        keys = [self._key_of(question) for question in questions]
        found: list[Reply | Failure | None] = [self._known(key) for key in keys]
        first: dict[str, int] = {}
        for place, reply in enumerate(found):
            if reply is None:
                first.setdefault(keys[place] or str(place), place)
        missing = list(first.values())
        if missing:
            if self._dead:
                raise EndpointError(self._dead)
            process = os.getpid()
            loop = _loop(process)
            answers = asyncio.run_coroutine_threadsafe(
                self._together([questions[place] for place in missing], process), loop
            )
            try:
                new = answers.result()
            finally:
                answers.cancel()
            for place, answer in zip(missing, new, strict=True):
                found[place] = answer
                if self._cache and isinstance(answer, Reply):
                    self._cache.keep(keys[place], answer)
        return [
            _known_by_now(found[first[key]]) if each is None else each
            for each, key in zip(found, keys, strict=True)
        ]

    def _key_of(self, question: Question) -> str:
        """Return what a reply is cached by: the address and everything that is said to it."""
        if not self._cache:
            return ""
        return ReplyCache.key({"url": self._url, "body": self._body(question)})

    def _known(self, key: str) -> Reply | None:
        return self._cache.find(key) if self._cache else None

    def _body(self, question: Question) -> dict[str, Any]:
        said = {**self._parameters, **question.parameters}
        kept = {name: value for name, value in said.items() if value is not None}
        return {**kept, **self._wire.turns(question.turns)}

    async def _together(self, questions: Sequence[Question], process: int) -> list[Reply | Failure]:
        session = self._sessions.get(process)
        if session is None:  # connections belong to one process
            session = self._sessions[process] = _Session(self._http, self._limits)
            weakref.finalize(self, session.close, _loop(process))
        first: list[Reply | Failure] = []
        if not self._proven:
            answer = await self._one(questions[0], session)
            if isinstance(answer, Failure):
                self._dead = (
                    f"the endpoint {self._url} did not answer the first question "
                    f"({answer.reason}); {answer.fix}"
                )
                raise EndpointError(self._dead)
            self._proven, first = True, [answer]
        rest = questions[len(first) :]
        return [*first, *await asyncio.gather(*(self._one(each, session) for each in rest))]

    async def _one(self, question: Question, session: _Session) -> Reply | Failure:
        async with session.room:
            if not self._worth_asking():
                return Failure(f"left alone after {self._failures} failures in a row")
            await session.turn()
            last: list[_FailedAttempt] = []
            try:
                async with asyncio.timeout(self._limits.timeout) as deadline:
                    stop = deadline.when() or 0.0
                    reply = await self._attempts(question, session, stop, last)
            except TimeoutError:
                before = f" (before: {last[-1]})" if last else ""
                reason = f"no answer within {self._limits.timeout:g} s{before}"
                return self._failed(Failure(reason, "raise --law.timeout, or relieve the server"))
            except _FailedAttempt as refused:
                return self._failed(Failure(str(refused), refused.fix))
            self._failures = 0
            return reply

    def _worth_asking(self) -> bool:
        """Whether the circuit is closed; one question in a while finds out whether it may be."""
        now = time.monotonic()
        if self._failures < self._limits.patience:
            return True
        if now < self._resume:
            return False
        self._resume = now + self._limits.timeout
        return True

    def _failed(self, failure: Failure) -> Failure:
        """Count a failure and log the first of an endpoint that answered before."""
        self._failures += 1
        self._resume = time.monotonic() + self._limits.timeout
        self.trouble = failure.reason
        if self._proven and not self._warned:
            self._warned = True
            _LOG.warning(
                "the endpoint %s failed (%s); nodes without an answer keep the private proposal",
                self._url, failure.reason,
            )  # fmt: skip
        return failure

    async def _attempts(
        self, question: Question, session: _Session, stop: float, last: list[_FailedAttempt]
    ) -> Reply:
        """Put a question until it is answered, or nothing more can be expected of it."""
        body, given_up, failures = self._body(question), self._given_up, 0
        while True:
            put = adapted(body, self._wire, given_up)
            try:
                reply = await self._post(put, session)
                self._given_up |= given_up
                return reply
            except _FailedAttempt as refused:
                free = {name: value for name, value in put.items() if name not in self._fixed}
                name = blamed(refused.said, free, self._wire) if refused.said else ""
                if name and name not in given_up:
                    given_up |= {name}
                    continue
                wait = refused.wait
                if wait is None:
                    wait = min(LONGEST_WAIT, FIRST_WAIT * 2**failures)
                late = asyncio.get_running_loop().time() + wait >= stop
                if not refused.again or failures >= self._limits.retries or late:
                    raise
                last.append(refused)
                failures += 1
                if refused.wait is not None:
                    session.pause(refused.wait)
                await asyncio.sleep(wait)

    async def _post(self, body: Mapping[str, Any], session: _Session) -> Reply:
        """Make one attempt."""
        headers = {"Accept-Encoding": "identity", **self._wire.headers(self._key)}
        data = bytearray()
        try:
            async with session.client.stream(
                "POST", self._url, json=body, headers=headers
            ) as response:
                status = response.status_code
                async for block in response.aiter_raw():
                    data += block
                    if len(data) > MAX_BODY:
                        break
        except (self._http.HTTPError, self._http.InvalidURL, OSError) as error:
            reason = f"{type(error).__name__}: {self._clean(str(error) or 'the connection broke')}"
            raise _FailedAttempt(
                reason, fix="start the server, or correct --law.base-url", again=True
            ) from None
        if not 200 <= status < 300:
            raise self._refusal(status, response.headers, bytes(data[:MAX_BODY]))
        if len(data) > MAX_BODY:
            raise _FailedAttempt(f"the answer is over {MAX_BODY >> 20} MiB long", fix=_MEND)
        try:
            reply = self._wire.read(json.loads(data))
        except Malformed as error:
            raise _FailedAttempt(self._clean(str(error)), fix=_MEND) from None
        except (ValueError, RecursionError):
            raise _FailedAttempt("the answer is no JSON", fix=_MEND) from None
        return reply._replace(text=self._redacted(reply.text))

    def _refusal(self, status: int, headers: Mapping[str, str], data: bytes) -> _FailedAttempt:
        """Return the error of a status: its name, the server's sentence, and what to do."""
        said = self._clean(sentence(data))
        if 300 <= status < 400:
            said = f"it points to {self._clean(headers.get('location', 'nowhere'))}"
        name = HTTPStatus(status).phrase if status in set(HTTPStatus) else ""
        wait = _retry_after(headers.get("retry-after", ""))
        reason = f"{status} {name}".strip() + (f": {said}" if said else "")
        reason += "" if wait is None else f" (it asks to wait {wait:g} s)"
        again = status in (408, 409, 425, 429) or status >= 500
        refused = _FailedAttempt(reason, fix=self._fix(status), again=again)
        refused.wait = wait
        if status in (400, 422):
            refused.said = data[:4096].decode("utf-8", "replace") or "refused"
        return refused

    def _fix(self, status: int) -> str:
        if status in (401, 403):
            held = "another key" if self._key else "the key"
            return f"put {held} into the environment variable {self._key_env}"
        if 300 <= status < 400:
            return "redirects are not followed; give --law.base-url that address if you trust it"
        return {
            400: "change the parameter it names; see `waggle list laws --verbose`",
            422: "change the parameter it names; see `waggle list laws --verbose`",
            404: "correct --law.base-url or --law.model",
            429: "wait, or lower --law.rate and --law.concurrency",
        }.get(status, _MEND)

    def _clean(self, text: str) -> str:
        """Return a text of a server as an error may show it."""
        return one_line(self._redacted(text))

    def _redacted(self, text: str) -> str:
        return text.replace(self._key, "[key]") if len(self._key) >= SHORTEST_SECRET else text


_MEND = "see to the server, then run the same command again"


class _Session:
    """The connections of one process to an endpoint, with their pace."""

    def __init__(self, http: Any, limits: Limits) -> None:
        many = http.Limits(max_connections=limits.concurrency, keepalive_expiry=IDLE_SECONDS)
        self.client: Any = http.AsyncClient(timeout=None, limits=many, follow_redirects=False)
        self.room = asyncio.Semaphore(limits.concurrency)
        self._interval = 60.0 / limits.rate if limits.rate else 0.0
        self._next = 0.0
        """When the next question may begin."""

    async def turn(self) -> None:
        """Wait until a question may begin."""
        now = asyncio.get_running_loop().time()
        start = max(now, self._next)
        self._next = start + self._interval
        await asyncio.sleep(start - now)

    def pause(self, seconds: float) -> None:
        """Let no other question begin for a while."""
        self._next = max(self._next, asyncio.get_running_loop().time() + seconds)

    def close(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close the connections, on the loop that made them."""
        if loop.is_running():
            asyncio.run_coroutine_threadsafe(self.client.aclose(), loop)


@cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """Return the event loop of this process; it has a thread of its own, also in notebooks."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name=f"endpoints-{process}", daemon=True).start()
    return loop


def _known_by_now(answer: Reply | Failure | None) -> Reply | Failure:
    """Return the answer of an equal question, which costs nothing again."""
    assert answer is not None
    return answer._replace(calls=0) if isinstance(answer, Reply) else answer


def _key(variable: str) -> str:
    """Return the key in an environment variable; it must fit into a header.

    A key that is given in place of the variable's name is not repeated.
    """
    if not variable.isidentifier():
        raise ConfigError("--law.api-key-env takes the name of an environment variable, not a key")
    found = os.environ.get(variable, "").strip()
    if not (found.isascii() and found.isprintable()):
        raise ConfigError(f"the key in {variable} holds characters that no key has; set it again")
    return found


def _retry_after(text: str) -> float | None:
    """Return the seconds that a server asks to wait; None where it says nothing sensible."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return seconds if 0 <= seconds < 10**6 else None
