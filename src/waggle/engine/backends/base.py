"""The interface between the engine and the backend that runs its tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from waggle.engine.cuda.greedy_loop import MultiStepOutput as MultiStepOutput
from waggle.engine.cuda.greedy_loop import MultiStepRow as MultiStepRow
from waggle.engine.sampling import DrawFuture as DrawFuture
from waggle.engine.speculation import Text as Text

TokenFuture = Callable[[], list[int]]
"""A callable that waits for tokens computed on a device and returns them."""


class RowInput(NamedTuple):
    """The new tokens of one row in a pass, and the offsets whose next tokens are needed."""

    slot: int
    tokens: Sequence[int]
    start: int
    """The number of the row's tokens, without its prefix, that were run before; 0 for a new row."""
    asked: Sequence[int]
    """Offsets in the tokens after which the next token is needed."""
    prefix: tuple[int, ...]


class Backend(Protocol):
    """Runs rows of tokens and reads the model's next ones."""

    @property
    def asynchronous(self) -> bool:
        """Whether `run` returns before its work is done."""
        ...

    @property
    def verifies(self) -> bool:
        """Whether a pass may run drafts: the cache can drop rejected tokens."""
        ...

    @property
    def multi_step(self) -> bool:
        """Whether rows can be decoded greedily for many steps before the host reads them."""
        ...

    def decode_steps(
        self, rows: Sequence[MultiStepRow], ends: Sequence[int], history: Text | None
    ) -> list[MultiStepOutput]:
        """Decode rows for several steps; with a history of answers the device drafts from it."""
        ...

    def describe(self) -> str:
        """Return a short description of how this backend computes."""
        ...

    def room(self, prefix: int, own: int) -> int:
        """Return how many rows fit in memory if one of them has this size."""
        ...

    def reserve(self, prefix: int, own: int) -> None:
        """Make room for rows of `own` positions after a prefix of `prefix` positions."""
        ...

    def shrink(self, positions: int) -> None:
        """Free caches that are far too long for rows of `positions`; no rows may be running."""
        ...

    def run(self, rows: Sequence[RowInput]) -> Any:
        """Run tokens of each row; return the states at the asked offsets, row after row."""
        ...

    def argmax(self, hidden: Any, banned: Sequence[int] = ()) -> TokenFuture:
        """Request the most likely next token of each state, excluding banned tokens."""
        ...

    def choose(self, hidden: Any, allowed: Sequence[tuple[int, ...]]) -> TokenFuture:
        """Request each state's most likely token among those it is allowed."""
        ...

    def sample(
        self,
        hidden: Any,
        own: Tensor,
        allowed: Sequence[tuple[int, ...]] | None = None,
        banned: Sequence[int] = (),
    ) -> DrawFuture:
        """Request a token of each state, drawn by its own columns (see `sampling`).

        It is drawn from the state's allowed tokens if given, else from all but banned ones.
        """
        ...

    def refresh(self, model: Any) -> None:
        """Load the current weights of a model of the same shape; no rows may be running."""
        ...

    def forget(self) -> None:
        """Free the caches after a failure, which may have left them half-built."""
        ...

    def release(self, slot: int) -> None:
        """Release the slot of a row that has left."""
        ...
