"""Any law as a chat server, so that one machine's GPU can drive many runners.

It offers OpenAI's chat completions and Anthropic's messages, and accepts the chats that `laws/chat`
sends: it parses the view from the user turn, so laws that are not language models can be served
too. For a law that reads canonical views, the server puts each view into canonical order and
renames it, and answers in the caller's names. Bodies, queue and batch are bounded; if the queue is
full, the answer is 429 with Retry-After. Invariants: a bad request is answered with a one-line
error, never a crash; no name of the canonical view reaches the caller.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from waggle.compat.batcher import Batcher, NoReplica, QueueFull
from waggle.compat.limits import Guard, metrics
from waggle.compat.meters import Meters
from waggle.compat.replicas import Replica
from waggle.core.canon import check_view, decode_view, encode_decision
from waggle.core.decode import parse
from waggle.core.errors import WaggleError
from waggle.core.naming import Renaming
from waggle.core.order import canonical
from waggle.core.protocols import Decode, Law, Request
from waggle.core.schema import View

MAX_BODY = 128 * 1024
"""Largest request body in bytes."""
_MARK = "\nView: "
_BROKEN = "That record was not admitted. "
_Shape: TypeAlias = Callable[[Decode, str], dict[str, Any]]
"""Formats a decode, with the name of its law, as the response body of one protocol."""


class BadChat(WaggleError):
    """Raised when a request is not a chat about a local view."""


def read_request(body: Any) -> Request:
    """Parse the view, and the feedback of a failed decode, from a chat-completions body.

    Raises:
        BadChat: with one line that states the problem.
    """
    if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
        raise BadChat("send a JSON object with a list of messages")
    if body.get("stream"):
        raise BadChat("streaming is not offered; set stream to false")
    if body.get("n") not in (None, 1):
        raise BadChat("a law decides once; leave out n")
    users = [_content(turn) for turn in body["messages"] if _role(turn) == "user"]
    if not users or _MARK not in users[0]:
        raise BadChat(
            "the first user message must end in a line `View: JSON`, as the law `chat` writes it"
        )
    view = _view(users[0].split(_MARK, 1)[1])
    entropy = body.get("seed")
    if entropy is None:
        entropy = int.from_bytes(sha256(users[0].encode()).digest()[:8], "big")
    elif type(entropy) is not int:
        raise BadChat("seed must be a whole number")
    if len(users) < 2 or not users[1].startswith(_BROKEN):
        return Request(view, entropy)
    spoken = [_content(turn) for turn in body["messages"] if _role(turn) == "assistant"]
    return Request(view, entropy, _codes(users[1]), spoken[0] if spoken else "")


def _role(turn: Any) -> str:
    return turn.get("role", "") if isinstance(turn, dict) else ""


def _content(turn: Any) -> str:
    content = turn.get("content")
    if not isinstance(content, str):
        raise BadChat("message contents must be plain text")
    return content


def _view(text: str) -> View:
    data = text.encode()
    try:
        view = decode_view(data)
        check_view(view, data)  # an out-of-bounds view could make the law fail on a batch
        return view
    except (WaggleError, msgspec.MsgspecError, ValueError, UnicodeError) as error:
        raise BadChat(f"the view cannot be read: {str(error)[:200]}") from error


def _codes(correction: str) -> tuple[str, ...]:
    """Return the validator codes in a correction: words with a dot that end in a colon."""
    words = correction.removeprefix(_BROKEN).split()
    return tuple(word[:-1] for word in words if word.endswith(":") and "." in word)


class OrderedRequest(NamedTuple):
    """A request as its law reads it, and the renaming applied to it, if any."""

    request: Request
    naming: Renaming | None


def order_for(law: Law, request: Request) -> OrderedRequest:
    """Put a request into canonical order if its law reads canonical views.

    Raises:
        ContractError: if the view has more traces than allowed.
    """
    if getattr(law, "order", "shuffled") != "canonical":
        return OrderedRequest(request, None)
    view, naming = canonical(request.view)
    previous = _renamed(request.previous, naming)
    return OrderedRequest(Request(view, request.entropy, request.feedback, previous), naming)


def answer_in(naming: Renaming | None, decode: Decode) -> Decode:
    """Return a decode with the names of the original request."""
    if naming is None:
        return decode
    back, output = naming.inverse(), decode.output
    if isinstance(output, str):
        return Decode(_renamed(output, back), decode.usage)
    return Decode(back.decision(output), decode.usage)


def _renamed(text: str, naming: Renaming) -> str:
    """Rename the record in a text.

    A broken record stays broken: its readable part is renamed, and its error codes are put under a
    key that no record has. A text without any readable part is returned unchanged.
    """
    parsed = parse(text)
    if parsed.salvage is None:
        return text
    record = encode_decision(naming.decision(parsed.salvage))
    if parsed.decision is not None:
        return record.decode()
    broken = {**msgspec.json.decode(record, type=dict[str, object]), "invalid": parsed.codes}
    return msgspec.json.encode(broken).decode()


def _text(decode: Decode) -> str:
    output = decode.output
    return output if isinstance(output, str) else encode_decision(output).decode()


def completion(decode: Decode, model: str) -> dict[str, Any]:
    """Return a decode in the format of OpenAI's chat completion."""
    text, usage = _text(decode), decode.usage
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
                "logprobs": None,
            }
        ],
        "usage": {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens + usage.output_tokens,
        },
    }


def message(decode: Decode, model: str) -> dict[str, Any]:
    """Return a decode in the format of Anthropic's message."""
    usage = decode.usage
    return {
        "id": f"msg_{uuid.uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": _text(decode)}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
    }


def _refuse(status: int, message: str, **headers: str) -> JSONResponse:
    """Return an error response whose body clients of either protocol can read."""
    kind = "invalid_request_error" if status < 429 else "server_error"
    error = {"message": message, "type": kind, "param": None, "code": None}
    return JSONResponse(
        {"type": "error", "error": error},
        status,
        {k.replace("_", "-"): v for k, v in headers.items()},
    )


async def _body(request: HttpRequest) -> bytes | None:
    """Read a request body; return None if it exceeds `MAX_BODY`."""
    data = b""
    async for block in request.stream():
        data += block
        if len(data) > MAX_BODY:
            return None
    return data


async def _while_heard(request: HttpRequest, future: Future[Decode]) -> Decode:
    """Wait for a decode; cancel the request if its caller disconnects.

    Raises:
        ClientDisconnect: if the caller disconnected.
    """
    answer = asyncio.wrap_future(future)
    gone = asyncio.ensure_future(request.receive())  # after the body only a disconnect can come
    try:
        await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ClientDisconnect
        return answer.result()
    finally:
        gone.cancel()
        answer.cancel()


async def _answer(law: Law, batcher: Batcher, request: HttpRequest, shape: _Shape) -> Response:
    """Return the law's decision on a request, or an error with a matching HTTP status."""
    data = await _body(request)
    if data is None:
        return _refuse(413, f"a request has at most {MAX_BODY} bytes; send one view at a time")
    try:
        asked = order_for(law, read_request(msgspec.json.decode(data)))
        future = batcher.submit(asked.request)
    except (WaggleError, msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return _refuse(400, str(error).partition("\n")[0][:300])
    except QueueFull:
        return _refuse(429, "too many requests wait already; try again", Retry_After="1")
    try:
        decode = await _while_heard(request, future)
        return JSONResponse(shape(answer_in(asked.naming, decode), law.name))
    except ClientDisconnect:
        raise
    except NoReplica as error:
        return _refuse(503, f"{error}; try again", Retry_After="5")
    except WaggleError as error:  # e.g. a prompt too long for the model: a retry would not help
        return _refuse(400, str(error).partition("\n")[0][:300])
    except Exception as error:
        return _refuse(500, f"the law failed: {type(error).__name__}")


def app(
    law: Law,
    *,
    replicas: Sequence[Replica] = (),
    max_queue: int = 1024,
    max_batch: int = 64,
    hosts: Iterable[str] | None = None,
    token: str | None = None,
    meters: Meters | None = None,
) -> Guard:
    """Return the server of a law as an ASGI application.

    Args:
        law: the law that decides.
        replicas: copies of the law in separate processes, which decide in its place.
        max_queue: largest number of waiting requests.
        max_batch: largest number of requests in one batch.
        hosts: accepted host names; None accepts every name.
        token: token that clients must send; None if no token is needed.
        meters: the server's counters; new ones if None.
    """
    batcher = Batcher(replicas or [law], max_queue, max_batch)
    meters = Meters() if meters is None else meters
    meters.gauges["queue"] = ("Requests that wait for the law.", batcher.waiting)
    wanted = len(replicas or [law])

    def ready() -> int:
        return sum(replica.ready for replica in replicas) if replicas else wanted

    meters.gauges["replicas_ready"] = ("Replicas of the law that can decide.", ready)
    meters.gauges["replica_restarts_total"] = (
        "Replicas that died and were started again.",
        lambda: sum(replica.starts - 1 for replica in replicas),
    )

    async def chat(request: HttpRequest) -> Response:
        return await _answer(law, batcher, request, completion)

    async def messages(request: HttpRequest) -> Response:
        return await _answer(law, batcher, request, message)

    async def models(_: HttpRequest) -> Response:
        entry = {"id": law.name, "object": "model", "created": 0, "owned_by": "waggle"}
        return JSONResponse({"object": "list", "data": [entry]})

    async def health(_: HttpRequest) -> Response:
        up = ready()
        said = {"status": "ok" if up else "starting", "ready": up, "replicas": wanted}
        return JSONResponse(said, 200 if up else 503)

    async def counted(_: HttpRequest) -> Response:
        return metrics(meters)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        batcher.close()

    routes = Starlette(
        routes=[
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/messages", messages, methods=["POST"]),
            Route("/v1/models", models),
            Route("/health", health),
            Route("/metrics", counted),
        ],
        lifespan=lifespan,
    )
    return Guard(routes, meters, hosts, token)
