"""Record files: gzipped JSON lines, written atomically and validated when read.

A record is written under a temporary name and renamed when its footer is written; a truncated,
foreign or inconsistent file is refused with a one-line error.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, TypeVar

import msgspec

from waggle.core.errors import RecordError
from waggle.core.record import FORMAT, EpisodeRecord, Footer, Header, RoundRecord

SUFFIX = ".jsonl.gz"
MAX_LINE = 64 << 20
"""Maximum bytes of one decompressed line; a longer one is refused."""
ROOM = 256 << 20
"""Bytes of memory that a record of any size may take."""
GROWTH = 200
"""Additional bytes of memory for every byte of the file; records take about 70."""
_PART = 64
"""Maximum bytes of memory of one value in a line of JSON."""

_CHUNK = 1 << 20
"""Maximum bytes decompressed in one step."""
_SIGNS = b",[{"
"""The bytes before every value of a line of JSON except the first."""

_ROUNDS = "its rounds are not complete and in order"
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Header | RoundRecord | Footer)
Entry = TypeVar("Entry")


class RecordFile:
    """A sink that writes one record file; use it as a context manager."""

    def __init__(self, path: Path, level: int = 1) -> None:
        self.path = path
        self._partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._raw: IO[bytes] = open(self._partial, "wb")  # noqa: SIM115
        except OSError as error:
            raise RecordError(
                f"cannot write records to {path.parent} ({error.strerror}); choose another --out"
            ) from None
        # mtime 0 and no file name: the same episode gives the same bytes.
        self._gzip = gzip.GzipFile("", "wb", compresslevel=level, fileobj=self._raw, mtime=0)
        self._finished = False

    def __enter__(self) -> RecordFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            with self._writing():
                self._gzip.close()
                self._raw.close()
                if self._finished and error is None:
                    os.replace(self._partial, self.path)
        finally:
            with suppress(OSError):
                self._raw.close()
            self._partial.unlink(missing_ok=True)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Turn an OSError of any write, such as a full disk, into a one-line RecordError."""
        try:
            yield
        except OSError as error:
            raise RecordError(
                f"cannot write {self.path} ({error.strerror}); free some space, then run again"
            ) from None

    def _line(self, entry: Header | RoundRecord | Footer) -> None:
        with self._writing():
            self._gzip.write(_encoder.encode(entry) + b"\n")

    def header(self, header: Header) -> None:
        """Start the record."""
        self._line(header)

    def round(self, entry: RoundRecord) -> None:
        """Append one round."""
        self._line(entry)

    def footer(self, footer: Footer) -> None:
        """Finish the record and make it durable."""
        self._line(footer)
        with self._writing():
            self._gzip.flush()
            self._raw.flush()
            os.fsync(self._raw.fileno())
        self._finished = True


def memory_of(line: bytes) -> int:
    """Estimate the memory that a line of JSON will take when it is decoded."""
    return len(line) + _PART * (len(line) - len(line.translate(None, _SIGNS)))


def unfolded(path: Path) -> Iterator[bytes]:
    """Yield the decompressed bytes of a gzip file, in parts of bounded size.

    Raises:
        EOFError: if the file is truncated.
        zlib.error: if it is not gzip, or damaged.
    """
    with open(path, "rb") as file:
        packed, member = file.read(_CHUNK), zlib.decompressobj(31)
        while packed:
            if part := member.decompress(packed, _CHUNK):
                yield part
            packed = member.unconsumed_tail or member.unused_data or file.read(_CHUNK)
            if member.eof:  # another member or zero padding may follow
                if not packed.strip(b"\0"):
                    return
                member = zlib.decompressobj(31)
        raise EOFError


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a gzip file; a truncated or too long last line lacks its newline."""
    held: list[bytes] = []
    size = 0
    for part in unfolded(path):
        whole, end, rest = part.rpartition(b"\n")
        if end:
            first, *more = (b"".join(held) + whole).split(b"\n")
            yield first + b"\n"
            for line in more:
                yield line + b"\n"
            held, size = [], 0
        held.append(rest)
        size += len(rest)
        if size > MAX_LINE:
            break
    if size:
        yield b"".join(held)


def entries(path: Path) -> Iterator[Header | RoundRecord | Footer]:
    """Yield the entries of a record file, one line at a time.

    Raises:
        RecordError: if the file cannot be read or a line is not an entry.
    """
    return entries_as(path, _decoder)


def entries_as(path: Path, decoder: msgspec.json.Decoder[Entry]) -> Iterator[Entry]:
    """Yield the entries of a record file, read by a decoder that may skip fields.

    Raises:
        RecordError: if the file cannot be read or a line is not an entry.
    """
    try:
        room = ROOM + GROWTH * path.stat().st_size
        for number, line in enumerate(_lines(path), 1):
            if len(line) > MAX_LINE or not line.endswith(b"\n"):
                raise RecordError(f"{path}: line {number} is cut or too long; run it again")
            room -= memory_of(line)
            if room < 0:
                raise RecordError(f"{path} unfolds far beyond its size; run the case again")
            yield _entry(path, number, line, decoder)
    except (EOFError, zlib.error):
        raise RecordError(f"{path} is cut or not a gzipped record; run the case again") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise RecordError(f"cannot read {path} ({reason}); name a record file") from None


def _entry(path: Path, number: int, line: bytes, decoder: msgspec.json.Decoder[Entry]) -> Entry:
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = str(error).splitlines()[0][:120]
        raise RecordError(f"{path}: line {number} is no record entry ({reason})") from None


def read(path: Path) -> EpisodeRecord:
    """Read a whole record.

    Raises:
        RecordError: if it is not one header, the rounds in order, and one footer.
    """
    parts: list[Header | RoundRecord | Footer] = []
    for entry in entries(path):
        parts.append(entry)
        if not isinstance(parts[0], Header):
            break  # not a record: do not decompress the rest
        if isinstance(entry, RoundRecord) and entry.round != len(parts) - 2:
            raise RecordError(f"{path}: {_ROUNDS}; run the case again")
    if not parts or not isinstance(parts[0], Header):
        raise RecordError(f"{path} does not start with a record header; name a record file")
    if parts[0].format != FORMAT:
        raise RecordError(
            f"{path} has record format {parts[0].format}, this version reads {FORMAT}; "
            "install the version that wrote it"
        )
    if not isinstance(parts[-1], Footer):
        raise RecordError(f"{path} has no footer: it was cut; run the case again")
    rounds = [p for p in parts[1:-1] if isinstance(p, RoundRecord)]
    if len(rounds) != len(parts) - 2 or parts[-1].rounds != len(rounds):
        raise RecordError(f"{path}: {_ROUNDS}; run the case again")
    return EpisodeRecord(parts[0], tuple(rounds), parts[-1])


def record_name(task: str, n: int, seed: int, law: str) -> str:
    """Return the file name of an episode's record."""
    safe = "".join(c if c.isalnum() or c in "-._" else "-" for c in f"{task}_n{n}_s{seed}_{law}")
    return safe + SUFFIX
