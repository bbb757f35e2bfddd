"""What tests of training share: changed recipes, run folders, and the weights they end with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from waggle.corpus.store import Store
from waggle.models.nano import nano_tokenizer
from waggle.scd.config import Recipe
from waggle.scd.data.encode import EncodedCorpus
from waggle.scd.files import read_tensors


def changed(recipe: Recipe, **parts: dict[str, object]) -> Recipe:
    """Return a recipe with some settings of some tables changed."""
    data = recipe.model_dump()
    for part, values in parts.items():
        data[part] |= values
    return Recipe.model_validate(data)


def encoded(folder: Path, corpus: Path, order: Any = "shuffled", workers: int = 1) -> EncodedCorpus:
    """Return a corpus in the tokens of the tests' backbone."""
    return EncodedCorpus(
        folder, Store(corpus), nano_tokenizer(), order, longest=4000, workers=workers
    )


def with_warm_start(out: Path, start: Path) -> Path:
    """Return a run folder that begins with a warm start of another run."""
    (out / "seed-0").mkdir(parents=True)
    (out / "seed-0" / "warm-start").symlink_to(start)
    return out


@contextmanager
def with_onednn() -> Iterator[None]:
    """Let torch use oneDNN where it can, and leave the setting as it was."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(torch.backends.mkldnn.is_available())
    yield
    torch._C._set_mkldnn_enabled(before)


def last_weights(stage: Path) -> dict[str, torch.Tensor]:
    """Return the weights after the last update of a stage, selected or not."""
    newest = sorted((stage / "checkpoints").glob("update-*"))[-1]
    return read_tensors(newest / "trainable.safetensors")


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """Whether two sets of weights are the same, bit for bit."""
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)
