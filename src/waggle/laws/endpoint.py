"""The client of a chat endpoint: concurrent requests, each within one deadline.

The first request is sent alone: if it fails, an `EndpointError` repeats the server's own message
and no episode is played. Optional parameters that the server refuses are detected there and
remembered. Later failures are returned as data. A request is retried after overload and lost
connections; its deadline covers all attempts and waits, however slowly a server sends. Redirects
are not followed, so the key is sent only to the given address. Invariants: the key never appears in
a reply, error or log line; no response is read beyond its size limit.
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
"""Largest response in bytes; a longer one counts as a failure."""
SHORTEST_SECRET = 6
"""Shortest key that is redacted from texts; shorter ones, such as EMPTY, are not secret."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 8.0
"""Seconds before a retry, doubled every time, unless the server states a wait."""
IDLE_SECONDS = 3.0
"""How long an idle connection is kept; many servers close theirs after five seconds."""
_LOG = logging.getLogger(__name__)


class Limits(NamedTuple):
    """Timeout, retries, concurrency and rate of the requests to an endpoint."""

    timeout: float = 120.0
    """Seconds that one request may take, including all attempts and waits."""
    retries: int = 3
    concurrency: int = 16
    rate: float = 0.0
    """Requests per minute; 0 for no limit."""
    patience: int = 16
    """Consecutive failures after which requests pause for the time of one `timeout`."""


class Question(NamedTuple):
    """A chat request: its turns, and parameters in addition to those of the endpoint."""

    turns: Turns
    parameters: Mapping[str, Any] = {}


class Failure(NamedTuple):
    """The reason why a request got no answer, in one line."""

    reason: str
    fix: str = ""


class _FailedAttempt(Exception):
    """Raised when an attempt fails; `again` states whether a retry may help."""

    def __init__(
        self, reason: str, fix: str, again: bool = False, wait: float | None = None, text: str = ""
    ) -> None:
        super().__init__(reason)
        self.fix, self.again = fix, again
        self.wait = wait
        """Seconds that the server asks to wait."""
        self.text = text
        """The start of the message of a server that rejected the request; otherwise empty."""


class _Health:
    """The failure state of an endpoint since its last renewal.

    The first request leaves the endpoint proven or dead. Later failures only pause it: after too
    many in a row, one probe per timeout is sent until one is answered.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.proven = False
        self.dead = ""
        """Why no further request is sent; empty while the endpoint is usable."""
        self.failures = 0
        """Number of consecutive failures."""
        self._next_probe = 0.0
        self._warned = False

    def admits(self) -> bool:
        """Return whether to send a request now; if it is a probe, the next one is put off."""
        now = time.monotonic()
        if self.failures < self._limits.patience:
            return True
        if now < self._next_probe:
            return False
        self._next_probe = now + self._limits.timeout
        return True

    def fail(self) -> bool:
        """Count a failure; return whether it is the first one of a proven endpoint."""
        self.failures += 1
        self._next_probe = time.monotonic() + self._limits.timeout
        first = self.proven and not self._warned
        self._warned |= first
        return first


class Endpoint:
    """The client of one model at one address."""

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
        """Configure the client; nothing is sent yet.

        Args:
            base_url: its address, to which the protocol appends a path.
            wire: its protocol.
            parameters: parameters that every request carries beside its turns.
            key_env: environment variable with the key; the protocol's default if empty.
            limits: timeout, retries, concurrency and rate.
            fixed: parameters that are never given up, even if the server refuses them.
            cache: cache of replies, if any.
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
        """Optional parameters that the server refused; a renewal does not reset them."""
        self._sessions: dict[int, _Session] = {}
        self.trouble = ""
        """The reason of the latest failed request; empty if none has failed."""
        self.renew()

    def renew(self) -> None:
        """Read the key again and reset the failure state."""
        self._key = _key(self._key_env)
        self._health = _Health(self._limits)

    def ask(self, questions: Sequence[Question]) -> list[Reply | Failure]:
        """Send several requests concurrently and return their replies or failures, in order.

        With a cache, equal requests are sent once.

        Raises:
            EndpointError: if the first request ever that is not in the cache gets no answer.
        """
        keys = [self._key_of(question) for question in questions]
        found: list[Reply | Failure | None] = [self._known(key) for key in keys]
        first: dict[str, int] = {}
        for place, reply in enumerate(found):
            if reply is None:
                first.setdefault(keys[place] or str(place), place)
        missing = list(first.values())
        if missing:
            if self._health.dead:
                raise EndpointError(self._health.dead)
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
        """Return the cache key of a request: address and body; empty without a cache."""
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
        first = [] if self._health.proven else [await self._prove(questions[0], session)]
        rest = questions[len(first) :]
        return [*first, *await asyncio.gather(*(self._one(each, session) for each in rest))]

    async def _prove(self, question: Question, session: _Session) -> Reply:
        """Send the first request; if it fails, the endpoint is dead."""
        answer = await self._one(question, session)
        if isinstance(answer, Failure):
            self._health.dead = (
                f"the endpoint {self._url} did not answer the first question "
                f"({answer.reason}); {answer.fix}"
            )
            raise EndpointError(self._health.dead)
        self._health.proven = True
        return answer

    async def _one(self, question: Question, session: _Session) -> Reply | Failure:
        """Send one request in its turn and report its end; a failure is logged once."""
        async with session.room:
            if not self._health.admits():
                return Failure(f"left alone after {self._health.failures} failures in a row")
            await session.turn()
            try:
                reply = await self._attempts(question, session)
            except _FailedAttempt as failed:
                self.trouble = str(failed)
                if self._health.fail():
                    _LOG.warning(
                        "the endpoint %s failed (%s); "
                        "nodes without an answer keep the private proposal",
                        self._url, self.trouble,
                    )  # fmt: skip
                return Failure(str(failed), failed.fix)
            self._health.failures = 0
            return reply

    async def _attempts(self, question: Question, session: _Session) -> Reply:
        """Send a request until it is answered, or no retry is useful or allowed."""
        body, given_up, retries = self._body(question), self._given_up, 0
        retried: _FailedAttempt | None = None
        try:
            async with asyncio.timeout(self._limits.timeout) as deadline:
                while True:
                    put = adapted(body, self._wire, given_up)
                    try:
                        reply = await self._post(put, session)
                        self._given_up |= given_up
                        return reply
                    except _FailedAttempt as failed:
                        refused = self._refused_parameter(failed, put)
                        if refused and refused not in given_up:
                            given_up |= {refused}
                            continue  # a request without it is no retry, so it costs no wait
                        wait = self._wait_before_retry(failed, retries, deadline.when() or 0.0)
                        if wait is None:
                            raise
                        retried, retries = failed, retries + 1
                    if retried.wait is not None:
                        session.pause(retried.wait)
                    await asyncio.sleep(wait)
        except TimeoutError:
            before = f" (before: {retried})" if retried else ""
            raise _FailedAttempt(
                f"no answer within {self._limits.timeout:g} s{before}",
                fix="raise --law.timeout, or relieve the server",
            ) from None

    def _wait_before_retry(self, failed: _FailedAttempt, retries: int, stop: float) -> float | None:
        """Return how long to wait before a retry; None if it is of no use or not allowed."""
        backoff = min(LONGEST_WAIT, FIRST_WAIT * 2**retries)
        wait = backoff if failed.wait is None else failed.wait
        late = asyncio.get_running_loop().time() + wait >= stop
        return wait if failed.again and retries < self._limits.retries and not late else None

    def _refused_parameter(self, failed: _FailedAttempt, body: Mapping[str, Any]) -> str:
        """Return the optional parameter that a rejection blames; empty if there is none."""
        optional = {name: value for name, value in body.items() if name not in self._fixed}
        return blamed(failed.text, optional, self._wire) if failed.text else ""

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
        """Return the error of an HTTP status: its name, the server's message, and what to do."""
        said = self._clean(sentence(data))
        if 300 <= status < 400:
            said = f"it points to {self._clean(headers.get('location', 'nowhere'))}"
        name = HTTPStatus(status).phrase if status in set(HTTPStatus) else ""
        wait = _retry_after(headers.get("retry-after", ""))
        reason = f"{status} {name}".strip() + (f": {said}" if said else "")
        reason += "" if wait is None else f" (it asks to wait {wait:g} s)"
        again = status in (408, 409, 425, 429) or status >= 500
        text = (data[:4096].decode("utf-8", "replace") or "refused") if status in (400, 422) else ""
        return _FailedAttempt(reason, fix=self._fix(status), again=again, wait=wait, text=text)

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
        """Return server text as one line without the key, for error messages."""
        return one_line(self._redacted(text))

    def _redacted(self, text: str) -> str:
        return text.replace(self._key, "[key]") if len(self._key) >= SHORTEST_SECRET else text


_MEND = "see to the server, then run the same command again"


class _Session:
    """The connections of one process to an endpoint, with their rate limit."""

    def __init__(self, http: Any, limits: Limits) -> None:
        many = http.Limits(max_connections=limits.concurrency, keepalive_expiry=IDLE_SECONDS)
        self.client: Any = http.AsyncClient(
            timeout=None, limits=many, follow_redirects=False, verify=_certificates(http)
        )
        self.room = asyncio.Semaphore(limits.concurrency)
        self._interval = 60.0 / limits.rate if limits.rate else 0.0
        self._next = 0.0
        """The time at which the next request may start."""

    async def turn(self) -> None:
        """Wait until the rate limit allows the next request."""
        now = asyncio.get_running_loop().time()
        start = max(now, self._next)
        self._next = start + self._interval
        await asyncio.sleep(start - now)

    def pause(self, seconds: float) -> None:
        """Start no other request for the given number of seconds."""
        self._next = max(self._next, asyncio.get_running_loop().time() + seconds)

    def close(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close the connections on the event loop that created them."""
        if loop.is_running():
            asyncio.run_coroutine_threadsafe(self.client.aclose(), loop)


@cache
def _certificates(http: Any) -> Any:
    """Return the TLS context of all endpoints; to read the trusted certificates takes 0.1 s."""
    return http.create_ssl_context()


@cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """Return the event loop of this process; it runs in a separate thread, in notebooks too."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name=f"endpoints-{process}", daemon=True).start()
    return loop


def _known_by_now(answer: Reply | Failure | None) -> Reply | Failure:
    """Return the answer of an equal request, at no further cost."""
    assert answer is not None
    return answer._replace(calls=0) if isinstance(answer, Reply) else answer


def _key(variable: str) -> str:
    """Return the key in an environment variable; it must be valid in an HTTP header.

    If a key is given in place of the variable's name, the error does not repeat it.
    """
    if not variable.isidentifier():
        raise ConfigError("--law.api-key-env takes the name of an environment variable, not a key")
    found = os.environ.get(variable, "").strip()
    if not (found.isascii() and found.isprintable()):
        raise ConfigError(f"the key in {variable} holds characters that no key has; set it again")
    return found


def _retry_after(text: str) -> float | None:
    """Return the seconds that a server asks to wait; None if the header is missing or invalid."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return seconds if 0 <= seconds < 10**6 else None
