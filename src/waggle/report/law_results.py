"""Measured results of a law, gathered from the files that training, diagnosis and evaluation left.

They become the law's `results.json`, from which its model card is written. Files are checked and
bounded in size, and no number is typed by hand.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from waggle.core.errors import ConfigError
from waggle.evaluate import plan
from waggle.evaluate.rows import read_rows
from waggle.laws.origin import origin
from waggle.report.model_card import run_results

MAX_JSON = 64 << 20
"""Bytes of a file of results."""


@dataclass(frozen=True)
class Results:
    """Measured results that a model card is made from.

    Args:
        diagnosis: JSON files of `waggle diagnose --out` or of training; the folder or file name
            is the column.
        stats: JSON file of `waggle corpus stats --json`.
        tokens: manifest.json of the token corpus of stage one.
        phases: phases.json of the training run.
        run: Run directories of `waggle eval`.
        ranks: JSON file of `waggle law ranks --out`.
        notes: Text file with known failures in words, one a line.
    """

    diagnosis: tuple[Path, ...] = ()
    stats: Path | None = None
    tokens: Path | None = None
    phases: Path | None = None
    run: tuple[Path, ...] = ()
    ranks: Path | None = None
    notes: Path | None = None

    def beside(self, law: Path, *, same: bool) -> Results:
        """Take what training left beside a law where nothing else was given.

        Its diagnosis measured the adapter that training wrote: one of another rank has none.
        """
        diagnosis, run = law.parent / "diagnosis.json", run_of(law)
        tokens = run / "tokens" / origin(str(law)).order / "manifest.json"
        return replace(
            self,
            diagnosis=self.diagnosis or ((diagnosis,) if same and diagnosis.is_file() else ()),
            tokens=self.tokens or _existing(tokens),
            phases=self.phases or _existing(run / "phases.json"),
        )


def run_of(law: Path) -> Path:
    """Return the folder of the run that a law was trained in: RUN/seed-S/ARM/law."""
    return law.resolve().parent.parent.parent


def _existing(path: Path) -> Path | None:
    return path if path.exists() else None


def gather(known: dict[str, Any], given: Results) -> dict[str, Any]:
    """Add results to those that are known."""
    found = dict(known)
    if given.diagnosis:
        columns = {_column(path): read_json(path) for path in given.diagnosis}
        columns = {name: _scalars(column) for name, column in columns.items()}
        found["diagnosis"] = {**found.get("diagnosis", {}), **columns}
    if "diagnosis" in found:
        found["diagnosis"] = {name: _weighed(each) for name, each in found["diagnosis"].items()}
    if given.stats is not None:
        found["corpus"] = read_json(given.stats)
    if given.tokens is not None:
        found["tokens"] = _rows(given.tokens)
    if given.phases is not None:
        found["phases"] = read_json(given.phases)
    if given.run:
        runs = {result["title"]: result for result in map(_run, given.run)}
        kept = [r for r in found.get("runs", ()) if r["title"] not in runs]
        found["runs"] = [*kept, *runs.values()]
    if given.ranks is not None:
        found["ranks"] = read_json(given.ranks).get("rows", [])
    if given.notes is not None:
        found["notes"] = [line for line in _text(given.notes).splitlines() if line.strip()]
    return found


def _scalars(diagnosis: dict[str, Any]) -> dict[str, Any]:
    """Leave out values per view and their ids, which no card shows."""
    return {name: v for name, v in diagnosis.items() if not isinstance(v, dict | list)}


def _weighed(diagnosis: dict[str, Any]) -> dict[str, Any]:
    """Return a diagnosis with the digest of the weights it measured, empty if it has none."""
    said = diagnosis.get("weights")
    known = isinstance(said, str) and re.fullmatch("[0-9a-f]{1,64}", said)
    return {**diagnosis, "weights": said if known else ""}


def _column(path: Path) -> str:
    """Return the name of a diagnosis: of the file, or of the arm's folder for training's own."""
    return path.resolve().parent.name if path.name == "diagnosis.json" else path.stem


def _rows(path: Path) -> dict[str, int]:
    """Return how many sequences each split of a token corpus has."""
    try:
        shards = read_json(path)["shards"]
        return {split: sum(int(s["rows"]) for s in some) for split, some in shards.items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ConfigError(f"{path} is no manifest of a token corpus; give its own") from None


def _run(folder: Path) -> dict[str, Any]:
    return run_results(plan.load_run(folder), read_rows(folder), f"waggle eval {folder.name}.toml")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        ConfigError: if the file holds none.
    """
    try:
        value = json.loads(_text(path))
    except ValueError:
        raise ConfigError(f"{path} is not JSON; give a file that waggle wrote") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{path} holds no results; give a file that waggle wrote")
    return value


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_JSON:
            raise ConfigError(f"{path} is too long; give a file that waggle wrote")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path} ({error}); give a file that waggle wrote") from None
