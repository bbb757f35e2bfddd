"""Kept states: pickles, which are read only if they are sealed with the key of this user.

Reading a pickle can run code, so a folder from another user must not be unpickled. Every part of a
kept state has a seal, a digest keyed with the user's key (`own_key`), which is checked before the
part is unpickled. The key is sent to the shards with the division, so other machines need no key
file. A state of another version of Waggle is refused as well.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path
from secrets import token_bytes

from waggle.core.errors import ConfigError

FORMAT = 1
"""Version of the file format; Waggle's version is added, since pickles depend on its classes."""
# Import layers let the package import its folders, not the other way round.
HEADER = f"waggle state {FORMAT} {vars(sys.modules['waggle'])['__version__']}\n".encode()
KEY_BYTES = 32
_SEAL_BYTES = 32
_SIZE_BYTES = 8


def own_key() -> bytes:
    """Return the key of this user, which is created on first use.

    Raises:
        ConfigError: if the key file cannot be written or read, or is not a key.
    """
    root = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    path = Path(root).expanduser() / "waggle" / "key"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(token_bytes(KEY_BYTES))
        except FileExistsError:
            pass
        key, tries = path.read_bytes(), 100
        while not key and tries:  # another process has created the file and is writing it
            time.sleep(0.01)
            key, tries = path.read_bytes(), tries - 1
    except (OSError, RuntimeError) as error:
        raise ConfigError(
            f"cannot keep the key of kept states in {path} ({error}); set XDG_STATE_HOME to a "
            "folder of yours"
        ) from None
    if len(key) != KEY_BYTES:
        raise ConfigError(f"{path} is no key; remove it, and kept states with it")
    return key


def write(path: Path, key: bytes, parts: Iterable[bytes]) -> None:
    """Write the parts of a state, sealed; the file is replaced atomically."""
    partial = path.with_name(f"{path.name}.partial-{os.getpid()}")
    with open(partial, "wb") as file:
        file.write(HEADER)
        number = 0
        for number, part in enumerate(parts, 1):
            file.write(_size(part) + _seal(path, key, number, part) + part)
        file.write(_size(b"") + _seal(path, key, number + 1, b""))
    os.replace(partial, path)


def read(path: Path, key: bytes) -> Iterator[bytes]:
    """Yield the parts of a state, each after its seal was checked.

    Raises:
        ConfigError: for a state of another version or another user, or a damaged one.
    """
    again = f"remove {path.parent} and play again"
    try:
        with open(path, "rb") as file:
            if file.read(len(HEADER)) != HEADER:
                raise ConfigError(f"{path} was kept by another version of Waggle; {again}")
            number, part, most = 0, b"-", os.fstat(file.fileno()).st_size
            while part:
                number += 1
                size = int.from_bytes(file.read(_SIZE_BYTES), "big")
                seal, part = file.read(_SEAL_BYTES), file.read(min(size, most))
                if not compare_digest(seal, _seal(path, key, number, part)):
                    raise ConfigError(
                        f"{path} is damaged, or was not kept by you: reading it could run code of "
                        f"others; {again}"
                    )
                if part:
                    yield part
    except OSError as error:
        raise ConfigError(f"cannot read {path} ({error.strerror}); {again}") from None


def _size(part: bytes) -> bytes:
    return len(part).to_bytes(_SIZE_BYTES, "big")


def _seal(path: Path, key: bytes, number: int, part: bytes) -> bytes:
    """Return the seal of a part, which also covers the file name and the part's number."""
    digest = blake2b(f"{path.name}\n{number}\n".encode(), key=key, digest_size=_SEAL_BYTES)
    digest.update(part)
    return digest.digest()
