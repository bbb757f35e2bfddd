"""Held-out decisions: results of `waggle diagnose` that lie in a run directory, as one table.

    waggle diagnose nano --corpus corpus --native 800 --out runs/held_out/diagnoses/nano.json
    waggle eval recipes/tables/held_out.toml && waggle report runs/held_out

The paper's "Held-out local decisions" and "Deployed equivariance diagnostics"; a file's stem is the
name of the law.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from waggle.core.errors import ConfigError
from waggle.report.tables import Table, number, percent

FOLDER = "diagnoses"
MAX_BYTES = 64 << 20
"""A diagnosis holds a value and a name for every view and transition: some hundred kilobytes."""
_TOLD = ("teacher", "backbone", "weights", "trained by", "command")
_DECISIONS = ("views", "json_valid", "schema_valid", "executable", "mode_f1", "exact")


def tables(folder: Path) -> list[Table]:
    """Return the tables of the diagnoses in a run directory; none where there are none."""
    found = {path.stem: _read(path) for path in sorted((folder / FOLDER).glob("*.json"))}
    return [_decisions(found), _structure(found)] if found else []


def _read(path: Path) -> Mapping[str, Any]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path} is too long for a diagnosis; remove it")
        # The standard reader: what could not be measured is written as NaN.
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path} is no result of `waggle diagnose --out` ({error}); remove it"
        ) from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path} is no result of `waggle diagnose --out`; remove it")
    return found


def _share(value: Any) -> str:
    known = isinstance(value, int | float) and isfinite(value)
    return percent(float(value), 2) if known else number(None)


def _origins(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Say of every law who taught it, what it runs on and by which command it was measured."""
    for name, result in found.items():
        said = [f"{key} {result[key]}" for key in _TOLD if isinstance(result.get(key), str)]
        yield f"{name}: {', '.join(said) or 'the file does not say what was measured'}"[:400]


def _decisions(found: Mapping[str, Mapping[str, Any]]) -> Table:
    body = []
    for name, result in found.items():
        for kind in ("synthetic", "native"):
            values = [result.get(f"{kind} {key}") for key in _DECISIONS]
            if values[0]:
                shares = (_share(value) for value in values[1:])
                body.append((name, kind, str(result.get("order", "—")), str(values[0]), *shares))
    columns = ("law", "views", "order", "count", "JSON valid", "schema valid", "executable",
               "mode macro-F1", "exact match")  # fmt: skip
    notes = (
        "per cent, free greedy decoding; native views: evaluation seeds, labelled by the expert",
        *_origins(found),
    )
    return Table("Held-out local decisions", columns, tuple(body), notes)


def _structure(found: Mapping[str, Mapping[str, Any]]) -> Table:
    keys = [
        key
        for key in dict.fromkeys(key for result in found.values() for key in result)
        if key.startswith(("equivariance", "probe", "train head"))
    ]
    body = tuple((key, *(_plain(result.get(key)) for result in found.values())) for key in keys)
    notes = (
        "shares from 0 to 1; ties: views with records that nothing tells apart",
        *_origins(found),
    )
    return Table("Deployed structure", ("measure", *found), body, notes)


def _plain(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return number(None) if value is None else str(value)
    if isinstance(value, int):
        return str(value)
    return number(value if isfinite(value) else None, 4)
