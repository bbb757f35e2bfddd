"""A trained folder whose weights change between two calls: real weights, from loading to rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from tests.shipped.conftest import Export
from waggle import plugins, shipped
from waggle.core.errors import ConfigError
from waggle.core.protocols import Case
from waggle.evaluate.episodes import law_of
from waggle.evaluate.executors import Inline
from waggle.evaluate.plan import Cell
from waggle.evaluate.replace import play_again
from waggle.evaluate.rows import read_rows
from waggle.evaluate.runner import run_plan
from waggle.laws.local import LocalLaw
from waggle.shipped.pack import pack, rewrite


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    law_of.cache_clear()
    yield
    law_of.cache_clear()


def plan(law: str, seeds: int, **options: str) -> list[Cell]:
    # Constrained, since untrained weights would fill every answer to its limit.
    options |= {"device": "cpu", "dtype": "float32", "mode": "constrained"}
    return [
        Cell("m", law, options, Case("beacon", "beacon", 3, s, 2), "canonical", "sync", {}, {})
        for s in range(10_000, 10_000 + seeds)
    ]


def trained_again(folder: Path) -> None:
    """Change every weight a little."""
    for path in folder.glob("*.safetensors"):
        save_file(
            {k: v * 1.01 for k, v in load_file(path).items()}, path, metadata={"format": "pt"}
        )


@pytest.mark.parametrize("kind", ["full", "lora"])
def test_rows_of_a_folder_and_of_its_successor(
    kind: str, exported: Export, backbone: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "law"
    shutil.copytree(exported(kind), folder)
    options = {"adapter": str(folder), "model": str(backbone)}
    cells = plan("adapted", 2, **options)
    if kind == "full":
        cells = plan("local", 2, model=str(folder))
    assert run_plan(cells[:1], tmp_path / "run", Inline()) == (1, 0, 0)
    (first,) = {row.digest for row in read_rows(tmp_path / "run")}
    trained_again(folder)
    # The law of this process has its weights in memory, and plays on with them.
    assert run_plan(cells, tmp_path / "run", Inline()) == (1, 1, 0)
    assert {row.digest for row in read_rows(tmp_path / "run")} == {first}
    law_of.cache_clear()
    with pytest.raises(ConfigError, match=f"2 of 2 .* other weights .{first}. .* --again"):
        run_plan(cells, tmp_path / "run", Inline())
    assert play_again(cells, tmp_path / "run", Inline()) == (2, 0, 0)
    (second,) = {row.digest for row in read_rows(tmp_path / "run")}
    assert first != second and "" not in (first, second)


def test_a_shipped_law_keeps_its_digest_until_its_weights_change(
    exported: Export, root: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    shutil.copytree(exported("full"), source)
    made = pack(source, root / "nano", {})
    law = plugins.get_law("nano", device="cpu", dtype="float32")
    assert isinstance(law, LocalLaw)
    first = law.digest
    law.load()
    rewrite(root / "nano", made.manifest, {"score": 1}, "another card")
    assert plugins.get_law("nano").digest == first  # type: ignore[attr-defined]
    trained_again(source)
    pack(source, root / "nano", {})
    assert plugins.get_law("nano").digest not in ("", first)  # type: ignore[attr-defined]
    assert law.digest == first
    (root / "nano" / shipped.LAW).unlink()
    assert plugins.get_law("nano").digest == ""  # type: ignore[attr-defined]
