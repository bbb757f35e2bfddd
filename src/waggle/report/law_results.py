"""Measured results of a law, gathered from the files of training, diagnosis and evaluation.

They become the law's `results.json`, from which its model card is written. Files are validated and
bounded in size, and no number is entered by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waggle.core.errors import ConfigError
from waggle.evaluate import plan, sessions
from waggle.evaluate.results import read_result
from waggle.evaluate.rows import read_rows
from waggle.laws.origin import origin
from waggle.report.model_card import run_results

_WRITTEN = "results that waggle wrote"


@dataclass(frozen=True)
class Results:
    """Measured results that a model card is made from.

    Args:
        diagnosis: JSON file of `waggle diagnose --out` or of training, once for each file; the
            folder or file name is the column.
        stats: JSON file of `waggle corpus stats --json`.
        run: Run directory of `waggle eval`, once for each directory.
        ranks: JSON file of `waggle law ranks --out`.
        notes: Text file with known failures in words, one per line.
    """

    diagnosis: tuple[Path, ...] = ()
    stats: Path | None = None
    run: tuple[Path, ...] = ()
    ranks: Path | None = None
    notes: Path | None = None


def run_of(law: Path) -> Path:
    """Return the folder RUN of the run that trained a law in RUN/seed-S/ARM/law."""
    return law.resolve().parent.parent.parent


def left_by_training(law: Path, *, diagnosed: bool) -> dict[str, Any]:
    """Return the results that training wrote next to a law.

    `diagnosed` includes the diagnosis, which is valid only for the adapter that training wrote, not
    for one of another rank.
    """
    diagnosis, run = law.parent / "diagnosis.json", run_of(law)
    tokens, phases = run / "tokens" / origin(str(law)).order / "manifest.json", run / "phases.json"
    found: dict[str, Any] = {}
    if diagnosed and diagnosis.is_file():
        found["diagnosis"] = _diagnoses([diagnosis])
    if tokens.exists():
        found["tokens"] = _rows(tokens)
    if phases.exists():
        found["phases"] = read_result(phases, _WRITTEN)
    return found


def gather(known: dict[str, Any], given: Results) -> dict[str, Any]:
    """Return the known results with the given ones added."""
    found = dict(known)
    if given.diagnosis:
        found["diagnosis"] = {**found.get("diagnosis", {}), **_diagnoses(given.diagnosis)}
    if "diagnosis" in found:
        found["diagnosis"] = {name: _weighed(each) for name, each in found["diagnosis"].items()}
    if given.stats is not None:
        found["corpus"] = read_result(given.stats, _WRITTEN)
    if given.run:
        runs = {result["title"]: result for result in map(_run, given.run)}
        kept = [r for r in found.get("runs", ()) if r["title"] not in runs]
        found["runs"] = [*kept, *runs.values()]
    if given.ranks is not None:
        found["ranks"] = read_result(given.ranks, _WRITTEN).get("rows", [])
    if given.notes is not None:
        lines = given.notes.read_text(encoding="utf-8", errors="replace").splitlines()
        found["notes"] = [line for line in lines if line.strip()]
    return found


def _diagnoses(paths: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """Read diagnoses by column, without per-view values and ids, which no card shows."""
    found = {_column(path): read_result(path, _WRITTEN) for path in paths}
    return {
        column: {name: v for name, v in values.items() if not isinstance(v, dict | list)}
        for column, values in found.items()
    }


def _weighed(diagnosis: dict[str, Any]) -> dict[str, Any]:
    """Return a diagnosis with the digest of the measured weights, empty if missing or invalid."""
    said = diagnosis.get("weights")
    known = isinstance(said, str) and re.fullmatch("[0-9a-f]{1,64}", said)
    return {**diagnosis, "weights": said if known else ""}


def _column(path: Path) -> str:
    """Return a diagnosis's column name: the file stem, or the folder for `diagnosis.json`."""
    return path.resolve().parent.name if path.name == "diagnosis.json" else path.stem


def _rows(path: Path) -> dict[str, int]:
    """Return the number of sequences in each split of a token corpus."""
    try:
        shards = read_result(path, "manifest of a token corpus")["shards"]
        return {split: sum(int(s["rows"]) for s in some) for split, some in shards.items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ConfigError(f"{path} is no manifest of a token corpus; give its own") from None


def _run(folder: Path) -> dict[str, Any]:
    recipe = plan.load_run(folder)
    command = sessions.plain(f"waggle eval {recipe.source}")
    return run_results(recipe, read_rows(folder), command)
