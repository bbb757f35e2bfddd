"""The official text of a view and the official parsing of a model's answer (spec 8 and 10).

Pure functions on text; used to compare with official logs and by native-message baselines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from waggle.substrates.swarmbench.agent.compass import ACTION_NAMES
from waggle.substrates.swarmbench.sim.config import Cell

MAX_MESSAGE = 120


class Answer(NamedTuple):
    """What the official wrapper reads from a model's text."""

    move: str | None
    speak: str | None


def parse_answer(text: str, switch: bool = False) -> Answer:
    """Read the move word and the message of an answer; `switch` adds the SWITCH action.

    A later marker that yields a word overrides an earlier one; within a line the word that comes
    first in the action list wins, wherever it stands.
    """
    words = (*ACTION_NAMES, "SWITCH") if switch else ACTION_NAMES
    move: str | None = None
    for marker in ("ACTION:", "Action:", "action:"):
        line = _line_after(text, marker)
        if line is not None:
            move = next((word for word in words if word in line), move)
    speak: str | None = None
    for marker in ("MSG:", "Msg:", "msg:"):
        line = _line_after(text, marker)
        if line is not None:
            speak = line.strip()
    if speak and len(speak) > MAX_MESSAGE:
        speak = speak[:MAX_MESSAGE] + "..."
    return Answer(move, speak or None)


def _line_after(text: str, marker: str) -> str | None:
    _, found, rest = text.partition(marker)
    return rest.split("\n", 1)[0] if found else None


def render_view(view: Sequence[Sequence[str]], pos: Cell) -> str:
    """Return the official text of a token view: global row and column numbers, centre as Y."""
    k = len(view)
    top, left = pos[0] - k // 2, pos[1] - k // 2
    columns = " ".join(f"{left + b:>3}" for b in range(k))
    lines = [f"   {columns}"]
    for a, tokens in enumerate(view):
        shown = ["Y" if (a, b) == (k // 2, k // 2) else t for b, t in enumerate(tokens)]
        lines.append(f"{top + a:>3}  " + "".join(f"{token:<4}" for token in shown))
    return "".join(f"{line}\n" for line in lines)


def render_map(grid: Sequence[str]) -> str:
    """Return the symbol grid as text for a person to watch, one space between cells."""
    return "\n".join(" ".join(row) for row in grid)
