"""Folders that processes share: one writes at a time, and what the dead left unfinished is swept.

A lock ends with its process. Whatever is written under a temporary name carries the number of its
process in that name. A process that is killed leaves its file behind; the next one that writes to
the same folder removes it.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import IO

from waggle.core.errors import ConfigError

_LOCK = ".lock"
_UNFINISHED = re.compile(r".*(?:\.partial-([0-9]{1,9})|\.([0-9]{1,9})\.partial)")


def locked(folder: Path, writer: str) -> IO[bytes]:
    """Return a file that holds the lock of a folder, which is made; closing it lets others write.

    Raises:
        ConfigError: if another process has it; `writer` says what that would be.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = (folder / _LOCK).open("ab")
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return lock
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise ConfigError(
            f"{writer} is writing to {folder}; wait for it, or choose another --out"
        ) from None
    except OSError:  # a file system without such locks
        pass
    return lock


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
