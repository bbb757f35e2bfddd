"""Checkpoints: the trained weights, heads, optimizer and progress of a run, whole or not at all.

A checkpoint grows in a folder with a temporary name and is renamed when it is complete; the newest
complete one counts. A run resumed from any of them follows the trajectory of an uninterrupted run,
because every draw is named by its update.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from waggle.core.errors import WaggleError

KEPT = 2
"""Complete checkpoints that stay on disk."""
FOLDER = "checkpoints"
"""Where a stage keeps them."""


class TrainError(WaggleError):
    """A training run that cannot go on as asked."""


class Progress(NamedTuple):
    """Where a run stands."""

    update: int
    """Updates done."""
    best_update: int
    best_loss: float
    """Smallest validation decision loss so far, and when."""
    seconds: float = 0.0
    """Time spent, for stages with a time budget."""


class Checkpoints:
    """The checkpoints of one run folder."""

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self.folder = folder
        self._identity = json.loads(json.dumps(identity, sort_keys=True, default=str))

    def newest(self) -> Path | None:
        """Return the newest complete checkpoint of these settings.

        Raises:
            TrainError: if the folder belongs to a run with other settings.
        """
        found = sorted(self.folder.glob("update-[0-9]*[0-9]"))
        if not found:
            return None
        try:
            state = json.loads((found[-1] / "state.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise TrainError(f"{found[-1]} is damaged; delete it and resume again") from None
        if state["identity"] != self._identity:
            raise TrainError(
                f"{self.folder.parent} holds a run with other settings; choose another --out or "
                "delete it"
            )
        return found[-1]

    def save(
        self, progress: Progress, weights: Mapping[str, Tensor], heads: Mapping[str, Tensor],
        optimizer: Mapping[str, Any],
    ) -> Path:  # fmt: skip
        """Write a checkpoint, then drop the oldest ones."""
        target = self.folder / f"update-{progress.update:06d}"
        with publishing(target) as partial:
            write_tensors(partial / "trainable.safetensors", weights)
            write_tensors(partial / "heads.safetensors", heads)
            torch.save(dict(optimizer), partial / "optimizer.pt")
            state = {"identity": self._identity, "progress": progress._asdict()}
            (partial / "state.json").write_text(json.dumps(state), encoding="utf-8")
        for old in sorted(self.folder.glob("update-[0-9]*[0-9]"))[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)
        return target


class Loaded(NamedTuple):
    """A checkpoint read back."""

    progress: Progress
    weights: dict[str, Tensor]
    heads: dict[str, Tensor]
    optimizer: dict[str, Any]


def load(path: Path) -> Loaded:
    """Read a checkpoint."""
    try:
        state = json.loads((path / "state.json").read_text(encoding="utf-8"))
        return Loaded(
            Progress(**state["progress"]),
            read_tensors(path / "trainable.safetensors"),
            read_tensors(path / "heads.safetensors"),
            torch.load(path / "optimizer.pt", map_location="cpu", weights_only=True),
        )
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        reason = str(error).splitlines()[0][:120]
        raise TrainError(f"{path} is damaged ({reason}); delete it and resume again") from None


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as safetensors."""
    from safetensors.torch import save_file

    plain = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    save_file(plain, str(path))


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read tensors back.

    Raises:
        TrainError: if the file is missing or damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        found: dict[str, Tensor] = load_file(str(path))
        return found
    except (OSError, SafetensorError) as error:
        reason = str(error).splitlines()[0][:120]
        raise TrainError(f"cannot read {path} ({reason}); train that stage again") from None


def discard(stage: Path, *names: str) -> None:
    """Remove folders of a finished stage that nothing reads any more, such as its checkpoints.

    Call it when the result is written: a stage without one resumes from what this removes.
    """
    for name in names:
        shutil.rmtree(stage / name, ignore_errors=True)


@contextmanager
def publishing(target: Path) -> Iterator[Path]:
    """Fill a folder under a temporary name; it gets its name only when everything is in it.

    Raises:
        TrainError: in one line, when the disk is full or not writable; nothing is left behind.
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
        raise TrainError(
            f"cannot write {target} ({error.strerror or error}); free some space, then resume with "
            "the same command"
        ) from None
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        # safetensors and torch report a full disk in errors of their own.
        if type(error).__name__ in ("SafetensorError", "RuntimeError"):
            reason = str(error).splitlines()[0][:120]
            raise TrainError(f"cannot write {target} ({reason}); free some space, resume") from None
        raise


def restore(trained: Mapping[str, torch.nn.Parameter], weights: Mapping[str, torch.Tensor],
            source: Path) -> None:  # fmt: skip
    """Put saved weights into a student.

    Raises:
        TrainError: if they are those of another student.
    """
    if trained.keys() != weights.keys():
        raise TrainError(f"{source} was made for another backbone or adapter; train it again")
    with torch.no_grad():
        for name, parameter in trained.items():
            if parameter.shape != weights[name].shape:
                raise TrainError(f"{source} was made for another adapter rank; train it again")
            parameter.copy_(weights[name])
