"""Draw one episode: who is committed to what, round by round.

    waggle demo
    python docs/tools/picture.py runs/demo/silo-III-26_n16_s22000_nano.jsonl.gz docs/picture.svg

One row per agent, one column per round, one colour per claim. Reads a record and nothing else.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from waggle import EpisodeRecord, read
from waggle.api.draw import commitments

WIDE, HIGH, GAP, LEFT, TOP = 26, 15, 2, 48, 62
EMPTY, OTHER, OLD, NEW, INK = "#e9ebee", "#c3d3e2", "#4878a8", "#e39a2d", "#2b2f36"


def colours(rows: list[list[str | None]], shock: int | None) -> dict[str | None, str]:
    """Give the last answer and the one before it a colour of their own."""
    ends = Counter(row[-1] for row in rows if row[-1] is not None)
    new = ends.most_common(1)[0][0] if ends else None
    before = Counter(c for row in rows for c in row[: shock or 0] if c not in (None, new))
    before.update(c for row in rows for c in row if c not in (None, new))
    old = before.most_common(1)[0][0] if before and shock is not None else None
    known = {c: OTHER for row in rows for c in row}
    return {**known, old: OLD, new: NEW, None: EMPTY}


def draw(episode: EpisodeRecord) -> str:
    """Return the picture as SVG."""
    rows = commitments(episode)
    shock = episode.shock.round if episode.shock else None
    paint = colours(rows, shock)
    right, down = WIDE + GAP, HIGH + GAP
    end, bottom = LEFT + len(episode.rounds) * right, TOP + len(rows) * down
    middle = (TOP + bottom) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {end + 194} {bottom + 40}" '
        f'role="img" font-family="Helvetica, Arial, sans-serif" font-size="15" fill="{INK}">',
        "<title>Commitments of a swarm over time</title>",
        '<rect width="100%" height="100%" rx="8" fill="#fff"/>',
    ]
    for colour in (EMPTY, OTHER, OLD, NEW):
        cells = "".join(
            f"M{LEFT + x * right} {TOP + y * down}h{WIDE}v{HIGH}h-{WIDE}z"
            for y, row in enumerate(rows)
            for x, claim in enumerate(row)
            if paint[claim] == colour
        )
        parts.append(f'<path fill="{colour}" d="{cells}"/>')
    if shock is not None:
        x = LEFT + shock * right - GAP / 2
        parts.append(
            f'<path d="M{x} {TOP - 12}V{bottom + 6}" stroke="#b3261e" stroke-width="3"/>'
            f'<text x="{x + 8}" y="{TOP - 10}" fill="#b3261e">counterevidence</text>'
        )
    parts += [
        f'<text x="{LEFT}" y="30" font-size="18" font-weight="bold">'
        f"{len(rows)} agents, one law, no leader</text>",
        f'<text transform="translate({LEFT - 18} {middle}) rotate(-90)" text-anchor="middle">'
        "one row per agent</text>",
        f'<text x="{(LEFT + end) / 2}" y="{bottom + 28}" text-anchor="middle">'
        "one column per round</text>",
    ]
    entries = [(EMPTY, "no commitment yet"), (OTHER, "a partial answer"), (OLD, "the old answer")]
    for index, (colour, text) in enumerate([*entries, (NEW, "the new answer")]):
        y = middle - 66 + 36 * index
        parts.append(
            f'<rect x="{end + 18}" y="{y}" width="{WIDE}" height="{HIGH}" fill="{colour}"/>'
            f'<text x="{end + 54}" y="{y + 13}">{text}</text>'
        )
    return "\n".join([*parts, "</svg>\n"])


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(draw(read(Path(sys.argv[1]))), encoding="utf-8")
