"""The corpus on disk: gzipped JSON-line shards and one manifest with their hashes.

    store = Store(Path("corpus")); store.write("decisions", "train", rows)

Shards are named by content and renamed into place when they are complete; then the manifest is
replaced atomically. A kill at any moment, or a full disk, leaves the corpus as it was before.
Everything that is read is validated: hashes, lines, views and decisions.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from waggle.core.admit import violations
from waggle.core.canon import check_view, decode_view
from waggle.core.errors import ContractError, WaggleError
from waggle.core.schema import Decision, View

FORMAT = 1
SHARD_ROWS = 4096
MAX_SHARD = 512 * 1024 * 1024
"""Maximum decompressed bytes of one shard; a larger one is refused before it is parsed."""
SPLITS = ("train", "validation", "test")
MANIFEST = "manifest.json"
_BROKEN = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ContractError)


class CorpusError(WaggleError):
    """Raised when a corpus is missing, truncated, of another format or invalid."""


class Example(msgspec.Struct, frozen=True, omit_defaults=True):
    """One view of the decision corpus, with its label if it has one."""

    key: str
    """Identifies the example; seeds of its orbit transforms derive from it."""
    family: str
    source: str
    """`synthetic`, `native`, or the kind of a view of a made-up task."""
    view: msgspec.Raw
    """Canonical JSON of the view, contract included."""
    situation: str | None = None
    bundle: int | None = None
    decision: Decision | None = None
    teacher: str | None = None

    def read(self) -> View:
        """Return the view."""
        return decode_view(bytes(self.view))


class Transition(msgspec.Struct, frozen=True, omit_defaults=True):
    """Two consecutive views of one node, with the admitted decision between them."""

    key: str
    family: str
    view: msgspec.Raw
    decision: Decision
    next: msgspec.Raw
    events: tuple[str, ...] = ()
    """Why it is eventful: conflict, challenge, commitment, reopening, expiry; empty if ordinary."""


Row = TypeVar("Row", Example, Transition)


class Shard(msgspec.Struct, frozen=True):
    """One file of the corpus."""

    file: str
    rows: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """The contents of a corpus: shards per part and split, and the settings of each part."""

    format: int = FORMAT
    parts: Mapping[str, Mapping[str, tuple[Shard, ...]]] = {}
    settings: Mapping[str, Mapping[str, Any]] = {}


class Store:
    """One corpus folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def manifest(self) -> Manifest:
        """Return the manifest.

        Raises:
            CorpusError: if it is missing or cannot be read.
        """
        try:
            data = (self.path / MANIFEST).read_bytes()
            found = msgspec.json.decode(data, type=Manifest)
        except FileNotFoundError:
            raise CorpusError(
                f"{self.path} holds no corpus; make one with `waggle corpus build {self.path}`"
            ) from None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            reason = str(error).splitlines()[0]
            raise CorpusError(f"cannot read {self.path / MANIFEST} ({reason}); rebuild") from None
        if found.format != FORMAT:
            raise CorpusError(
                f"{self.path} has corpus format {found.format}, not {FORMAT}; rebuild"
            )
        return found

    def exists(self) -> bool:
        """Return whether the folder holds a corpus."""
        return (self.path / MANIFEST).exists()

    def write(
        self, part: str, rows: Mapping[str, Iterable[Row]], settings: Mapping[str, Any]
    ) -> Manifest:
        """Write all splits of a part and add them to the manifest, or change nothing.

        If the views change, the decisions on the previous views are removed.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            shards = {split: self._shards(part, split, some) for split, some in rows.items()}
            old = self.manifest() if self.exists() else Manifest()
            stale = part == "views" and old.parts.get(part) not in (None, shards)
            parts, said = (
                {name: some for name, some in each.items() if not (stale and name == "decisions")}
                for each in (old.parts, old.settings)
            )
            new = Manifest(FORMAT, {**parts, part: shards}, {**said, part: dict(settings)})
            _replace(self.path / MANIFEST, msgspec.json.format(msgspec.json.encode(new)))
        except OSError as error:
            raise CorpusError(
                f"cannot write the corpus in {self.path} ({error.strerror or error}); "
                "free some space or choose another folder, then run it again"
            ) from None
        self._sweep(new)
        return new

    def _shards(self, part: str, split: str, rows: Iterable[Row]) -> tuple[Shard, ...]:
        shards: list[Shard] = []
        stream = iter(rows)
        while chunk := list(islice(stream, SHARD_ROWS)):
            data = _packed(chunk)
            digest = hashlib.sha256(data).hexdigest()
            name = f"{part}-{split}-{len(shards):03d}-{digest[:8]}.jsonl.gz"
            _replace(self.path / name, data)
            shards.append(Shard(name, len(chunk), digest))
        return tuple(shards)

    def _sweep(self, manifest: Manifest) -> None:
        """Remove shards that the manifest does not list, and incomplete files after a kill."""
        kept = {s.file for part in manifest.parts.values() for some in part.values() for s in some}
        for path in self.path.glob("*.jsonl.gz*"):
            if path.name not in kept:
                path.unlink(missing_ok=True)

    def splits(self, part: str) -> Mapping[str, tuple[Shard, ...]]:
        """Return the shards of a part by split.

        Raises:
            CorpusError: if the part is missing; the message names the command that makes it.
        """
        found = self.manifest().parts.get(part)
        if not found:
            raise CorpusError(f"{self.path} has no {part}; run `{self._maker(part)}`")
        return found

    def _maker(self, part: str) -> str:
        command = {"views": "build", "decisions": "label"}.get(part, part)
        return f"waggle corpus {command} {self.path}"

    def examples(self, part: str, split: str) -> Iterator[Example]:
        """Read a split of `views` or `decisions`, checking every record."""
        return self._rows(part, split, Example, _check_example)

    def transitions(self, split: str) -> Iterator[Transition]:
        """Read a split of `transitions`, checking every record."""
        return self._rows("transitions", split, Transition, _check_transition)

    def _rows(
        self, part: str, split: str, kind: type[Row], check: Callable[[Row], str]
    ) -> Iterator[Row]:
        shards = self.splits(part)
        if not shards.get(split):
            there = ", ".join(name for name, some in shards.items() if some) or "none"
            raise CorpusError(
                f"{self.path} has no {split!r} split of {part} (there: {there}); "
                f"run `{self._maker(part)}` again"
            )
        decoder = msgspec.json.Decoder(kind)
        for shard in shards[split]:
            for number, line in enumerate(self._lines(shard), 1):
                where = f"{self.path / shard.file}: line {number}"
                try:
                    row = decoder.decode(line)
                    wrong = check(row)
                except _BROKEN as error:
                    wrong = str(error).splitlines()[0][:160]
                if wrong:
                    raise CorpusError(f"{where} is no valid record ({wrong}); rebuild the corpus")
                yield row

    def _lines(self, shard: Shard) -> list[bytes]:
        path = self.path / shard.file
        try:
            data = path.read_bytes()
        except OSError as error:
            raise CorpusError(
                f"cannot read {path} ({error.strerror}); rebuild the corpus"
            ) from None
        if hashlib.sha256(data).hexdigest() != shard.sha256:
            raise CorpusError(f"{path} is not the file the manifest names; rebuild the corpus")
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
                text = file.read(MAX_SHARD + 1)
        except (OSError, EOFError, zlib.error):
            raise CorpusError(f"{path} is not gzip; rebuild the corpus") from None
        lines = text.splitlines()
        if len(text) > MAX_SHARD or len(lines) != shard.rows:
            raise CorpusError(f"{path} has not the {shard.rows} rows of the manifest; rebuild")
        return lines


def _check_example(row: Example) -> str:
    view = row.read()
    check_view(view, bytes(row.view))
    return "" if row.decision is None else ", ".join(violations(view, row.decision))


def _check_transition(row: Transition) -> str:
    view = decode_view(bytes(row.view))
    check_view(view)
    check_view(decode_view(bytes(row.next)))
    return ", ".join(violations(view, row.decision))


def _packed(rows: list[Row]) -> bytes:
    buffer = io.BytesIO()
    # mtime 0 and no name: the same rows give the same bytes.
    with gzip.GzipFile("", "wb", compresslevel=6, fileobj=buffer, mtime=0) as file:
        for row in rows:
            file.write(msgspec.json.encode(row) + b"\n")
    return buffer.getvalue()


def _replace(path: Path, data: bytes) -> None:
    """Write a file under a temporary name, sync it to disk, and rename it."""
    partial = path.with_name(path.name + ".partial")
    try:
        with open(partial, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
