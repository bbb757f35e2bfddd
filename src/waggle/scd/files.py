"""Atomic writes of the files and folders of a run.

Everything is written under a temporary name and renamed when it is complete. A kill or a full disk
therefore never leaves a partial file under its final name.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from waggle.core.errors import WaggleError

LAW = "law"
"""Name of the folder that a stage exports its law to."""
ABOUT = "waggle.json"
"""File that describes an exported law: backbone, order, card and recipe."""


class TrainError(WaggleError):
    """Raised when a training run cannot continue as requested."""


def write_file(path: Path, data: bytes) -> None:
    """Write a file.

    Raises:
        TrainError: with a one-line message, when the disk is full or not writable.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(data)
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise _full(path, error.strerror or error) from None


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write an object as JSON."""
    write_file(path, json.dumps(value).encode())


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in a JSON file, or None if it is missing, damaged or not an object."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def about(law: Path) -> dict[str, Any]:
    """Return the description of an exported law; empty if it cannot be read."""
    return read_json(law / ABOUT) or {}


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder to fill; it replaces `target` when the block ends without an error.

    Raises:
        TrainError: with a one-line message, when the disk is full or not writable.
    """
    partial = target.with_name(f".{target.name}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        yield partial
        if target.exists():
            shutil.rmtree(target)
        os.replace(partial, target)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise _full(target, error.strerror or error) from None
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        # safetensors and torch raise other exception types when the disk is full.
        if type(error).__name__ in ("SafetensorError", "RuntimeError"):
            raise _full(target, one_line(error)) from None
        raise


def _full(path: Path, reason: object) -> TrainError:
    return TrainError(
        f"cannot write {path} ({reason}); free some space, then resume with the same command"
    )


def one_line(error: BaseException) -> str:
    """Return the first line of an error's message, cut to a readable length."""
    return (str(error).splitlines() or [""])[0][:120]


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as safetensors; call it inside `new_folder`."""
    from safetensors.torch import save_file

    plain = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    save_file(plain, str(path))


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read tensors from a safetensors file.

    Raises:
        TrainError: if the file is missing or damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        found: dict[str, Tensor] = load_file(str(path))
        return found
    except (OSError, SafetensorError) as error:
        raise TrainError(
            f"cannot read {path} ({one_line(error)}); train that stage again"
        ) from None
