"""Is this checkout's runtime faster than another one's, and does it write the same records?

    git worktree add ../before v0.1.0
    python -m benchmarks.versions ../before

Two processes play the same episodes, one with the `waggle` of each checkout. They take turns and
measure processor time, so that a busy machine slows both alike. The best of a few repeats counts.
The law's own time is subtracted, except for turning views into tokens in the rows with prompts. A
row also shows whether both wrote the same record, byte for byte.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from benchmarks.runtime import SEED, TimedLaw, now
from waggle import plugins
from waggle.cli import console
from waggle.core.protocols import Case, Decode, Law, Request
from waggle.runtime import sync
from waggle.runtime.records import RecordFile

HERE = Path(__file__).resolve().parents[1]


class Cell(NamedTuple):
    """One kind of episode."""

    task: str
    n: int
    rounds: int | None = None
    order: Any = "shuffled"
    decodes: str = "in shape"
    """The law returns objects (`in shape`), `text`, or objects after making `prompts`."""


CELLS = (
    Cell("beacon/beacon", 64, 24),
    Cell("beacon/beacon", 64, 24, decodes="text"),
    Cell("beacon/beacon", 64, 24, "canonical"),
    Cell("beacon/beacon", 10_000, 6),
    Cell("beacon/beacon", 10_000, 6, "canonical"),
    Cell("silo/III-26", 16),
    Cell("silo/III-26", 16, order="canonical"),
    Cell("swarmbench/pursuit", 16, 20),
    Cell("swarmbench/foraging", 16, 20),
    Cell("agentsnet/coloring", 16),
    Cell("silo/III-26", 16, decodes="prompts"),
    Cell("swarmbench/foraging", 16, 20, decodes="prompts"),
)


class Played(NamedTuple):
    """The cost of one episode, and its record."""

    microseconds: float
    """Processor time per local update."""
    digest: str
    """SHA-256 of the record file."""


class PromptedLaw:
    """A law that first makes the prompt tokens of every request, as a learned law does."""

    def __init__(self, inner: Law) -> None:
        from waggle.laws.dialogue import Dialogue
        from waggle.models.nano import nano_tokenizer

        self.name = inner.name
        self._inner = inner
        self._dialogue = Dialogue(nano_tokenizer())

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        """Make the prompts and let the inner law decide."""
        self._dialogue.tokens(requests)
        return self._inner.decide(requests)


def play(cell: Cell, laws: dict[str, Law]) -> Played:
    """Play one episode; the time of the inner law is not counted."""
    substrate, task = cell.task.split("/")
    case = Case(substrate, task, cell.n, SEED, cell.rounds)
    timed = TimedLaw(plugins.get_law("heuristic"), text=cell.decodes == "text")
    law: Law = timed
    if cell.decodes == "prompts":
        law = laws.setdefault("prompts", PromptedLaw(timed))
        timed = law._inner  # type: ignore[attr-defined]
    world = plugins.get_substrate(substrate).open(case)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "record.jsonl.gz"
        start, before = now(), timed.spent
        with RecordFile(path) as sink:
            footer = sync.play(world, law, case, order=cell.order, sinks=[sink])
        spent = now() - start - (timed.spent - before)
        digest = sha256(path.read_bytes()).hexdigest()
    return Played(1e6 * spent.processor / footer.counters["updates"], digest)


def serve() -> None:
    """Play the cells read from standard input, one per line."""
    laws: dict[str, Law] = {}
    for line in sys.stdin:
        sys.stdout.write(json.dumps(play(Cell(*json.loads(line)), laws)) + "\n")
        sys.stdout.flush()


class Player:
    """A process that plays with the `waggle` of one checkout."""

    def __init__(self, checkout: Path) -> None:
        path = os.pathsep.join((str(checkout / "src"), str(HERE)))
        self._process = subprocess.Popen(
            (sys.executable, "-m", "benchmarks.versions", "--serve"), text=True, cwd=HERE,
            env={**os.environ, "PYTHONPATH": path}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def play(self, cell: Cell) -> Played:
        """Play one episode in the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(cell) + "\n")
        self._process.stdin.flush()
        return Played(*json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def compare(before: Path, repeats: int, chosen: str = "") -> None:
    """Print one row per cell: both costs, their ratio, and whether the records are the same."""
    players = [Player(before), Player(HERE)]
    table = []
    for cell in (cell for cell in CELLS if chosen in f"{cell.task} {cell.n} {cell.decodes}"):
        # A large swarm is played twice; a small one has an extra warm-up turn that is not counted.
        turns = repeats + 1 if cell.n < 1_000 else 2
        played = [[player.play(cell) for player in players] for _ in range(turns)]
        played = played[1:] if cell.n < 1_000 else played
        old, new = (min(turn[k].microseconds for turn in played) for k in (0, 1))
        same = len({each.digest for turn in played for each in turn}) == 1
        table.append(
            (cell.task, cell.order, cell.decodes, f"{cell.n:,}", f"{old:.1f}", f"{new:.1f}",
             f"{old / new:.2f}", "same" if same else "DIFFERS")
        )  # fmt: skip
    for player in players:
        player.close()
    columns = ("task", "order", "decodes", "N", "before µs", "now µs", "ratio", "record")
    console.table("Cost of everything but the law", columns, table, right=3)


def main() -> None:
    """Compare two checkouts, or serve one of them, as set by the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, nargs="?", help="the other checkout")
    parser.add_argument("--repeats", type=int, default=15, help="turns of each small cell")
    parser.add_argument("--only", default="", help="cells whose task, N and decodes hold this")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve()
    elif asked.before is None or not (asked.before / "src" / "waggle").is_dir():
        parser.error("name a folder that holds another checkout")
    else:
        compare(asked.before.resolve(), max(1, asked.repeats), asked.only)


if __name__ == "__main__":
    main()
