"""Plans of a few small cells, and the laws that play them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import msgspec

from waggle.core.protocols import Case, Decode, Request
from waggle.evaluate.plan import Cell
from waggle.evaluate.rows import FILE, Row, read_rows
from waggle.laws.heuristic import Heuristic
from waggle.plugins import law

WEIGHTS = Path("weights")
"""What `test-trained` is made of, in the current folder."""


@law("test-batched")
class Batched:
    """The heuristic, declared as a law that wants large batches."""

    name = "test-batched"
    batched = True
    sizes: ClassVar[list[int]] = []

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        self.sizes.append(len(requests))
        return Heuristic().decide(requests)


@law("test-trained")
class Trained:
    """The heuristic, as a law whose weights lie in a file."""

    name = "test-trained"

    def __init__(self, batched: bool = False) -> None:
        self.batched = batched
        self.digest = WEIGHTS.read_text() if WEIGHTS.exists() else ""

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        return Heuristic().decide(requests)


def plan(name: str = "heuristic", seeds: int = 4) -> list[Cell]:
    """Return cells of one law that differ in their seed."""
    return [
        Cell("m", name, {}, Case("beacon", "beacon", 6, s, 4, True), "shuffled", "sync", {}, {})
        for s in range(10_000, 10_000 + seeds)
    ]


def trained(seeds: int = 4, batched: bool = False, method: str = "m") -> list[Cell]:
    """Return cells of the law whose weights lie in a file."""
    return [
        msgspec.structs.replace(cell, method=method, law_options={"batched": batched})
        for cell in plan("test-trained", seeds)
    ]


def numbers(rows: list[Row]) -> list[tuple[object, ...]]:
    """Return what was measured, in the order of the seeds."""
    return sorted((r.seed, tuple(r.metrics.items()), tuple(r.scores.items())) for r in rows)


def digests(folder: Path) -> list[tuple[int, str]]:
    """Return number and weights of the rows of a run directory."""
    return sorted((row.seed - 10_000, row.digest) for row in read_rows(folder))


def write_rows(folder: Path, rows: Sequence[Row]) -> None:
    """Replace the rows of a run directory."""
    folder.mkdir(exist_ok=True)
    (folder / FILE).write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))


def rename_weights(folder: Path, *named: str) -> None:
    """Name other weights in the rows of a folder; none where empty."""
    rows = zip(read_rows(folder), named, strict=True)
    write_rows(
        folder, [msgspec.structs.replace(row, weights=name or msgspec.UNSET) for row, name in rows]
    )


def mixed() -> list[Cell]:
    """A plan as skewed as the primary matrix: a few long episodes, many short ones."""
    cases = [
        Case(substrate, task, n, seed)
        for substrate, task in (("swarmbench", "pursuit"), ("silo", "I-05"), ("silo", "III-26"))
        for n in (16, 64)
        for seed in range(10_000, 10_005)
    ]
    return [Cell("m", "heuristic", {}, case, "shuffled", "sync", {}, {}) for case in cases]
