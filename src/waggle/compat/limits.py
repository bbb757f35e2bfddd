"""Limits on the clients of a server: timeouts, a bound on connections, host names and a token.

`Guard` wraps the application. It checks the Host header, so that a web page in a browser cannot
reach a server on the same machine under another name, and the token if one is set. `limited` is the
connection protocol: headers have a timeout, idle connections and those whose client does not read
are closed, and the number of connections is bounded.
Invariant: a client that sends or reads slowly, or disconnects, costs one bounded buffer, for a
bounded time, and no log line.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from typing import Any, TypeAlias

from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, PlainTextResponse, Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from waggle.compat.meters import Meters

HEADER_SECONDS = 5.0
"""Timeout from the connection, or the last answer, to the end of the headers."""
BODY_SECONDS = 10.0
"""Timeout from the headers to the end of the body."""
READ_SECONDS = 10.0
"""Timeout for a client to read what fills the buffer of its answers."""
MAX_HEADERS = 16 * 1024
"""Largest size of all headers together, in bytes."""
TOKEN = "WAGGLE_TOKEN"
"""Environment variable with the token that clients must send."""
OPEN = ("/health",)
"""Routes that need no token."""
ROUTES = ("/v1/chat/completions", "/v1/messages", "/v1/models", "/health", "/metrics")
"""Routes that are counted by name; all others are counted as `other`."""
_Scope: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def token_for(host: str, given: str | None) -> str | None:
    """Return the given token, or a new one unless the host is loopback; None if none is needed."""
    if given:
        return given
    return None if loopback(host) else secrets.token_urlsafe(24)


def names_of(host: str) -> frozenset[str] | None:
    """Return the accepted host names of a server in lower case; None if it accepts all names."""
    if loopback(host):
        return frozenset({"localhost", "127.0.0.1", "::1", host.lower()})
    with suppress(ValueError):
        if ipaddress.ip_address(host).is_unspecified:
            return None  # bound to all addresses of the machine, whose names are unknown
    return frozenset({host.lower()})


class Guard:
    """An ASGI application behind a check of Host and token; counts its answers in `meters`."""

    def __init__(
        self, inner: Any, meters: Meters, hosts: Iterable[str] | None, token: str | None
    ) -> None:
        self._inner = inner
        self._meters = meters
        self._hosts = None if hosts is None else frozenset(hosts)
        self._token = token

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        route = scope["path"] if scope["path"] in ROUTES else "other"
        began, status = time.perf_counter(), 0

        async def counted(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            refused = self._refusal(scope)
            async with asyncio.timeout(None) as patience:
                inner = refused or self._inner
                await inner(scope, _whole_body(receive, patience), counted)
        except ClientDisconnect:
            self._meters.dropped["gone"] += 1
            status = 0  # an answer to a disconnected client is not counted
        except TimeoutError:
            self._meters.dropped["body"] += 1
            if not status:
                late = JSONResponse({"error": {"message": "the body came too late"}}, 408)
                late.headers["connection"] = "close"
                await late(scope, receive, counted)
        if status:
            self._meters.answered(route, status, time.perf_counter() - began)

    def _refusal(self, scope: _Scope) -> Response | None:
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        if self._hosts is not None and _name(headers.get("host", "")) not in self._hosts:
            return _no(421, "this server is asked under another name; use the one it listens on")
        if self._token is None or scope["path"] in OPEN:
            return None
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        for said in (bearer, headers.get("x-api-key", "")):
            if hmac.compare_digest(said.encode(), self._token.encode()):
                return None
        return _no(401, "send the token of this server as `Authorization: Bearer TOKEN`")


def _name(host: str) -> str:
    """Return the name in a Host header in lower case, without the port."""
    host = host.lower()
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _no(status: int, message: str) -> Response:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return JSONResponse({"type": "error", "error": error}, status)


def _whole_body(receive: _Receive, patience: asyncio.Timeout) -> _Receive:
    """Set a timeout within which the whole body of a request must arrive."""
    patience.reschedule(asyncio.get_running_loop().time() + BODY_SECONDS)

    async def received() -> MutableMapping[str, Any]:
        message = await receive()
        if not message.get("more_body"):
            patience.reschedule(None)
        return message

    return received


def metrics(meters: Meters) -> Response:
    """Return the response of `/metrics`."""
    return PlainTextResponse(meters.text(), media_type="text/plain; version=0.0.4")


def limited(meters: Meters, most: int) -> type[asyncio.Protocol]:
    """Return a connection protocol class that allows at most `most` open connections."""

    class Limited(H11Protocol):
        """A connection with timeouts for its headers, for being idle and for a full buffer."""

        _clock: asyncio.TimerHandle | None = None
        _full: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            meters.gauges.setdefault("connections", ("Open connections.", self.connections.__len__))
            if len(self.connections) > most:
                meters.dropped["crowd"] += 1
                transport.abort()
                return
            self._wait()

        def handle_events(self) -> None:
            before = self.cycle
            super().handle_events()
            if self.cycle is not before:
                self._stop()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.cycle.response_complete and not self.transport.is_closing():
                self._wait()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._full = self.loop.call_later(READ_SECONDS, self._unread)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._full is not None:
                self._full.cancel()
                self._full = None

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)
            self.resume_writing()  # whoever waits for the buffer

        def _wait(self) -> None:
            self._stop()
            self._clock = self.loop.call_later(HEADER_SECONDS, self._late)

        def _stop(self) -> None:
            if self._clock is not None:
                self._clock.cancel()
                self._clock = None

        def _late(self) -> None:
            meters.dropped["headers"] += 1
            self.transport.abort()

        def _unread(self) -> None:
            meters.dropped["unread"] += 1
            self.transport.abort()

    return Limited
