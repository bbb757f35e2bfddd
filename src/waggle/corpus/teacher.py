"""Teachers: the free `expert` and any OpenAI-compatible endpoint (`chat`), one view at a time.

Only records that parse and are admissible on their view enter the corpus ("Only canonical JSON
records that pass batch-level schema validation ..."); the others are counted and asked again when
the labelling is resumed. Answers of `chat` are kept as they arrive, so that no call is repeated.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

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
from waggle.crew import crew

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
    store: Store, teacher: Law, *, progress: Progress = quiet, fresh: bool = False,
    workers: int = 1, again: Callable[[], Law] | None = None,
) -> Labelled:  # fmt: skip
    """Label every view of a corpus and write the part `decisions`.

    Args:
        store: a corpus with the part `views`.
        teacher: any law; it sees exactly one view per request.
        progress: told how far it is.
        fresh: ask again for what the kept answers already hold.
        workers: processes that share the work; the labels are the same whatever their number.
        again: makes the teacher anew in a worker process; by default it is made by its name.
    """
    splits = store.splits("views")
    kept = _Answers(store.path / f"answers-{teacher.name}.jsonl")
    if fresh:
        kept.forget()
    rows: dict[str, list[Example]] = {}
    refused = 0
    with asking(teacher, workers, again or partial(make_teacher, teacher.name, {})) as ask:
        for split in splits:
            views = list(store.examples("views", split))
            rows[split] = list(_labelled(views, teacher.name, ask, kept, split, progress))
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


Ask: TypeAlias = Callable[[Iterable[list[Example]]], Iterator[list[Decision | None]]]
"""Asks a teacher about batches of views; the answers come in the order of the batches."""


@contextmanager
def asking(teacher: Law, workers: int, again: Callable[[], Law]) -> Iterator[Ask]:
    """Yield what asks the teacher: here, or in processes that each make one of their own."""
    if workers <= 1:
        yield partial(map, partial(_answers, teacher))
        return
    with crew(workers, _open, again) as pool:
        yield partial(pool.map, _answered)


_TEACHER: list[Law] = []
"""The teacher of a worker process."""


def _open(again: Callable[[], Law]) -> None:
    _TEACHER[:] = [again()]


def _answered(batch: list[Example]) -> list[Decision | None]:
    return _answers(_TEACHER[0], batch)


def _answers(teacher: Law, batch: list[Example]) -> list[Decision | None]:
    """Return the teacher's decision on each view, or None where it is not admissible."""
    if not batch:
        return []
    decodes = teacher.decide([Request(example.read()) for example in batch])
    return [
        _admissible(example, _decided(decode))
        for example, decode in zip(batch, decodes, strict=True)
    ]


def _labelled(
    views: list[Example], name: str, ask: Ask, kept: _Answers, split: str, progress: Progress
) -> Iterator[Example]:
    """Yield the views with an admissible decision, asking only where none is kept."""
    batches = [views[start : start + BATCH] for start in range(0, len(views), BATCH)]
    known = [[_admissible(e, kept.get(e.key)) for e in batch] for batch in batches]
    missing = [
        [example for example, decision in zip(batch, found, strict=True) if decision is None]
        for batch, found in zip(batches, known, strict=True)
    ]
    done = 0
    for batch, found, asked, answers in zip(batches, known, missing, ask(missing), strict=True):
        for example, decision in zip(asked, answers, strict=True):
            kept.put(example.key, decision)
        if asked:
            kept.flush()
        told = iter(answers)
        for example, decision in zip(batch, found, strict=True):
            final = next(told) if decision is None else decision
            if final is not None:
                yield msgspec.structs.replace(example, decision=final, teacher=name)
        done += len(batch)
        progress(f"label {split}", done, len(views))


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
