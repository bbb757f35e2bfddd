"""A tiny random model on disk, which the tests of this folder open and damage."""

import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="models need the llm extra")

import torch

from waggle.models.nano import tiny_random


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Tiny products gain nothing from threads and suffer when cores are shared."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds a tiny random model, to be copied."""
    place = tmp_path_factory.mktemp("saved")
    model, tokenizer = tiny_random()
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A folder that holds a tiny random model, and that a test may damage."""
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    return tmp_path
