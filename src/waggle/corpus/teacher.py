"""Teachers: the free `expert` and any OpenAI-compatible endpoint (`chat`), one view at a time.

Only records that parse and are admissible on their view enter the corpus ("Only canonical JSON
records that pass batch-level schema validation ..."); the others are counted and asked again when
the labelling is resumed. Answers of `chat` are kept as they arrive, so that no call is repeated.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from waggle import plugins
from waggle.core.admit import violations
from waggle.core.canon import encode_decision, to_decision
from waggle.core.decode import parse
from waggle.core.errors import ContractError
from waggle.core.protocols import Decode, Law, Request
from waggle.core.schema import Decision
from waggle.corpus.curriculum import Progress, quiet
from waggle.corpus.store import CorpusError, Example, Store

TEMPERATURE = 0.2
"""Sampling temperature of a chat teacher."""
BATCH = 64
"""Views in one call of the teacher's law."""


class Labelled(NamedTuple):
    """What a labelling came to."""

    kept: int
    refused: int
    """Answers that were no admissible record; their views stay without a label and are left out."""


def make_teacher(name: str, options: Mapping[str, Any]) -> Law:
    """Return the law that labels; a chat teacher samples at temperature 0.2."""
    if name != "chat":
        return plugins.get_law(name, **options)
    return plugins.get_law("chat", **{"temperature": TEMPERATURE, **options})


def label(
    store: Store, teacher: Law, *, progress: Progress = quiet, fresh: bool = False
) -> Labelled:
    """Label every view of a corpus and write the part `decisions`.

    Args:
        store: a corpus with the part `views`.
        teacher: any law; it sees exactly one view per request.
        progress: told how far it is.
        fresh: ask again for what the kept answers already hold.
    """
    splits = store.splits("views")
    kept = _Answers(store.path / f"answers-{teacher.name}.jsonl")
    if fresh:
        kept.forget()
    rows: dict[str, list[Example]] = {}
    refused = 0
    for split in splits:
        views = list(store.examples("views", split))
        rows[split] = list(_labelled(views, teacher, kept, split, progress))
        refused += len(views) - len(rows[split])
        if views and not rows[split]:
            raise CorpusError(
                f"teacher {teacher.name!r} gave no admissible record for {split!r}; "
                "check it with `waggle check law`, or label with the expert"
            )
    settings = {"teacher": teacher.name, "refused": refused}
    store.write("decisions", rows, settings)
    kept.close()
    return Labelled(sum(map(len, rows.values())), refused)


def _labelled(
    views: list[Example], teacher: Law, kept: _Answers, split: str, progress: Progress
) -> Iterator[Example]:
    for start in range(0, len(views), BATCH):
        batch = views[start : start + BATCH]
        for example, decision in zip(batch, _ask(batch, teacher, kept), strict=True):
            if decision is not None:
                yield msgspec.structs.replace(example, decision=decision, teacher=teacher.name)
        progress(f"label {split}", min(start + BATCH, len(views)), len(views))


def _ask(batch: list[Example], teacher: Law, kept: _Answers) -> list[Decision | None]:
    """Return the admissible decision on each view, asking only where none is kept."""
    known = [_admissible(example, kept.get(example.key)) for example in batch]
    missing = [i for i, decision in enumerate(known) if decision is None]
    if not missing:
        return known
    requests = [Request(batch[i].read()) for i in missing]
    for i, decode in zip(missing, teacher.decide(requests), strict=True):
        known[i] = _admissible(batch[i], _decided(decode))
        if known[i] is not None:
            kept.put(batch[i].key, known[i])
    kept.flush()
    return known


def _decided(decode: Decode) -> Decision | None:
    if decode.usage.failures:
        return None
    return decode.output if isinstance(decode.output, Decision) else parse(decode.output).decision


def _admissible(example: Example, decision: Decision | None) -> Decision | None:
    if decision is None or violations(example.read(), decision):
        return None
    return decision


class _Answers:
    """Answers kept beside the corpus while it is being labelled; a cut last line is ignored."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = dict(self._read())
        self._new: list[bytes] = []

    def _read(self) -> Iterable[tuple[str, Decision]]:
        if not self._path.exists():
            return
        for line in self._path.read_bytes().splitlines():
            key, _, data = line.partition(b"\t")
            try:
                yield key.decode(), to_decision(data)
            except (ContractError, UnicodeDecodeError):
                continue

    def get(self, key: str) -> Decision | None:
        return self._known.get(key)

    def put(self, key: str, decision: Decision | None) -> None:
        if decision is not None:
            self._known[key] = decision
            self._new.append(key.encode() + b"\t" + encode_decision(decision) + b"\n")

    def flush(self) -> None:
        """Append the new answers in one write."""
        try:
            with open(self._path, "ab") as file:
                file.write(b"".join(self._new))
        except OSError as error:
            raise CorpusError(
                f"cannot keep answers in {self._path} ({error.strerror}); free some space, "
                "then label again: kept answers are not asked for twice"
            ) from None
        self._new.clear()

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)
        self._known.clear()

    def close(self) -> None:
        """Drop the file once the corpus itself holds the answers of a teacher that is free."""
        if os.path.exists(self._path) and self._path.name == "answers-expert.jsonl":
            self._path.unlink()
