"""Unfinished files of processes that are gone, swept away.

Whatever is written under a temporary name carries the number of its process in that name. A process
that is killed leaves its file behind; the next one that writes to the same folder removes it.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

_UNFINISHED = re.compile(r".*(?:\.partial-([0-9]{1,9})|\.([0-9]{1,9})\.partial)")


def sweep(folder: Path) -> int:
    """Remove what dead processes left unfinished in a folder; return how much it was."""
    swept = 0
    for path in [*folder.glob("*.partial-*"), *folder.glob(".*.partial")]:
        found = _UNFINISHED.fullmatch(path.name)
        if found is not None and not _alive(int(found[1] or found[2])):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
            swept += 1
    return swept


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        return True
    return True
