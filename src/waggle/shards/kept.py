"""Kept states: pickles, which are read only where the key of this user has sealed them.

Reading a pickle can run code, so a folder that somebody hands over must not be unpickled. Every
part of a kept state is sealed with a key that lies with the user who plays (`own_key`), and the
seal is checked before the part is read. The key goes to the shards with the division; other
machines need no file of it. A state of another version of Waggle is refused as well.
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
"""Of the files; the version of Waggle stands beside it, since pickles follow its classes."""
# Import layers let the package import its folders, not the other way round.
HEADER = f"waggle state {FORMAT} {vars(sys.modules['waggle'])['__version__']}\n".encode()
KEY_BYTES = 32
_SEAL_BYTES = 32
_SIZE_BYTES = 8


def own_key() -> bytes:
    """Return the key of this user, made at its first use.

    Raises:
        ConfigError: where no file can be kept for the user, or it is no key.
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
        while not key and tries:  # another process has made the file and writes it now
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
    """Write the parts of a state, sealed; the file is there as a whole or not at all."""
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
        ConfigError: for a state of another version, of somebody else, or a damaged one.
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
    """Seal a part in its place: of this file, with this number."""
    digest = blake2b(f"{path.name}\n{number}\n".encode(), key=key, digest_size=_SEAL_BYTES)
    digest.update(part)
    return digest.digest()
