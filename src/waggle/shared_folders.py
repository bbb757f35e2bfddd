"""Folders that processes share: a lock for a single writer, and removal of unfinished files.

A lock is released when its process ends. Temporary file names contain the process ID of the
writer. A process that is killed leaves its file behind; the next process that writes to the same
folder removes it.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import IO

from waggle.core.errors import ConfigError

_LOCK = ".lock"
_TRIES = 10
_UNFINISHED = re.compile(r".*(?:\.partial-([0-9]{1,9})|\.([0-9]{1,9})\.partial)")


def locked(folder: Path, writer: str) -> IO[bytes]:
    """Create and lock a folder; return the lock file, which releases the lock when it is closed.

    Raises:
        ConfigError: if another process has the lock; `writer` describes it in the message.
    """
    path = folder / _LOCK
    for _ in range(_TRIES):
        folder.mkdir(parents=True, exist_ok=True)
        lock = _locked(path, f"{writer} is writing to {folder}")
        # Who had the lock before may have removed the folder since the file was opened.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock.fileno()), path.stat()):
                return lock
        lock.close()
    raise ConfigError(f"{folder} is removed again and again; choose another --out")


def _locked(path: Path, taken: str) -> IO[bytes]:
    lock = path.open("ab")
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return lock
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise ConfigError(f"{taken}; wait for it, or choose another --out") from None
    except OSError:  # a file system without such locks
        pass
    return lock


def sweep(folder: Path) -> int:
    """Remove the unfinished files of dead processes from a folder; return their number."""
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
    except OSError:  # a process of another user
        return True
    return True
