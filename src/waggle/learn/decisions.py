"""Sampled decisions as arrays: their tokens, the choices in them, and where they were made.

A decision is a prompt, an answer and its end of turn. Some tokens of the answer are choices, with
the tokens that were allowed there and the log-probability that the taken one was sampled with; all
others were forced by the grammar. Invariant: row i of every array of decisions is decision i.
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
    """Its place in the answer."""
    allowed: Sequence[int]
    """Tokens it could have chosen; empty where it was free."""
    logprob: float


class SampledDecision(NamedTuple):
    """One sampled decision."""

    prompt: Sequence[int]
    answer: Sequence[int]
    """With its end of turn, if it has one."""
    choices: Sequence[Choice]
    node: int
    round: int
    legal: bool
    """Whether it was executable as decoded."""


@dataclass(frozen=True, eq=False)
class Decisions:
    """Some decisions, end to end."""

    ids: NDArray[np.int32]
    lengths: Index
    """Tokens of each decision, prompt and answer together."""
    prompts: Index
    episode: Index
    """Which episode of its batch a decision belongs to."""
    node: Index
    round: Index
    legal: NDArray[np.bool_]
    counterfactual: NDArray[np.float32]
    """What the outcome lost by another decision in its place; not a number where none was tried."""
    choices: Index
    """Choices of each decision."""
    offsets: Index
    """Place of each choice in its answer."""
    logprobs: NDArray[np.float32]
    widths: Index
    """Allowed tokens of each choice; 0 where all were."""
    allowed: NDArray[np.int32]
    """Allowed tokens of all choices, one after another."""

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def _starts(self) -> tuple[Index, Index, Index]:
        """Where the tokens, the choices and the allowed tokens of each decision or choice begin."""
        return tuple(  # type: ignore[return-value]
            np.cumsum(sizes) - sizes for sizes in (self.lengths, self.choices, self.widths)
        )

    def take(self, chosen: Index) -> Decisions:
        """Return some decisions, in the order given."""
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
        """Return the decisions with another number of their episode."""
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
    """Put the decisions of several episodes one after another, numbered in this order."""
    columns = [part.of_episode(number).columns() for number, part in enumerate(parts)]
    return Decisions(**{name: np.concatenate([c[name] for c in columns]) for name in columns[0]})
