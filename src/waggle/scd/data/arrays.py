"""Encoded records as arrays: what the trainer reads instead of views.

One kind of record per set: decisions (a prompt, the record that answers it, rho of it) or
transitions (a prompt, rho of the admitted decision, the next field). Invariant: row i is the i-th
record that was asked for.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from waggle.corpus.store import CorpusError
from waggle.scd.data.records import Move, Pair
from waggle.scd.forward.forward import Encoded

Index = NDArray[np.int64]


class Rows(NamedTuple):
    """Some records of one kind, end to end."""

    ids: NDArray[np.int32]
    lengths: NDArray[np.int64]
    """Prompt and record together."""
    prompts: NDArray[np.int64]
    labels: NDArray[np.int64]
    """rho, (records, factors)."""
    targets: NDArray[np.float32]
    """(transitions, targets, classes); nothing for decisions."""
    eventful: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def starts(self) -> Index:
        """Where each record starts among the ids."""
        found: Index = np.cumsum(self.lengths) - self.lengths
        return found

    @property
    def fed(self) -> NDArray[np.int64]:
        """Tokens that the model reads of each: all but the last token of the record."""
        return np.maximum(self.lengths - 1, self.prompts)

    def take(self, chosen: Index) -> Rows:
        """Return some records, in the order given."""
        starts = self.starts[chosen]
        lengths = self.lengths[chosen]
        moves = chosen if len(self.eventful) else chosen[:0]
        return Rows(
            self.ids[within(starts, lengths)], lengths, self.prompts[chosen], self.labels[chosen],
            self.targets[moves], self.eventful[moves],
        )  # fmt: skip

    def encoded(self) -> list[Encoded]:
        """Return the sequences as lists."""
        ids = self.ids.tolist()
        ends = np.cumsum(self.lengths).tolist()
        each = zip(ends, self.lengths.tolist(), self.prompts.tolist(), strict=True)
        return [Encoded(ids[e - n : e - n + p], ids[e - n + p : e]) for e, n, p in each]

    def moves(self) -> list[Move]:
        """Return transitions as records."""
        every = zip(self.encoded(), self.labels.tolist(), self.targets, self.eventful, strict=True)
        return [Move(one, tuple(label), to, bool(flag)) for one, label, to, flag in every]


def within(starts: Index, lengths: Index) -> Index:
    """Return the places of several stretches, one after another."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    places: Index = np.arange(total) + np.repeat(starts - (ends - lengths), lengths)
    return places


def groups(cost: Index, budget: int) -> list[Index]:
    """Cut records, in their order, into groups of at most so many tokens; one may exceed it."""
    if cost.sum() <= budget:
        return [np.arange(len(cost))]
    found: list[list[int]] = []
    filled = budget
    for number, each in enumerate(cost.tolist()):
        if filled + each > budget or not found:
            found.append([])
            filled = 0
        found[-1].append(number)
        filled += each
    return [np.array(group, np.int64) for group in found]


def pairs_of(sources: Rows, images: Rows | None) -> list[Pair]:
    """Return decisions as records, each with its image where there are images."""
    labels = [tuple(label) for label in sources.labels.tolist()]
    seen = images.encoded() if images is not None else [None] * len(sources)
    return [Pair(*each) for each in zip(sources.encoded(), seen, labels, strict=True)]


def of_sequences(coded: Sequence[Encoded], labels: Sequence[Sequence[int]]) -> Rows:
    """Lay decision records out as arrays."""
    return Rows(
        np.array([token for one in coded for part in one for token in part], np.int32),
        np.array([len(one.prompt) + len(one.answer) for one in coded], np.int64),
        np.array([len(one.prompt) for one in coded], np.int64),
        np.array(labels, np.int64),
        np.zeros((0, 0, 0), np.float32),
        np.zeros(0, np.bool_),
    )


def of_moves(moves: Sequence[Move]) -> Rows:
    """Lay transitions out as arrays."""
    plain = of_sequences([move.source for move in moves], [move.labels for move in moves])
    return Rows(
        plain.ids, plain.lengths, plain.prompts, plain.labels,
        np.array([move.target for move in moves], np.float32),
        np.array([move.eventful for move in moves], np.bool_),
    )  # fmt: skip


def stack(parts: Sequence[Rows]) -> Rows:
    """Put several sets one after another."""
    return Rows(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def save(path: Path, rows: Rows) -> None:
    """Write a set under its name once it is whole.

    Raises:
        CorpusError: in one line, when the disk is full or not writable.
    """
    from safetensors.numpy import save as packed

    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(packed(rows._asdict()))
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise CorpusError(
            f"cannot write {path} ({error.strerror or error}); free some space, then resume with "
            "the same command"
        ) from None


def load(path: Path) -> Rows:
    """Read a set.

    Raises:
        CorpusError: if it is damaged.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        found: dict[str, Any] = load_file(str(path))
        rows = Rows(**found)
        if int(rows.lengths.sum()) != len(rows.ids) or len(rows.labels) != len(rows):
            raise ValueError("lengths do not add up")
        return rows
    except (OSError, SafetensorError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0][:120]
        raise CorpusError(f"{path} is damaged ({reason}); delete it and run again") from None
