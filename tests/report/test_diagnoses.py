"""Tables of diagnoses and of the search for a rate: what they show, and which files are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from waggle.core.errors import ConfigError
from waggle.report import diagnoses

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
    (table,) = diagnoses.search(tmp_path)
    assert table.rows == (
        ("—", "2e-05", "9", "0.01000", "6", "0.50000", "yes"),
        ("—", "5e-05", "9", "0.02000", "6", "0.50000", "no"),
    )
    said = " | ".join(table.notes)
    assert "no rank was searched for" in said and "waggle tune R" in said
    assert "the chosen rate is at the end of those tried" in said
    assert "1,200 validation records" in said and "teacher expert" in said


def test_ranks_are_named_where_there_are_some(tmp_path: Path) -> None:
    ranks = [candidate(2e-5, 0.01, rank=16), candidate(2e-5, 0.02, rank=32)]
    (tmp_path / "tune.json").write_text(json.dumps(found(*ranks)))
    (table,) = diagnoses.search(tmp_path)
    assert [line[0] for line in table.rows] == ["16", "32"]
    assert " rank was " not in " ".join(table.notes)
    (tmp_path / "tune.json").write_text(json.dumps(found(*ranks[:1])))
    (table,) = diagnoses.search(tmp_path)
    assert "no other rank was tried" in table.notes


def test_a_lost_candidate_is_told_of(tmp_path: Path) -> None:
    lost = {"rate 0.5": "its loss is not finite"}
    (tmp_path / "tune.json").write_text(json.dumps(found(candidate(2e-5, 0.01)) | {"lost": lost}))
    (table,) = diagnoses.search(tmp_path)
    assert "lost: rate 0.5: its loss is not finite" in table.notes


def test_a_loss_that_was_not_measured_again_is_a_dash(tmp_path: Path) -> None:
    resumed = candidate(2e-5, 0.01) | {"last": None}
    (tmp_path / "tune.json").write_text(json.dumps(found(resumed)))
    (table,) = diagnoses.search(tmp_path)
    assert table.rows[0][-2:] == ("—", "yes")


def test_no_file_no_table_and_another_file_is_refused(tmp_path: Path) -> None:
    assert diagnoses.search(tmp_path) == []
    for text in ("[]", "{", '{"candidates": 3}'):
        (tmp_path / "tune.json").write_text(text)
        with pytest.raises(ConfigError, match="no result of `waggle tune`"):
            diagnoses.search(tmp_path)


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/tune.json")), ids=lambda p: p.parent.name)
def test_what_lies_in_results_is_read(path: Path) -> None:
    (table,) = diagnoses.search(path.parent)
    assert [line[-1] for line in table.rows].count("yes") == 1


def test_held_out_reads_diagnoses(tmp_path: Path) -> None:
    folder = tmp_path / diagnoses.FOLDER
    folder.mkdir()
    result = {"order": "canonical", "synthetic views": 800, "synthetic json_valid": 1.0,
              "synthetic schema_valid": 1.0, "synthetic executable": 0.9975,
              "synthetic mode_f1": 0.98, "synthetic exact": 0.7475,
              "equivariance canonical summary": 1.0}  # fmt: skip
    (folder / "nano.json").write_text(json.dumps(result))
    decisions, structure = diagnoses.held_out(tmp_path)
    assert decisions.rows == (
        ("nano", "synthetic", "canonical", "800", "100.00", "100.00", "99.75", "98.00", "74.75"),
    )
    assert structure.rows == (("equivariance canonical summary", "1.0000"),)
    assert "nano: the file does not say what was measured" in decisions.notes
    for broken in ("{", "[1]", "\xff"):
        (folder / "bad.json").write_text(broken, encoding="latin-1")
        with pytest.raises(ConfigError, match="waggle diagnose"):
            diagnoses.held_out(tmp_path)


def test_held_out_takes_what_diagnose_writes(tmp_path: Path) -> None:
    """Undefined measures are NaN; a value and a name for every view make a file of megabytes."""
    folder = tmp_path / diagnoses.FOLDER
    folder.mkdir()
    result = {"synthetic views": 800, "synthetic mode_f1": float("nan"), "train head field": 1e309,
              "probe all": 0.5, "teacher": "expert", "backbone": "nano",
              "command": "waggle diagnose nano --out x.json",
              "unit names": {"transitions": [f"unit {k}" for k in range(90_000)]}}  # fmt: skip
    path = folder / "nano.json"
    path.write_text(json.dumps(result))
    assert path.stat().st_size > 1 << 20
    decisions, structure = diagnoses.held_out(tmp_path)
    assert decisions.rows[0][3:] == ("800", "—", "—", "—", "—", "—")
    assert structure.rows == (("train head field", "—"), ("probe all", "0.5000"))
    told = "nano: teacher expert, backbone nano, command waggle diagnose nano --out x.json"
    assert told in decisions.notes and told in structure.notes
