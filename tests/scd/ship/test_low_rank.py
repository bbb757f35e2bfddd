"""The adapter of a dense law: best factors of a rank, measured, and packed at the rank chosen."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor

from waggle import shipped
from waggle.cli.main import main
from waggle.cli.options import make_law
from waggle.core.errors import ConfigError
from waggle.scd.config import Adaptation, Recipe
from waggle.scd.run.stages import Stages
from waggle.scd.ship.low_rank import TrainedLaw, changes_of, exact, low_rank, measure

SHAPES = [(20, 20), (12, 30), (30, 12)]


def drawn(shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Return a matrix, and inputs some directions of which are seen far more than others."""
    generator = torch.Generator().manual_seed(7)
    change = torch.randn(shape, generator=generator)
    loud = torch.logspace(-2, 1, shape[1])
    return change, loud * torch.randn(400, shape[1], generator=generator)


@pytest.mark.parametrize("shape", SHAPES)
def test_plain_factors_are_the_truncated_singular_values(shape: tuple[int, int]) -> None:
    change, _ = drawn(shape)
    u, s, v = torch.linalg.svd(change, full_matrices=False)
    most = low_rank(change, 8)
    for rank in (1, 5, 8):
        a, b = low_rank(change, rank)
        assert torch.allclose(b @ a, (u[:, :rank] * s[:rank]) @ v[:rank], atol=1e-4)
        assert torch.allclose(b @ a, most[1][:, :rank] @ most[0][:rank], atol=1e-5)
        assert torch.allclose(a.norm(dim=1), b.norm(dim=0), rtol=1e-3)


@pytest.mark.parametrize("shape", SHAPES)
def test_factors_of_full_rank_are_the_matrix_rounded_once(shape: tuple[int, int]) -> None:
    change, _ = drawn(shape)
    for rank in (min(shape), max(shape) + 3):
        a, b = (each.bfloat16().float() for each in exact(change, rank))
        assert a.shape == (rank, shape[1]) and b.shape == (shape[0], rank)
        assert torch.equal(b @ a, change.bfloat16().float())


@pytest.mark.parametrize("shape", SHAPES)
def test_fitted_factors_are_better_on_the_inputs_they_were_fitted_to(
    shape: tuple[int, int],
) -> None:
    change, inputs = drawn(shape)
    best = torch.linalg.svdvals((change @ inputs.T).double())
    for rank in (2, 6):
        a, b = low_rank(change, rank, inputs.T @ inputs)
        found = ((change - b @ a) @ inputs.T).norm()
        assert float(found) == pytest.approx(float(best[rank:].norm()), rel=1e-3)
        plain_a, plain_b = low_rank(change, rank)
        assert found < 0.9 * ((change - plain_b @ plain_a) @ inputs.T).norm()


def test_a_low_rank_change_is_recovered_and_padded() -> None:
    generator = torch.Generator().manual_seed(1)
    b, a = torch.randn(12, 3, generator=generator), torch.randn(3, 9, generator=generator)
    for rank in (3, 5, 32):
        first, second = low_rank(b @ a, rank)
        assert first.shape == (rank, 9) and second.shape == (12, rank)
        assert torch.allclose(second @ first, b @ a, atol=1e-4)


@pytest.fixture(scope="module")
def law(corpus: Path, recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dense law, a few updates away from its backbone, with its selected weights beside it."""
    dense = recipe.model_copy(update={"adaptation": Adaptation(kind="dense", rank=6)})
    return Stages(dense, corpus, tmp_path_factory.mktemp("run"), 0).warm_start()


def test_more_rank_keeps_more_until_nothing_is_lost(law: Path, corpus: Path) -> None:
    rows = {(row.factors, row.rank): row for row in measure(law, corpus, (2, 8, 32), 4, "cpu")}
    whole, none = rows["whole", 0], rows["none", 0]
    assert whole.nll < none.nll
    for kind in ("plain", "fitted"):
        few, some, every = (rows[kind, rank] for rank in (2, 8, 32))
        assert few.kept < some.kept < every.kept and few.bytes < some.bytes < every.bytes
        assert every.kept == pytest.approx(1, abs=1e-4)
        assert every.nll == pytest.approx(whole.nll, abs=2e-3)
        assert 0 < every.rounding < 2e-5
    assert rows["fitted", 2].kept <= rows["plain", 2].kept


def test_a_law_without_its_trained_weights_is_known_by_its_adapter(
    law: Path, tmp_path: Path
) -> None:
    alone = tmp_path / "seed-0" / "warm-start" / "law"
    shutil.copytree(law, alone)
    trained = TrainedLaw(alone, "cpu")
    exact = changes_of(law, trained.base)
    for name, change in trained.changes.items():
        a, b = low_rank(exact[name], 6)
        assert torch.allclose(change, b @ a, atol=2e-2 * float(exact[name].abs().max()))


def test_a_law_is_packed_at_the_rank_asked_for_and_used_from_its_folder(
    law: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, place = tmp_path / "ranks.json", tmp_path / "mine"
    asked = ["--corpus", str(corpus), "--device", "cpu"]
    given = ["--ranks", "2,3", "--records", "3", "--out", str(table)]
    assert main(["law", "ranks", str(law), *asked, *given]) == 0
    given = ["--rank", "3", "--ranks", str(table), "--out", str(tmp_path)]
    assert main(["law", "pack", str(law), "mine", *asked, *given]) == 0
    assert "not diagnosed at this rank" in capsys.readouterr().err
    assert json.loads((place / "adapter_config.json").read_text())["r"] == 3
    said = shipped.verify(place)
    assert (said.kind, said.training["adapter rank"]) == ("dense", 3)
    assert said.training["adapter factors"] == "fitted"
    assert "| fitted | 3 |" in (place / "README.md").read_text()
    made = make_law(str(place), {"dtype": "float32", "device": "cpu"})
    made.load()  # type: ignore[attr-defined]
    (place / "adapter_model-00001-of-00001.safetensors").write_bytes(b"")
    with pytest.raises(ConfigError, match="is not the file that was shipped"):
        make_law(str(place), {}).load()  # type: ignore[attr-defined]


@pytest.mark.parametrize("ranks", ["", "0,4", "many", "9999"])
def test_ranks_that_make_no_sense_are_one_line(
    ranks: str, law: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["law", "ranks", str(law), "--ranks", ranks]) == 2
    assert "--ranks takes ranks from 1 to" in capsys.readouterr().err
