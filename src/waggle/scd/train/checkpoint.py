"""Checkpoints: trained weights, heads, optimizer and progress of a stage, written atomically.

A run resumes from the newest intact checkpoint, one whose files match the digests in its
`sums.json`; damaged ones are skipped with a warning. A run resumed from any checkpoint follows the
trajectory of an uninterrupted run, because every random draw is seeded by its update.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from waggle.scd.files import TrainError, new_folder, one_line, read_tensors, write_tensors

KEPT = 2
"""Number of complete checkpoints kept on disk."""
FOLDER = "checkpoints"
"""Folder in which a stage keeps its checkpoints."""
BEST = "best"
"""Folder in which a stage keeps the weights with the smallest validation loss."""
WEIGHTS = "trainable.safetensors"
HEADS = "heads.safetensors"
SUMS = "sums.json"
"""File with the digests of the other files in its folder, and of their list."""


class Progress(NamedTuple):
    """The progress of a run."""

    update: int
    """Number of updates done."""
    best_update: int
    best_loss: float
    """The smallest validation loss so far, and the update it was measured at."""
    seconds: float = 0.0
    """Time spent, for stages with a time budget."""


class Checkpoint(NamedTuple):
    """The contents of a checkpoint."""

    progress: Progress
    weights: dict[str, Tensor]
    heads: dict[str, Tensor]
    optimizer: dict[str, Any]


class Checkpoints:
    """The checkpoints of one stage."""

    def __init__(self, stage: Path, identity: Mapping[str, Any]) -> None:
        self.folder = stage / FOLDER
        self._identity = json.loads(json.dumps(identity, sort_keys=True, default=str))

    def newest(self) -> Path | None:
        """Return the newest intact checkpoint; damaged ones are skipped with a warning.

        Raises:
            TrainError: if it belongs to a run with other settings, or if all are damaged.
        """
        found = sorted(self.folder.glob("update-[0-9]*[0-9]"), reverse=True)
        for path in found:
            if (reason := _damage(path)) is not None:
                warnings.warn(f"{path} is damaged ({reason}); it is passed over", stacklevel=2)
                continue
            state = json.loads((path / "state.json").read_text(encoding="utf-8"))
            if state["identity"] != self._identity:
                raise TrainError(
                    f"{self.folder.parent} holds a run with other settings; choose another --out "
                    "or delete it"
                )
            return path
        if found:
            raise TrainError(f"all checkpoints in {self.folder} are damaged; delete it to start")
        return None

    def save(
        self, progress: Progress, weights: Mapping[str, Tensor], heads: Mapping[str, Tensor],
        optimizer: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Write a checkpoint, then remove the oldest ones."""
        with new_folder(self.folder / f"update-{progress.update:06d}") as partial:
            write_tensors(partial / WEIGHTS, weights)
            write_tensors(partial / HEADS, heads)
            torch.save(dict(optimizer), partial / "optimizer.pt")
            state = {"identity": self._identity, "progress": progress._asdict()}
            (partial / "state.json").write_text(json.dumps(state), encoding="utf-8")
            _seal(partial)
        for old in sorted(self.folder.glob("update-[0-9]*[0-9]"))[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)


def _sums(folder: Path) -> dict[str, str]:
    """Return the digests of a folder's files and, under the empty name, of their list."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.name != SUMS:
            with path.open("rb") as file:
                found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return {**found, "": hashlib.sha256(json.dumps(found).encode()).hexdigest()}


def _seal(folder: Path) -> None:
    (folder / SUMS).write_text(json.dumps(_sums(folder)), encoding="utf-8")


def _damage(folder: Path) -> str | None:
    """Return why a sealed folder is damaged, or None if its files match their digests."""
    try:
        said, now = json.loads((folder / SUMS).read_text(encoding="utf-8")), _sums(folder)
    except (OSError, ValueError):
        return f"its {SUMS} cannot be read"
    return None if said == now else "a file is not the one that was written"


def load(path: Path) -> Checkpoint:
    """Read a checkpoint.

    Raises:
        TrainError: if it is damaged.
    """
    try:
        state = json.loads((path / "state.json").read_text(encoding="utf-8"))
        return Checkpoint(
            Progress(**state["progress"]),
            read_tensors(path / WEIGHTS),
            read_tensors(path / HEADS),
            torch.load(path / "optimizer.pt", map_location="cpu", weights_only=True),
        )
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise TrainError(
            f"{path} is damaged ({one_line(error)}); delete it and resume again"
        ) from None


def save_best(
    stage: Path, weights: Mapping[str, Tensor], heads: Mapping[str, Tensor] | None
) -> None:
    """Write the selected weights of a stage, and its heads if it has any."""
    with new_folder(stage / BEST) as folder:
        write_tensors(folder / WEIGHTS, weights)
        if heads is not None:
            write_tensors(folder / HEADS, heads)
        _seal(folder)


def restore_best(trained: Mapping[str, torch.nn.Parameter], stage: Path) -> None:
    """Load the selected weights of a stage into a student.

    Raises:
        TrainError: if they are damaged, or belong to another backbone or adapter.
    """
    path = stage / BEST / WEIGHTS
    if (path.parent / SUMS).exists() and (reason := _damage(path.parent)) is not None:
        raise TrainError(f"{path.parent} is damaged ({reason}); train that stage again")
    restore(trained, read_tensors(path), path)


def restore(
    trained: Mapping[str, torch.nn.Parameter], weights: Mapping[str, Tensor], source: Path
) -> None:
    """Load saved weights into a student.

    Raises:
        TrainError: if they belong to another backbone or adapter.
    """
    if trained.keys() != weights.keys():
        raise TrainError(f"{source} was made for another backbone or adapter; train it again")
    with torch.no_grad():
        for name, parameter in trained.items():
            if parameter.shape != weights[name].shape:
                raise TrainError(f"{source} was made for another adapter rank; train it again")
            parameter.copy_(weights[name])


def discard(stage: Path, *names: str) -> None:
    """Remove folders that a finished stage does not need, such as its checkpoints.

    Call it after the result is written: a stage without a result resumes from these folders.
    """
    for name in names:
        shutil.rmtree(stage / name, ignore_errors=True)
