"""A swarm in the terminal, drawn in place: every agent in the colour of the claim it holds.

A world with a map is drawn on it, any other as one sign per agent, in rows that fit the window; in
a large swarm a sign stands for several agents and has the colour of their most common claim.
Without a terminal, `screen.Rounds` prints a line for every round instead.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from waggle.api.grid import shown
from waggle.api.screen import err, score_of
from waggle.core.protocols import World
from waggle.core.record import RoundRecord

FPS = 10.0
"""Default for the maximum number of rounds per second."""
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6fd1")
"""Colours that colour-blind readers can distinguish, as in the viewer."""
OTHER = "#8b929e"
HELD, NONE, REOPENED = "●", "·", "◌"
_AROUND = 5
"""Lines outside the picture: two above, the legend, one below, and the cursor line."""


class Frames:
    """A watcher that draws every round in place of the previous one."""

    def __init__(
        self, console: Console | None = None, *, fps: float = FPS, step: bool = False
    ) -> None:
        """Draw on a terminal.

        Args:
            console: the terminal; standard error if None.
            fps: maximum number of rounds per second.
            step: wait for a key after every round; `q` plays on.
        """
        self._console = console or err()
        self._wait, self._step, self._next = 1 / fps, step, 0.0
        self._held: dict[int, str | None] = {}
        self._colours: dict[str, str] = {}
        self._note = ""
        self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="crop")

    def __enter__(self) -> Frames:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def __call__(self, entry: RoundRecord, world: World) -> None:
        """Draw one round, no sooner than the pace allows."""
        time.sleep(max(0.0, self._next - time.monotonic()))
        self._live.update(self.frame(entry, world), refresh=True)
        self._next = time.monotonic() + self._wait
        if self._step:
            self._step = _key() not in ("q", "Q", "")

    def frame(self, entry: RoundRecord, world: World) -> Text:
        """Return the picture of a round, fitted to the window."""
        self._held.update((u.node, u.claim) for u in entry.updates)
        if entry.shock is not None:
            note = shown(entry.shock.note) or "injected"
            self._note = f"late counterevidence in round {entry.round}: {note}"
        counts = Counter(claim for claim in self._held.values() if claim is not None)
        for claim, _ in counts.most_common():
            if len(self._colours) < len(PALETTE):
                self._colours.setdefault(claim, PALETTE[len(self._colours)])
        width, height = self._console.size
        reopened = {u.node for u in entry.updates if u.reopened is not None}
        lines = [
            Text(
                f"round {entry.round} of {world.rounds - 1}  {score_of(entry)}  "
                f"messages {entry.delivered}" + (f"  reopened {len(reopened)}" if reopened else ""),
                style="bold",
            ),
            Text(self._note, style="#d1242f"),
            *self._picture(world, reopened, width, max(1, height - _AROUND)),
            self._legend(counts, world.n),
            Text("any key: next round, q: play on" if self._step else "", style="dim"),
        ]
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return Text("\n").join(line for line in lines if line)

    def _legend(self, counts: Counter[str], n: int) -> Text:
        legend, named = Text(), 0
        for claim, colour in self._colours.items():
            if counts[claim]:
                legend.append(HELD, style=colour).append(f" {shown(claim):.24} {counts[claim]:,}  ")
                named += counts[claim]
        held = sum(counts.values())
        if held > named:
            legend.append(HELD, style=OTHER).append(f" others {held - named:,}  ")
        return legend.append(f"{NONE} none {n - held:,}", style="dim")

    def _colour(self, claim: str | None) -> str:
        return "dim" if claim is None else self._colours.get(claim, OTHER)

    def _picture(self, world: World, reopened: set[int], width: int, height: int) -> list[Text]:
        places = getattr(world, "places", None)
        if places is not None:
            return self._map(world, list(places()), width, height)
        n = world.n
        wide = 2 if 2 * n <= width * height else 1
        columns = max(1, width // wide)
        each = -(-n // (columns * height))  # agents per sign
        signs = [self._sign(range(i, min(n, i + each)), reopened) for i in range(0, n, each)]
        rows = [signs[i : i + columns] for i in range(0, len(signs), columns)]
        return [Text(" " * (wide - 1)).join(Text(*sign) for sign in row) for row in rows]

    def _sign(self, agents: range, reopened: set[int]) -> tuple[str, str]:
        """Return the sign of an agent, or of several, with its colour."""
        if len(agents) == 1 and agents[0] in reopened:
            return REOPENED, "#d1242f"
        ((claim, _),) = Counter(self._held.get(agent) for agent in agents).most_common(1)
        return (NONE if claim is None else HELD), self._colour(claim)

    def _map(
        self, world: World, places: list[tuple[int, int]], width: int, height: int
    ) -> list[Text]:
        """Return the map with every agent in its colour; what does not fit is cut."""
        here = {(int(i), int(j)): agent for agent, (i, j) in enumerate(places)}
        rows = [row.replace(" ", "") for row in world.render().splitlines()]
        gap = " " if max(map(len, rows), default=0) * 2 <= width + 1 else ""
        drawn = []
        for i, row in enumerate(rows[:height]):
            line = Text()
            for j, sign in enumerate(row):
                agent = here.get((i, j))
                claim = None if agent is None else self._held.get(agent)
                style = "dim" if agent is None else "bold"
                if claim is not None:
                    style = f"bold {self._colour(claim)}"
                line.append(sign, style=style).append(gap)
            drawn.append(line)
        return drawn


def _key() -> str:
    """Wait for a key and return it; read a whole line if single keys cannot be read."""
    try:
        import termios
        import tty
    except ImportError:
        return sys.stdin.readline()
    handle = sys.stdin.fileno()
    before = termios.tcgetattr(handle)
    try:
        tty.setcbreak(handle)
        return os.read(handle, 1).decode(errors="replace")
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)
