"""What the engine asks of whatever runs its tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from waggle.engine.cuda.greedy_loop import MultiStepOutput as MultiStepOutput
from waggle.engine.cuda.greedy_loop import MultiStepRow as MultiStepRow
from waggle.engine.sampling import DrawFuture as DrawFuture
from waggle.engine.speculation import Text as Text

TokenFuture = Callable[[], list[int]]
"""Waits for tokens that a device is computing, and returns them."""


class RowInput(NamedTuple):
    """The new tokens of one row in a pass, and where its next ones are wanted."""

    slot: int
    tokens: Sequence[int]
    start: int
    """Own tokens that were run before; 0 for a row that enters."""
    asked: Sequence[int]
    """Offsets in the tokens behind which the next one is wanted."""
    prefix: tuple[int, ...]


class Backend(Protocol):
    """Runs rows of tokens and reads the model's next ones."""

    @property
    def asynchronous(self) -> bool:
        """Whether `run` returns before its work is done."""
        ...

    @property
    def verifies(self) -> bool:
        """Whether a pass may run drafts: the cache can take rejected tokens back."""
        ...

    @property
    def multi_step(self) -> bool:
        """Whether rows can be decoded greedily for many steps before the host reads them."""
        ...

    def decode_steps(
        self, rows: Sequence[MultiStepRow], ends: Sequence[int], history: Text | None
    ) -> list[MultiStepOutput]:
        """Decode rows for some steps; with a history of answers the device drafts from it."""
        ...

    def prime(self, most: int, prompt: int) -> None:
        """Make steps of up to this many tokens ready, and passes with prompts of this length."""
        ...

    def describe(self) -> str:
        """Say how this backend computes."""
        ...

    def room(self, prefix: int, own: int) -> int:
        """Return how many rows the memory holds when one of this size is among them."""
        ...

    def reserve(self, prefix: int, own: int) -> None:
        """Make room for rows of this many own positions after this long a prefix."""
        ...

    def run(self, rows: Sequence[RowInput]) -> Any:
        """Run tokens of each row; return states at the asked offsets of each in turn."""
        ...

    def argmax(self, hidden: Any, banned: Sequence[int] = ()) -> TokenFuture:
        """Ask for the most likely next token of each state, banned tokens aside."""
        ...

    def choose(self, hidden: Any, allowed: Sequence[tuple[int, ...]]) -> TokenFuture:
        """Ask for each state's most likely token among those allowed to it."""
        ...

    def sample(
        self,
        hidden: Any,
        own: Tensor,
        allowed: Sequence[tuple[int, ...]] | None = None,
        banned: Sequence[int] = (),
    ) -> DrawFuture:
        """Ask for a token of each state that is drawn by its own columns (see `sampling`).

        From those allowed to it, or else from all but banned ones.
        """
        ...

    def refresh(self, model: Any) -> None:
        """Take over the weights that a model of the same shape has now; rows have left."""
        ...

    def forget(self) -> None:
        """Give caches back after a failure, which may have left them half made."""
        ...

    def release(self, slot: int) -> None:
        """A row has left its slot."""
        ...
