"""`waggle gif`: an episode as an animated image."""

from __future__ import annotations

from pathlib import Path

from waggle.cli import console
from waggle.cli.options import AsJson, Flag


def gif(
    record: Path,
    /,
    *,
    out: Path | None = None,
    width: int = 720,
    dark: Flag = False,
    json: AsJson = False,
) -> int:
    """Render an episode as an animated image.

    Draws the page of `waggle view` in headless Chromium or Chrome on this machine: title, swarm,
    legend and curves, round by round. Long episodes skip rounds, and a file has at most 160 frames
    and 8 MB. Needs the extras `serve` and `report`. Example:

    `waggle gif runs/RECORD.jsonl.gz --out episode.gif`

    Args:
        record: Record file written by `waggle run`.
        out: Output file, ending in gif, png or webp. Default: a file beside the record.
        width: Image width in pixels, 320 to 1600.
        dark: Use a dark background.
    """
    from waggle.runtime.records import SUFFIX
    from waggle.view.gif import animate

    target = out or record.with_name(record.name.removesuffix(SUFFIX) + ".gif")
    frames = animate(record, target, width=width, dark=dark)
    size = target.stat().st_size
    if json:
        console.dump({"file": str(target), "frames": frames, "bytes": size})
    else:
        console.say(f"{target}: {frames} frames, {size:,} bytes")
    return 0
