"""The viewer as an HTTP application, reachable from this machine only.

The static files are a fixed set that is read at startup; a record is requested by its name in the
list. The response headers let the browser load only the viewer's own scripts and styles.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from waggle.compat.limits import Guard, names_of
from waggle.compat.meters import Meters
from waggle.core.errors import WaggleError
from waggle.view import decisions, episode
from waggle.view.growing import Answer, LiveRecord, LiveRecords
from waggle.view.library import Library

HOST = "127.0.0.1"
_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


def static() -> dict[str, str]:
    """Return the contents of the page's files by name."""
    found = sorted(files("waggle.view").joinpath("static").iterdir(), key=lambda file: file.name)
    kinds = {file.name: file.name.rpartition(".")[2] for file in found}
    return {f.name: f.read_text(encoding="utf-8") for f in found if kinds[f.name] in _TYPES}


def app(library: Library, meters: Meters | None = None) -> Guard:
    """Return an ASGI application that serves a library of records."""
    pages, following = static(), LiveRecords()

    def page(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in pages:
            return _json({"error": "there is no such page"}, 404)
        kind = _TYPES[name.rpartition(".")[2]]
        return Response(pages[name], media_type=kind, headers=_HEADERS)

    def runs(request: Request) -> Any:
        return library.page(_number(request, "start"))

    def asked(
        request: Request,
        playing: Callable[[LiveRecord], Answer],
        finished: Callable[[Path], Answer],
    ) -> Answer:
        """Query the live record of a running episode, else the finished file."""
        name = request.query_params.get("run", "")
        growing = library.growing(name)
        answer = following.ask(growing, playing) if growing is not None else None
        return finished(library.path(name)) if answer is None else answer

    def document(request: Request) -> Any:
        return asked(request, LiveRecord.document, episode.document)

    def more(request: Request) -> Any:
        start = _number(request, "start")
        return asked(request, lambda found: found.since(start), lambda _: {"live": False})

    def update(request: Request) -> Any:
        round, agent = _number(request, "round"), _number(request, "agent")
        found = asked(
            request,
            lambda playing: playing.update(round, agent),
            lambda path: decisions.updates(path, round, agent),
        )
        return found[0] if found else None

    def data(read: Callable[[Request], Any]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            # Drain the body first: the guard's ten-second timeout must not cover reading a record.
            await request.body()
            return await run_in_threadpool(lambda: _json(read(request)))

        return answer

    async def refused(request: Request, error: Exception) -> Response:
        return _json({"error": str(error).replace(f"{library.root}/", "")}, 400)

    routes = [
        Route("/", page),
        Route("/{name}", page),
        Route("/api/runs", data(runs)),
        Route("/api/episode", data(document)),
        Route("/api/more", data(more)),
        Route("/api/update", data(update)),
    ]
    inner = Starlette(routes=routes, exception_handlers={WaggleError: refused})
    return Guard(inner, Meters() if meters is None else meters, names_of(HOST), None)


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "0")
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise WaggleError(f"{name} must be a number")
    return int(text)


def _json(value: Any, status: int = 200) -> Response:
    body = msgspec.json.encode(value)
    return Response(body, status, headers=_HEADERS, media_type="application/json")
