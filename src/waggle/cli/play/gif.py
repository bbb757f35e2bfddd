"""`waggle gif`: an episode as a moving picture."""

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
    """Make a moving picture of an episode.

    The picture is what `waggle view` shows, drawn by the same page in a headless Chromium or Chrome
    of this machine: title, swarm, legend and curves, round by round. Long episodes skip rounds, and
    a file has at most 160 frames and 8 MB. Needs the extras `serve` and `report`. Example:

    `waggle gif runs/RECORD.jsonl.gz --out episode.gif`

    Args:
        record: A record file, as `waggle run` writes it.
        out: File to write; its ending is gif, png or webp. Beside the record if unset.
        width: Pixels of the width, 320 to 1600.
        dark: Light on dark.
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
