"""Test vectors: read recorded files, and count the outcomes of checking them.

Vector files are untrusted. `read_vector` bounds their size and checks their shape; `guarded` turns
any error that a bad file causes into one failed outcome with a reason, instead of an exception.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from waggle.core.errors import RecordError, WaggleError

MAX_BYTES = 256 * 1024 * 1024
"""The largest file that is read, counted after decompression."""
_BROKEN = (
    ArithmeticError, AttributeError, LookupError, MemoryError, OSError, EOFError, RecursionError,
    TypeError, ValueError, WaggleError, msgspec.MsgspecError, zlib.error,
)  # fmt: skip


class Outcome(NamedTuple):
    """The outcome of one vector."""

    name: str
    problem: str | None = None
    """The first difference, or why the vector cannot be checked; None if neither applies."""
    skipped: bool = False


class VectorReport(NamedTuple):
    """The counts of passed, failed and skipped vectors, and the first difference."""

    passed: int
    failed: int
    skipped: int
    first_difference: str | None

    @property
    def ok(self) -> bool:
        """Whether at least one vector passed and none failed."""
        return self.failed == 0 and self.passed > 0


def count(outcomes: Iterable[Outcome]) -> VectorReport:
    """Count outcomes and keep the first problem."""
    found = list(outcomes)
    problems = [f"{o.name}: {o.problem}" for o in found if o.problem]
    skipped = sum(o.skipped for o in found)
    passed = len(found) - len(problems) - skipped
    return VectorReport(passed, len(problems), skipped, problems[0] if problems else None)


def guarded(name: str, outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
    """Yield the outcomes of one file; an error while computing them becomes a failed outcome."""
    try:
        yield from outcomes
    except _BROKEN as error:
        yield Outcome(name, f"cannot be checked: {type(error).__name__}: {error}"[:300])


def read_vector(path: Path, kind: Any = Any) -> Any:
    """Return the JSON value of a plain or gzipped file.

    Raises:
        RecordError: if the file is too large or cut short.
        msgspec.MsgspecError: if its content is not of type `kind`.
    """
    too_large = RecordError(f"larger than {MAX_BYTES} bytes; split it")
    if path.stat().st_size > MAX_BYTES:
        raise too_large
    data = path.read_bytes()
    if path.suffix == ".gz":
        stream = zlib.decompressobj(wbits=31)
        data = stream.decompress(data, MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise too_large
        if not stream.eof:
            raise RecordError("the gzip data is cut short; fetch the file again")
    return msgspec.json.decode(data, type=kind)
