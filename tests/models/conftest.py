"""A tiny random model on disk, which the tests of this folder open and damage."""

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="models need the llm extra")

import torch

from waggle.models.nano import tiny_random


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Tiny products gain nothing from threads and suffer when cores are shared."""
    torch.set_num_threads(1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that holds a tiny random model."""
    model, tokenizer = tiny_random()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return tmp_path
