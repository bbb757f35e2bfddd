"""Tables of JSON files beside the rows: results of `waggle diagnose` and of `waggle tune`.

    waggle diagnose nano --corpus corpus --native 800 --out runs/held_out/diagnoses/nano.json
    waggle eval recipes/tables/held_out.toml && waggle report runs/held_out

Diagnoses give the paper's "Held-out local decisions" and "Deployed equivariance diagnostics"; a
file's stem is the name of the law. A search gives one line per candidate, by the validation loss of
the decision-only arm:

    waggle tune recipes/factorial_nano.toml --rates 2e-5,5e-5 --out runs/tune_nano
    cp runs/tune_nano/tune.json runs/factorial && waggle report runs/factorial

Without such files there is no such table; a file with other contents raises an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from waggle.core.errors import ConfigError
from waggle.evaluate.factorial import SEARCH
from waggle.evaluate.results import read_result
from waggle.report.tables import Table, number, percent

FOLDER = "diagnoses"
Diagnoses: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Results of `waggle diagnose` by the name of the law."""
_ORIGIN = ("teacher", "backbone", "weights", "trained by", "command")
_DECISIONS = ("views", "json_valid", "schema_valid", "executable", "mode_f1", "exact")


def held_out(folder: Path) -> list[Table]:
    """Return the tables of the diagnoses in a run directory, if there are any."""
    paths = sorted((folder / FOLDER).glob("*.json"))
    found = {path.stem: read_result(path, "result of `waggle diagnose`") for path in paths}
    return [_decisions(found), _structure(found)] if found else []


def _decisions(found: Diagnoses) -> Table:
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
        "per cent, free greedy decoding; native views: development seeds, labelled by the expert",
        *_origins(found),
    )
    return Table("Held-out local decisions", columns, tuple(body), notes)


def _structure(found: Diagnoses) -> Table:
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


def _origins(found: Diagnoses) -> Iterator[str]:
    """Yield a line per law: its teacher, backbone and weights, and the measuring command."""
    for name, result in found.items():
        parts = [f"{key} {result[key]}" for key in _ORIGIN if isinstance(result.get(key), str)]
        yield f"{name}: {', '.join(parts) or 'the file does not say what was measured'}"[:400]


def _share(value: Any) -> str:
    known = isinstance(value, int | float) and isfinite(value)
    return percent(float(value), 2) if known else number(None)


def _plain(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return number(None) if value is None else str(value)
    if isinstance(value, int):
        return str(value)
    return number(value if isfinite(value) else None, 4)


class _Candidate(msgspec.Struct, frozen=True):
    rank: int | None
    rate: float
    updates: int
    best: float
    at: int = msgspec.field(name="best update")
    last: float | None
    """None for a candidate that had already been trained to its end when the search resumed."""


class _Search(msgspec.Struct, frozen=True):
    backbone: str
    adaptation: str
    order: str
    teacher: str
    seed: int
    candidates: list[_Candidate]
    chosen: _Candidate
    command: str
    records: int = msgspec.field(name="validation records")
    ends: list[str] = msgspec.field(name="at the end of")
    starts: list[str] = msgspec.field(name="warm starts")
    lost: dict[str, str] = {}
    """Candidates without a result, with the reason."""


def search(folder: Path) -> list[Table]:
    """Return the table of the search result in a run directory, if there is one."""
    path = folder / SEARCH
    if not path.is_file():
        return []
    found = _read_search(path)
    body = tuple(
        (
            number(None) if each.rank is None else str(each.rank), f"{each.rate:g}",
            str(each.updates), number(each.best, 5), str(each.at), number(each.last, 5),
            "yes" if each == found.chosen else "no",
        )
        for each in found.candidates
    )  # fmt: skip
    columns = ("rank", "rate", "updates", "validation loss", "at update", "at the end", "chosen")
    title = "Rate and rank, chosen once on decision-only validation loss"
    return [Table(title, columns, body, tuple(text[:400] for text in _search_notes(found)))]


def _search_notes(found: _Search) -> Iterator[str]:
    yield (
        f"{found.backbone} ({found.adaptation}), order {found.order}, teacher {found.teacher}, "
        f"training seed {found.seed}, {found.records:,} validation records, decision records alone"
    )
    ranks = {candidate.rank for candidate in found.candidates}
    if len(ranks) == 1:
        yield "no rank was searched for" if None in ranks else "no other rank was tried"
    for name, reason in found.lost.items():
        yield f"lost: {name}: {reason}"
    for name in found.ends:
        yield f"the chosen {name} is at the end of those tried; less loss may lie beyond it"
    for text in found.starts:
        yield f"warm start {text}"
    yield found.command


def _read_search(path: Path) -> _Search:
    what = "result of `waggle tune`"
    try:
        return msgspec.convert(read_result(path, what), _Search)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path} holds no {what} ({error}); remove it") from None
