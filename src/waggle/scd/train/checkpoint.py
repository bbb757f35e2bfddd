"""Checkpoints: trained weights, heads, optimizer and progress of a stage, whole or not at all.

The newest whole checkpoint counts: one whose files have the digests in its `sums.json`. A damaged
one is passed over with a note. A run resumed from any of them follows the trajectory of an
uninterrupted run, because every draw is named by its update.
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
"""Complete checkpoints that stay on disk."""
FOLDER = "checkpoints"
"""Where a stage keeps its checkpoints."""
BEST = "best"
"""Where a stage keeps the weights of least validation loss."""
WEIGHTS = "trainable.safetensors"
HEADS = "heads.safetensors"
SUMS = "sums.json"
"""Digests of the files beside it, and of their list."""


class Progress(NamedTuple):
    """Where a run stands."""

    update: int
    """Updates done."""
    best_update: int
    best_loss: float
    """The smallest validation loss so far, and the update it was measured at."""
    seconds: float = 0.0
    """Time spent, for stages with a time budget."""


class Checkpoint(NamedTuple):
    """What a checkpoint holds."""

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
        """Return the newest whole checkpoint; a damaged one is passed over with a warning.

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
    """Return what is wrong with a sealed folder, or None where its files are as they were."""
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
    """Put the selected weights of a stage into a student.

    Raises:
        TrainError: if they are damaged, or those of another student.
    """
    path = stage / BEST / WEIGHTS
    if (path.parent / SUMS).exists() and (reason := _damage(path.parent)) is not None:
        raise TrainError(f"{path.parent} is damaged ({reason}); train that stage again")
    restore(trained, read_tensors(path), path)


def restore(
    trained: Mapping[str, torch.nn.Parameter], weights: Mapping[str, Tensor], source: Path
) -> None:
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


def discard(stage: Path, *names: str) -> None:
    """Remove folders of a finished stage that nothing reads any more, such as its checkpoints.

    Call it when the result is written: a stage without one resumes from what this removes.
    """
    for name in names:
        shutil.rmtree(stage / name, ignore_errors=True)
