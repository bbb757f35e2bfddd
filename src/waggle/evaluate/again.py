"""An interrupted `waggle eval --again`, made again, goes on instead of beginning anew.

Rows are only ever appended, so the place at which a row file ended when a call began tells the rows
that were played since. The place is written down under the cells of the call and forgotten when the
call ends; one that was interrupted leaves it behind. Invariant: a row of other weights than its law
has now does not count as played again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from waggle.core.errors import ConfigError
from waggle.evaluate import weights
from waggle.evaluate.plan import Cell
from waggle.evaluate.rows import FILE, Row, read_rows
from waggle.evaluate.weights import Key

JOURNAL = "again.json"
"""Where interrupted calls began, in their run directory."""
MAX_BYTES = 1 << 20


class Again:
    """One call that plays finished cells too."""

    def __init__(self, folder: Path, cells: Sequence[Cell]) -> None:
        self._folder, self._cells, self._path = folder, cells, folder / JOURNAL
        named = sorted({f"{cell.method} {cell.id}" for cell in cells})
        self._name = hashlib.sha256("\n".join(named).encode()).hexdigest()[:16]

    def done(
        self, width: int | None = None, notice: Callable[[str], None] | None = None
    ) -> dict[Key, Row]:
        """Return the rows that an interrupted call of the same cells has played.

        Args:
            width: the batch size that laws will be made with.
            notice: told how many they are, if there are any.
        """
        start = self._start()
        if start is None:
            return {}
        wanted = {(cell.method, cell.id) for cell in self._cells}
        rows = {(row.method, row.cell): row for row in read_rows(self._folder, start)}
        found = {key: row for key, row in rows.items() if key in wanted and not row.error}
        now = {each.method: each.now for each in weights.compare(self._cells, found, width)}
        kept = {k: r for k, r in found.items() if not _other(r.digest, now.get(k[0], ""))}
        if kept and notice is not None:
            notice(
                f"going on with an interrupted --again: {len(kept):,} cells have been played "
                f"again; remove {self._path} to play all of them"
            )
        return kept

    def _start(self) -> int | None:
        """Return where an interrupted call began, if rows have only been appended since."""
        start = _read(self._path).get(self._name)
        if not start:
            return start
        try:
            with (self._folder / FILE).open("rb") as rows:
                rows.seek(start - 1)
                return start if rows.read(1) == b"\n" else None
        except OSError:
            return None

    def begin(self) -> None:
        """Write down where this call begins, unless it goes on with an interrupted one."""
        if self._start() is None:
            size = (self._folder / FILE).stat().st_size
            _write(self._path, {**_read(self._path), self._name: size})

    def end(self) -> None:
        """Forget this call: it has come to its end."""
        left = {name: start for name, start in _read(self._path).items() if name != self._name}
        if left:
            _write(self._path, left)
        else:
            self._path.unlink(missing_ok=True)


def _other(digest: str, now: str) -> bool:
    """Whether a row is known to be of other weights than its law has now."""
    return bool(digest and now and digest != now)


def _read(path: Path) -> dict[str, int]:
    """Return where calls began; a file that is none of ours says nothing."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return {}
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): max(0, int(start)) for name, start in found.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _write(path: Path, places: dict[str, int]) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text(json.dumps(places), encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        raise ConfigError(
            f"cannot write to {path.parent} ({error.strerror}); choose another --out"
        ) from None
