"""Private workers: who turns a node's private task state into its private proposal w_i.

The law organises; what a node proposes by itself comes from the substrate's own rule or, where a
worker is hired, from that worker. A world says what the worker of a node is asked (`Workplace`),
the runtime says when (`waggle.runtime.staff`), and the world adopts the answer or refuses it.
Invariant: what a worker is asked names no node and no population, so its answer cannot either;
an answer reaches others only as a claim that the law chose to write.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import ceil
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from waggle.core.bounds import check_json
from waggle.core.errors import ContractError
from waggle.core.protocols import Local, Usage
from waggle.core.schema import Json

MAX_QUESTION = 1 << 20
"""Bytes of what a worker is asked."""
MAX_ANSWER = 1 << 16
"""Bytes of an answer; a longer one is no answer."""
BYTES_PER_TOKEN = 4
"""A worker that does not count its tokens is charged one for so many bytes, rounded up."""

Schedule: TypeAlias = Literal["full", "reuse"]
"""`full` asks at every update. `reuse` asks first, and when what was delivered or the version of
the private evidence has changed since; else the node keeps its latest proposal."""

_encode = msgspec.json.Encoder(order="deterministic").encode


class Work(msgspec.Struct, frozen=True):
    """What the worker of one node is asked at one update."""

    task: str
    goal: str
    state: Mapping[str, Json]
    """The node's private task state."""
    delivered: Mapping[str, Json] = {}
    """What messages have brought to the node."""
    actions: tuple[str, ...] = ()
    """The answers that are legal; empty where any text may be the answer."""
    version: int = 0
    """Goes up when the node's own evidence is replaced: late counterevidence, a changed file."""
    native: Callable[[], Json] | None = None
    """The substrate's own answer, for controls; no part of the question."""
    entropy: int = 0
    """64 bits of the node's own stream for workers that sample, else 0; no part of the question."""

    def question(self) -> bytes:
        """Return the one text of what is asked, as JSON with sorted keys.

        Raises:
            ContractError: if it holds a forbidden key, is no JSON or is too long.
        """
        check_json(self.state)
        check_json(self.delivered)
        asked = {
            "task": self.task, "goal": self.goal, "actions": self.actions, "state": self.state,
            "delivered": self.delivered,
        }  # fmt: skip
        try:
            text = _encode(asked)
        except (TypeError, ValueError) as error:
            raise ContractError(f"work is not JSON ({error}); put JSON values only") from None
        if len(text) > MAX_QUESTION:
            raise ContractError(f"work has {len(text)} bytes; shrink it to {MAX_QUESTION}")
        return text


class Answer(msgspec.Struct, frozen=True):
    """What a worker returned, and what it cost; plain JSON values are answers too."""

    value: Json
    """None is no answer."""
    usage: Usage = Usage()
    """Logical cost: a reply from the cache counts as the call it saves."""


Worker: TypeAlias = Callable[[Work], "Answer | Json | Awaitable[Answer | Json]"]
"""Any callable, async too. `concurrency` (an attribute) allows several calls at a time, `sampled`
gives it the node's own draw at every call."""


def tokens(text: bytes) -> int:
    """Return how many tokens a text is charged as where its worker does not count them."""
    return ceil(len(text) / BYTES_PER_TOKEN)


class Desk(Protocol):
    """Where workers are asked: it answers many questions and never raises for what a worker did."""

    @property
    def about(self) -> Mapping[str, Json]:
        """Name and options, as the record keeps them."""
        ...

    @property
    def sampled(self) -> bool:
        """Whether its workers draw."""
        ...

    def answer(self, works: Sequence[Work]) -> Sequence[Answer]:
        """Answer every question; a fault is an answer without a value."""
        ...


@runtime_checkable
class Workplace(Protocol):
    """What a World adds so that private workers can be hired for its nodes."""

    def staff(self) -> None:
        """From now on take proposals from workers; a node without one yet waits."""
        ...

    def work(self, node: int, local: Local) -> Work:
        """Return what the worker of a node is asked now. Must not change state."""
        ...

    def adopt(self, node: int, answer: Json) -> bool:
        """Take an answer as the node's proposal until the next; False if it can be none."""
        ...
