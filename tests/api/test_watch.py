"""Rounds on a terminal: a frame that fits the window, in colours of claims, on every substrate."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

import waggle
from waggle.api import watch
from waggle.api.watch import HELD, PALETTE, REOPENED, Frames
from waggle.core.protocols import World
from waggle.core.record import RoundRecord


def terminal(width: int, height: int) -> Console:
    file = io.StringIO()
    return Console(file=file, force_terminal=True, width=width, height=height, _environ={})


def drawn(console: Console, task: str, **given: Any) -> list[Text]:
    frames, found = Frames(console), list[Text]()
    waggle.run(task, watch=lambda e, w: found.append(frames.frame(e, w)), **given)
    return found


@pytest.mark.parametrize(
    ("task", "given"),
    [
        ("beacon", {"n": 300}),
        ("silo/III-26", {"n": 8, "law": "expert"}),
        ("agentsnet/consensus", {"n": 8}),
        ("pursuit", {"n": 6, "law": "expert"}),
    ],
)
def test_a_frame_fits_the_window(task: str, given: dict[str, Any]) -> None:
    sizes = ((80, 24), (30, 9), (12, 6))
    drawers = [Frames(terminal(*size)) for size in sizes]

    def watch(entry: RoundRecord, world: World) -> None:
        for (width, height), drawer in zip(sizes, drawers, strict=True):
            lines = drawer.frame(entry, world).plain.split("\n")
            assert len(lines) < height and max(map(len, lines)) <= width
            assert lines[0].startswith("round ")

    waggle.run(task, rounds=3, watch=watch, **given)


def test_agents_have_the_colour_of_their_claim() -> None:
    frames = drawn(terminal(80, 24), "beacon", n=16, seed=3, law="expert", shock=True)
    assert any("late counterevidence" in frame.plain for frame in frames)
    assert any(REOPENED in frame.plain for frame in frames)
    last = frames[-1]
    colours = [str(s.style) for s in last.spans if last.plain[s.start : s.end] == HELD]
    assert len(colours) == 17 and len(set(colours)) == 1, "all hold one claim; one is the legend"
    assert set(colours) < set(PALETTE)


def test_rounds_are_drawn_in_place_at_a_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    console = terminal(60, 12)
    with Frames(console, fps=2) as frames:
        waggle.run("beacon", n=4, rounds=4, watch=frames)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.count("\x1b[1A") > 4, "the cursor goes back up"
    assert len(waits) == 4 and waits[0] == 0 and all(0.2 < wait <= 0.5 for wait in waits[1:])


def test_steps_wait_for_a_key_until_it_is_q(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = iter("nnq")
    monkeypatch.setattr(watch, "_key", lambda: next(keys))
    with Frames(terminal(60, 12), fps=1000, step=True) as frames:
        waggle.run("beacon", n=4, rounds=8, watch=frames)
    assert next(keys, None) is None
