"""`waggle archive RUN TO`: the rows of a run, small enough to lie in a repository."""

from __future__ import annotations

import shutil
from pathlib import Path

from waggle.cli import console
from waggle.cli.flags import Flag
from waggle.cli.measure.evaluate import RECIPE, recipe_of
from waggle.evaluate import archive as packing
from waggle.evaluate import plan


def archive(run: Path, to: Path, /, *, json: Flag = False) -> int:
    """Pack the rows of a run, so that its tables can be made anywhere without playing.

    `waggle report TO` makes the tables, `waggle eval RECIPE --merge TO` takes the rows into a run.
    Called again, only methods that have rows in the run are replaced. Example:

    `waggle archive runs/primary results/primary`

    Args:
        run: A run directory of `waggle eval`.
        to: Folder of the archive.
        json: Print one JSON object instead of text.
    """
    done = packing.archive(plan.cells(recipe_of(run)), run, to)
    shutil.copyfile(run / RECIPE, to / RECIPE)
    size = sum(path.stat().st_size for path in to.rglob("*") if path.is_file())
    if json:
        console.dump({**done._asdict(), "folder": str(to), "bytes": size})
        return 0
    console.table(None, ("method", "rows"), list(done.rows.items()), right=1)
    rest = f", {done.copied} files copied" if done.copied else ""
    console.say(f"{done.left} rows left out{rest}; {to} has {size:,} bytes")
    return 0
