"""Sampled decisions as arrays: their tokens, the choices in them, and where they were made.

A decision is a prompt, an answer and its end of turn. Some tokens of the answer are choices, each
with the allowed tokens and the log-probability of the sampled one; all others were forced by the
grammar. Invariant: row i of every array of decisions is decision i.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from waggle.scd.data.arrays import Index, spans


class Choice(NamedTuple):
    """One token that the law chose."""

    offset: int
    """Index in the answer."""
    allowed: Sequence[int]
    """Tokens that were allowed; empty if all were."""
    logprob: float


class SampledDecision(NamedTuple):
    """One sampled decision."""

    prompt: Sequence[int]
    answer: Sequence[int]
    """Includes the end-of-turn token, if there is one."""
    choices: Sequence[Choice]
    node: int
    round: int
    legal: bool
    """Whether it was executable as decoded."""


@dataclass(frozen=True, eq=False)
class Decisions:
    """Several decisions, concatenated in arrays."""

    ids: NDArray[np.int32]
    lengths: Index
    """Tokens of each decision, prompt and answer together."""
    prompts: Index
    episode: Index
    """Index of each decision's episode in the batch."""
    node: Index
    round: Index
    legal: NDArray[np.bool_]
    counterfactual: NDArray[np.float32]
    """Reward lost with another decision in its place; NaN where none was tried."""
    choices: Index
    """Number of choices of each decision."""
    offsets: Index
    """Index of each choice in its answer."""
    logprobs: NDArray[np.float32]
    widths: Index
    """Number of allowed tokens of each choice; 0 if all were allowed."""
    allowed: NDArray[np.int32]
    """Allowed tokens of all choices, concatenated."""

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def _starts(self) -> tuple[Index, Index, Index]:
        """Offsets of each decision's tokens and choices, and of each choice's allowed tokens."""
        return tuple(  # type: ignore[return-value]
            np.cumsum(sizes) - sizes for sizes in (self.lengths, self.choices, self.widths)
        )

    def take(self, chosen: Index) -> Decisions:
        """Return the chosen decisions, in the given order."""
        tokens, choices, allowed = self._starts
        picked = spans(choices[chosen], self.choices[chosen])
        widths = self.widths[picked]
        rows = {
            name: getattr(self, name)[chosen]
            for name in ("lengths", "prompts", "episode", "node", "round", "legal",
                         "counterfactual", "choices")
        }  # fmt: skip
        return Decisions(
            ids=self.ids[spans(tokens[chosen], self.lengths[chosen])],
            offsets=self.offsets[picked],
            logprobs=self.logprobs[picked],
            widths=widths,
            allowed=self.allowed[spans(allowed[picked], widths)],
            **rows,
        )

    def of_episode(self, number: int) -> Decisions:
        """Return the decisions with `number` as the index of their episode."""
        columns = self.columns()
        return Decisions(**{**columns, "episode": np.full(len(self), number, np.int64)})

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def pack(decided: Sequence[SampledDecision], counterfactual: Sequence[float]) -> Decisions:
    """Put decisions of one episode into arrays; `counterfactual` as in `Decisions`."""
    choices = [choice for one in decided for choice in one.choices]
    whole = [token for one in decided for part in (one.prompt, one.answer) for token in part]
    return Decisions(
        ids=np.array(whole, np.int32),
        lengths=np.array([len(one.prompt) + len(one.answer) for one in decided], np.int64),
        prompts=np.array([len(one.prompt) for one in decided], np.int64),
        episode=np.zeros(len(decided), np.int64),
        node=np.array([one.node for one in decided], np.int64),
        round=np.array([one.round for one in decided], np.int64),
        legal=np.array([one.legal for one in decided], np.bool_),
        counterfactual=np.array(counterfactual, np.float32),
        choices=np.array([len(one.choices) for one in decided], np.int64),
        offsets=np.array([choice.offset for choice in choices], np.int64),
        logprobs=np.array([choice.logprob for choice in choices], np.float32),
        widths=np.array([len(choice.allowed) for choice in choices], np.int64),
        allowed=np.array([token for choice in choices for token in choice.allowed], np.int32),
    )


def stack(parts: Sequence[Decisions]) -> Decisions:
    """Concatenate the decisions of several episodes, which are numbered in this order."""
    columns = [part.of_episode(number).columns() for number, part in enumerate(parts)]
    return Decisions(**{name: np.concatenate([c[name] for c in columns]) for name in columns[0]})
