"""Anchors are frozen by a run on anchor seeds and by nothing else."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.report import sheets
from waggle.cli.main import main
from waggle.core.errors import ConfigError
from waggle.evaluate import anchors
from waggle.evaluate.rows import Row


def anchor_rows(start: int = 41_000, **changes: object) -> list[Row]:
    made = sheets.recipe(
        {"tasks": ["swarmbench/*"], "n": [8], "seeds": {"start": start, "count": 2}}
    )
    rows = sheets.played(made, lambda cell: float(len(cell.case.task) + cell.case.seed % 2))
    return [msgspec.structs.replace(row, **changes) for row in rows if row.method == "teacher"]


def test_means_of_the_expert_by_task(tmp_path: Path) -> None:
    found = anchors.freeze(anchor_rows(method="expert"), "a command")
    assert found.scores["pursuit"] == 7.5 and found.seeds == (41_000, 41_001)
    anchors.write(found, tmp_path / "anchors.json")
    assert (
        msgspec.json.decode((tmp_path / "anchors.json").read_bytes(), type=anchors.Anchors) == found
    )


@pytest.mark.parametrize(
    "rows",
    [
        anchor_rows(21_000, method="expert"),
        anchor_rows(method="nano"),
        anchor_rows(method="expert")[1:],
        anchor_rows(method="expert", error="x"),
    ],
)
def test_other_runs_freeze_nothing(rows: list[Row]) -> None:
    with pytest.raises(ConfigError, match="anchor"):
        anchors.freeze(rows, "a command")


def test_rows_of_another_plan_are_not_frozen(tmp_path: Path) -> None:
    made = sheets.recipe(
        {"methods": ["expert"], "tasks": ["swarmbench/*"], "n": [8],
         "seeds": {"start": 41_000, "count": 2}},
        methods={"expert": {"law": "expert"}},
    )  # fmt: skip
    rows = sheets.played(made, lambda cell: float(len(cell.case.task)))
    older = [msgspec.structs.replace(r, cell=f"x{r.cell}", scores={"score": 99.0}) for r in rows]
    (tmp_path / "recipe.json").write_text(made.model_dump_json())
    lines = b"".join(msgspec.json.encode(row) + b"\n" for row in [*older, *rows])
    (tmp_path / "rows.jsonl").write_bytes(lines)
    target = tmp_path / "anchors.json"
    assert main(["report", str(tmp_path), "--freeze", str(target), "--json"]) == 0
    found = msgspec.json.decode(target.read_bytes(), type=anchors.Anchors)
    assert found.scores["pursuit"] == 7 and found.seeds == (41_000, 41_001)


def test_the_frozen_file_normalizes_the_three_tasks() -> None:
    found = anchors.load()
    assert found.n == 8 and found.law == "expert" and len(found.seeds) == 10
    assert all(found.scores[task] > 0 for task in anchors.NORMALIZED)
    (row, *_) = [r for r in anchor_rows() if r.task == "pursuit"]
    assert anchors.normalized(row) == row.scores["score"] / found.scores["pursuit"]
    assert anchors.normalized(msgspec.structs.replace(row, substrate="silo")) is None
    assert "6.20 / 3.80 / 6.40" in anchors.describe()
