"""Encoded records as arrays: the token ids of many records end to end, and their labels.

A set holds records of one kind. A decision is a prompt, the answer to it and rho of that answer; a
transition is a prompt, rho of the admitted decision and the next field. Records of a token corpus
have no labels. Invariant: row i is the i-th requested record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from waggle.corpus.store import CorpusError
from waggle.scd.files import one_line, write_file

Index = NDArray[np.int64]


class Encoded(NamedTuple):
    """A prompt and the answer to it, in tokens; the answer may be empty."""

    prompt: Sequence[int]
    answer: Sequence[int] = ()


@dataclass(frozen=True, eq=False)
class Rows:
    """The encoded records of one set, all of one kind, end to end."""

    ids: NDArray[np.integer[Any]]
    lengths: Index
    """Number of tokens of each record, prompt and answer together."""
    prompts: Index
    """Number of tokens of each prompt."""
    labels: NDArray[np.int64]
    """rho, (records, factors)."""
    targets: NDArray[np.float32]
    """m(next view), (transitions, targets, classes); empty for decisions."""
    eventful: NDArray[np.bool_]
    """Which transitions are eventful; empty for decisions."""

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def starts(self) -> Index:
        """Start index of each record in `ids`."""
        found: Index = np.cumsum(self.lengths) - self.lengths
        return found

    @property
    def inputs(self) -> Index:
        """Number of tokens of each record that the model reads: all but the last of the answer."""
        return np.maximum(self.lengths - 1, self.prompts)

    def take(self, chosen: Index) -> Rows:
        """Return the chosen records, in the order given."""
        lengths = self.lengths[chosen]
        transitions = chosen if len(self.eventful) else chosen[:0]
        return Rows(
            self.ids[spans(self.starts[chosen], lengths)], lengths, self.prompts[chosen],
            self.labels[chosen], self.targets[transitions], self.eventful[transitions],
        )  # fmt: skip

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def spans(starts: Index, lengths: Index) -> Index:
    """Return the indices of several spans, concatenated."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    places: Index = np.arange(total) + np.repeat(starts - (ends - lengths), lengths)
    return places


def from_encoded(
    encoded: Sequence[Encoded], labels: Sequence[Sequence[int]],
    targets: Sequence[NDArray[np.float32]] = (), eventful: Sequence[bool] = (),
) -> Rows:  # fmt: skip
    """Return decisions as arrays, or transitions if targets are given."""
    return Rows(
        np.array([token for one in encoded for part in one for token in part], np.int32),
        np.array([len(one.prompt) + len(one.answer) for one in encoded], np.int64),
        np.array([len(one.prompt) for one in encoded], np.int64),
        np.array(labels, np.int64),
        np.array(targets, np.float32) if targets else np.zeros((0, 0, 0), np.float32),
        np.array(eventful, np.bool_),
    )


def unlabelled(ids: NDArray[Any], lengths: NDArray[Any], prompts: NDArray[Any]) -> Rows:
    """Return records without labels, as in a token corpus."""
    return Rows(
        ids, lengths.astype(np.int64), prompts.astype(np.int64),
        np.zeros((len(lengths), 0), np.int64), np.zeros((0, 0, 0), np.float32),
        np.zeros(0, np.bool_),
    )  # fmt: skip


def stack(parts: Sequence[Rows]) -> Rows:
    """Concatenate several sets."""
    columns = [part.columns() for part in parts]
    return Rows(**{name: np.concatenate([c[name] for c in columns]) for name in columns[0]})


def save(path: Path, rows: Rows) -> None:
    """Write a set to a file atomically."""
    from safetensors.numpy import save as packed

    write_file(path, packed(rows.columns()))


def load(path: Path) -> Rows:
    """Read a set.

    Raises:
        CorpusError: if it is damaged.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        rows = Rows(**load_file(str(path)))
        if int(rows.lengths.sum()) != len(rows.ids) or len(rows.labels) != len(rows):
            raise ValueError("lengths do not add up")
        return rows
    except (OSError, SafetensorError, TypeError, ValueError) as error:
        raise damaged(path, error) from None


def damaged(path: Path, error: Exception) -> CorpusError:
    """Return the error for a file that cannot be read."""
    return CorpusError(f"{path} is damaged ({one_line(error)}); delete it and run again")
