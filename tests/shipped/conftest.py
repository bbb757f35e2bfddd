"""A stand-in for a trained law, made by the export code itself from a very small student."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the llm extra")
pytest.importorskip("peft", reason="needs the llm extra")

import torch

from tests.backbones import save_backbone
from waggle import shipped
from waggle.core.prompt import INSTRUCTION, SCHEMA
from waggle.models.nano import byte_tokenizer
from waggle.scd.config import Adaptation, Recipe, Run
from waggle.scd.model import Student
from waggle.scd.ship.export import export

CARD = {"training seed": 3, "teacher": "expert", "selected update": 7}


@pytest.fixture(scope="session")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = byte_tokenizer([INSTRUCTION, SCHEMA] * 9, 600)
    return save_backbone(tmp_path_factory.mktemp("backbone"), tokenizer)


Export = Callable[[str], Path]


@pytest.fixture(scope="session")
def exported(backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Export:
    """Export a law of one kind, with weights that differ from the backbone's."""

    def make(kind: str) -> Path:
        recipe = Recipe(
            name="stand-in", backbone=str(backbone), order="canonical",
            adaptation=Adaptation(kind=kind, rank=4, alpha=8),  # type: ignore[arg-type]
            run=Run(device="cpu", dtype="float32"),
        )  # fmt: skip
        student = Student(recipe, 1)
        generator = torch.Generator().manual_seed(5)
        with torch.no_grad():
            for _, weight in sorted(student.trainable().items()):
                weight.add_(0.05 * torch.randn(weight.shape, generator=generator))
        return export(student, tmp_path_factory.mktemp(kind) / "law", CARD)

    known: dict[str, Path] = {}
    return lambda kind: known.get(kind) or known.setdefault(kind, make(kind))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place for shipped laws."""
    monkeypatch.setattr(shipped, "ROOT", tmp_path)
    monkeypatch.setattr(shipped, "_distributed", dict)
    return tmp_path


@pytest.fixture
def requests() -> Any:
    from tests.laws_llm.conftest import played
    from waggle.core.order import canonical
    from waggle.core.protocols import Request

    return [Request(canonical(view)[0]) for view in played("beacon", 4, 2)]
