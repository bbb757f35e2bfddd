"""The table of the search for a rate: what was tried, what was chosen, what is no such file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from waggle.core.errors import ConfigError
from waggle.report import searched

RESULTS = Path(__file__).parents[2] / "results"


def candidate(rate: float, loss: float, rank: int | None = None) -> dict[str, Any]:
    return {"rank": rank, "rate": rate, "updates": 9, "best": loss, "best update": 6, "last": 0.5}


def found(*candidates: dict[str, Any]) -> dict[str, Any]:
    return {
        "backbone": "nano", "adaptation": "full", "order": "shuffled", "teacher": "expert",
        "seed": 1000, "validation records": 1200, "warm starts": ["W"], "lost": {},
        "candidates": list(candidates), "chosen": candidates[0], "command": "waggle tune R",
        "at the end of": ["rate"], "advice": "",
    }  # fmt: skip


def test_every_candidate_has_a_line_and_one_is_chosen(tmp_path: Path) -> None:
    text = json.dumps(found(candidate(2e-5, 0.01), candidate(5e-5, 0.02)))
    (tmp_path / "tune.json").write_text(text)
    (table,) = searched.tables(tmp_path)
    assert table.rows == (
        ("—", "2e-05", "9", "0.01000", "6", "0.50000", "yes"),
        ("—", "5e-05", "9", "0.02000", "6", "0.50000", "no"),
    )
    said = " | ".join(table.notes)
    assert "no rank was searched for" in said and "waggle tune R" in said
    assert "the chosen rate is at the end of those tried" in said
    assert "1,200 validation records" in said and "teacher expert" in said


def test_ranks_are_named_where_there_are_some(tmp_path: Path) -> None:
    (tmp_path / "tune.json").write_text(json.dumps(found(candidate(2e-5, 0.01, rank=16))))
    (table,) = searched.tables(tmp_path)
    assert table.rows[0][0] == "16" and "no rank" not in " ".join(table.notes)


def test_no_file_no_table_and_another_file_is_refused(tmp_path: Path) -> None:
    assert searched.tables(tmp_path) == []
    for text in ("[]", "{", '{"candidates": 3}'):
        (tmp_path / "tune.json").write_text(text)
        with pytest.raises(ConfigError, match="no result of `waggle tune`"):
            searched.tables(tmp_path)


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/tune.json")), ids=lambda p: p.parent.name)
def test_what_lies_in_results_is_read(path: Path) -> None:
    (table,) = searched.tables(path.parent)
    assert [line[-1] for line in table.rows].count("yes") == 1
