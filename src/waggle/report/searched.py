"""How the rate and the rank of a factorial were chosen: what `waggle tune` left in the folder.

    waggle tune recipes/factorial_nano.toml --rates 2e-5,5e-5 --out runs/tune_nano
    cp runs/tune_nano/tune.json runs/factorial && waggle report runs/factorial

One line for every candidate, by the validation loss of the decision-only arm. Invariant: a folder
without the file has no such table, and a file that is none is refused.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from waggle.core.errors import ConfigError
from waggle.evaluate.factorial import SEARCH
from waggle.report.tables import Table, number

_MAX_BYTES = 1 << 20


class _Candidate(msgspec.Struct, frozen=True):
    rank: int | None
    rate: float
    updates: int
    best: float
    at: int = msgspec.field(name="best update")
    last: float | None
    """None where a candidate that was trained to its end before was taken up again."""


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
    """Candidates that came to no result, and why."""


def tables(folder: Path) -> list[Table]:
    """Return the table of the search whose result lies in a run directory; none without one."""
    path = folder / SEARCH
    if not path.is_file():
        return []
    found = _read(path)
    body = tuple(
        (
            "—" if each.rank is None else str(each.rank), f"{each.rate:g}", str(each.updates),
            number(each.best, 5), str(each.at), number(each.last, 5),
            "yes" if each == found.chosen else "no",
        )
        for each in found.candidates
    )  # fmt: skip
    columns = ("rank", "rate", "updates", "validation loss", "at update", "at the end", "chosen")
    title = "Rate and rank, chosen once on decision-only validation loss"
    return [Table(title, columns, body, _notes(found))]


def _notes(found: _Search) -> tuple[str, ...]:
    said = (
        f"{found.backbone} ({found.adaptation}), order {found.order}, teacher {found.teacher}, "
        f"training seed {found.seed}, {found.records:,} validation records, decision records alone"
    )
    ranks = {c.rank for c in found.candidates}
    none = "no rank was searched for" if None in ranks else "no other rank was tried"
    rank = [none] if len(ranks) == 1 else []
    lost = [f"lost: {name}: {reason}" for name, reason in found.lost.items()]
    ends = [
        f"the chosen {name} is at the end of those tried; less loss may lie beyond it"
        for name in found.ends
    ]
    starts = [f"warm start {text}" for text in found.starts]
    return tuple(text[:400] for text in (said, *rank, *lost, *ends, *starts, found.command))


def _read(path: Path) -> _Search:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigError(f"{path} is too long for a result of `waggle tune`; remove it")
        return msgspec.json.decode(path.read_bytes(), type=_Search)
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is no result of `waggle tune` ({error}); remove it") from None
