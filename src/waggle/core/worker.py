"""Private workers, which turn a node's private task state into its private proposal w_i.

The law coordinates; the private proposal comes from the substrate's rule or from a private worker.
A world defines the request to a node's worker (`Workplace`), the runtime decides when to send it
(`waggle.runtime.staff`), and the world adopts or refuses the answer.
Invariant: a request names no node and no population, so its answer cannot either; an answer reaches
other nodes only as a claim that the law chose to write.
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
"""Maximum bytes of a request to a worker."""
MAX_ANSWER = 1 << 16
"""Maximum bytes of an answer; a longer one does not count as an answer."""
BYTES_PER_TOKEN = 4
"""Bytes that are charged as one token, rounded up, if a worker does not count its tokens."""

Schedule: TypeAlias = Literal["full", "reuse"]
"""`full` calls the worker at every update. `reuse` calls it at the first update and whenever
deliveries or the version of the private evidence have changed; otherwise the node keeps its latest
proposal."""

_encode = msgspec.json.Encoder(order="deterministic").encode


class Work(msgspec.Struct, frozen=True):
    """The request to the worker of one node at one update."""

    task: str
    goal: str
    state: Mapping[str, Json]
    """The node's private task state."""
    delivered: Mapping[str, Json] = {}
    """The content that messages have delivered to the node."""
    actions: tuple[str, ...] = ()
    """The legal answers; empty if any text is legal."""
    version: int = 0
    """Increases when the node's evidence is replaced, by late counterevidence or a changed file."""
    native: Callable[[], Json] | None = None
    """Returns the substrate's answer, for controls; not part of the request text."""
    entropy: int = 0
    """64 bits of the node's random stream for workers that sample, else 0; not in the text."""

    def question(self) -> bytes:
        """Return the text of the request, as JSON with sorted keys.

        Raises:
            ContractError: if it has a forbidden key, is not JSON or is too long.
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
    """A worker's answer with its cost; a worker may also return a plain JSON value."""

    value: Json
    """None means no answer."""
    usage: Usage = Usage()
    """Logical cost: a cached reply costs the same as the call it saves."""


Worker: TypeAlias = Callable[[Work], "Answer | Json | Awaitable[Answer | Json]"]
"""Any callable, sync or async. Its optional attribute `concurrency` allows parallel calls, and
`sampled` passes it the node's random draw in every call."""


def tokens(text: bytes) -> int:
    """Return the number of tokens charged for a text if its worker does not count them."""
    return ceil(len(text) / BYTES_PER_TOKEN)


class Desk(Protocol):
    """Answers batches of requests with workers; never raises because of a worker's failure."""

    @property
    def about(self) -> Mapping[str, Json]:
        """Name and options, as stored in the record."""
        ...

    @property
    def sampled(self) -> bool:
        """Whether its workers sample."""
        ...

    def answer(self, works: Sequence[Work]) -> Sequence[Answer]:
        """Answer every request; a failed one gets an answer without a value."""
        ...


@runtime_checkable
class Workplace(Protocol):
    """The additional methods of a World whose nodes can have private workers."""

    def staff(self) -> None:
        """Take proposals from workers from here on; a node waits until it has one."""
        ...

    def work(self, node: int, local: Local) -> Work:
        """Return the current request to a node's worker. Must not change state."""
        ...

    def adopt(self, node: int, answer: Json) -> bool:
        """Use an answer as the node's proposal until the next; return False if it is not valid."""
        ...
