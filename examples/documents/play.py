#!/usr/bin/env python
"""Play the example and change a letter while it runs.

    examples/documents/play.py

The folders are copied first, so that the originals stay unchanged.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from waggle import Case, World, play
from waggle.core.record import RoundRecord
from waggle.plugins import get_law, get_substrate, load_file
from waggle.workers.hire import hire

HERE = Path(__file__).parent
CHANGED = Path("larch", "order.txt"), "The wedding has grown. We order 40 jars of lime honey.\n"
"""The letter that changes, and its new text."""
CHANGE_AT = 24
"""The round after which it changes."""


class Show:
    """A callback that prints the held totals when they change, and edits the letter once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last = ""

    def __call__(self, entry: RoundRecord, world: World) -> None:
        """Print the totals held after one round; edit the letter after round `CHANGE_AT`."""
        held = Counter(u.claim for u in entry.updates if u.claim is not None)
        line = ", ".join(f"{count} hold {claim!r}" for claim, count in held.most_common())
        if line != self._last:
            print(f"round {entry.round + 1:2}: {line}")
            self._last = line
        if entry.round + 1 == CHANGE_AT:
            name, text = CHANGED
            (self._folder / name).write_text(text, encoding="utf-8")
            print(f"          {name.as_posix()} now says: {text.strip()}")


def main(law: str = "expert", worker: str = "native") -> float:
    """Play one episode and return the share of agents that hold the right total at its end."""
    load_file(HERE / "documents.py")
    with tempfile.TemporaryDirectory() as place:
        folder = shutil.copytree(HERE / "folders", Path(place, "folders"))
        case = Case("documents", "documents", 16, seed=10_000, options={"folder": str(folder)})
        world = get_substrate("documents").open(case)
        staff = hire(worker, schedule="reuse")
        footer = play(world, get_law(law), case, watch=Show(folder), staff=staff)
    print(f"{world.render()}; workers were asked {footer.counters['worker.calls']} times")
    return footer.scores["score"]


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) == 1.0 else 1)
