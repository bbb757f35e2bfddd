"""Teachers: the free `expert` or any OpenAI-compatible endpoint (`chat`), one view per request.

Only records that parse and are admissible on their view enter the corpus ("Only canonical JSON
records that pass batch-level schema validation ..."); the others are counted and requested again
when the labelling is resumed. Answers are saved as they arrive, so that no call is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from hashlib import sha256
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
from waggle.process_pool import Run, mapped

TEMPERATURE = 0.2
"""Sampling temperature of a chat teacher."""
BATCH = 64
"""Views per call of the teacher's law."""


class LabelReport(NamedTuple):
    """The counts of a labelling."""

    kept: int
    refused: int
    """Answers that were not admissible records; their views are left out."""


def make_teacher(name: str, options: Mapping[str, Any]) -> Law:
    """Return the law that labels views; a chat teacher samples at temperature 0.2 by default."""
    if name != "chat":
        return plugins.get_law(name, **options)
    return plugins.get_law("chat", **{"temperature": TEMPERATURE, **options})


def label(
    store: Store, teacher: Law, *, progress: Progress = quiet, fresh: bool = False,
    workers: int = 1, again: Callable[[], Law] | None = None,
) -> LabelReport:  # fmt: skip
    """Label every view of a corpus and write the part `decisions`.

    Args:
        store: a corpus with the part `views`.
        teacher: any law; it sees exactly one view per request.
        progress: called with the progress.
        fresh: discard saved answers and request them again.
        workers: processes that share the work; the labels do not depend on their number.
        again: creates the teacher in a worker process; by default it is created by its name.
    """
    name = teacher.name
    kept = _Answers(store.path / f"answers-{name}.jsonl", fresh)
    rows: dict[str, list[Example]] = {}
    refused = 0
    make = again or partial(make_teacher, name, {})
    with mapped(workers, make if workers > 1 else lambda: teacher) as run:
        for split in store.splits("views"):
            views = list(store.examples("views", split))
            decisions = _decisions(views, run, kept, partial(progress, f"label {split}"))
            rows[split] = [
                msgspec.structs.replace(example, decision=decision, teacher=example.teacher or name)
                for example, decision in zip(views, decisions, strict=True)
                if decision is not None
            ]
            refused += len(views) - len(rows[split])
            if views and not rows[split]:
                raise CorpusError(
                    f"teacher {name!r} gave no admissible record for {split!r}; "
                    "check it with `waggle check law`, or label with the expert"
                )
    store.write("decisions", rows, {"teacher": name, "refused": refused})
    if name == "expert":  # the expert is free, and the corpus holds its answers
        kept.forget()
    return LabelReport(sum(map(len, rows.values())), refused)


def _decisions(
    views: list[Example], run: Run, kept: _Answers, tell: Callable[[int, int], None]
) -> Iterator[Decision | None]:
    """Yield the teacher's decision on every view, calling it only if no answer is saved."""
    batches = [views[start : start + BATCH] for start in range(0, len(views), BATCH)]
    known = [[kept.get(example) for example in batch] for batch in batches]
    missing = [
        [example for example, decision in zip(batch, found, strict=True) if decision is None]
        for batch, found in zip(batches, known, strict=True)
    ]
    done = 0
    for found, asked, answers in zip(known, missing, run(_answers, missing), strict=True):
        kept.add(asked, answers)
        new = iter(answers)
        yield from (next(new) if decision is None else decision for decision in found)
        done += len(found)
        tell(done, len(views))


def _answers(teacher: Law, batch: list[Example]) -> list[Decision | None]:
    """Return the teacher's decision on each view, or None if it is not admissible."""
    if not batch:
        return []
    decodes = teacher.decide([Request(example.read()) for example in batch])
    return [
        _admissible(example, _decided(decode))
        for example, decode in zip(batch, decodes, strict=True)
    ]


def _decided(decode: Decode) -> Decision | None:
    if decode.usage.failures:
        return None
    return decode.output if isinstance(decode.output, Decision) else parse(decode.output).decision


def _admissible(example: Example, decision: Decision | None) -> Decision | None:
    if decision is None or violations(example.read(), decision):
        return None
    return decision


def _view_of(example: Example) -> str:
    """Return a short digest of the view of an example."""
    return sha256(bytes(example.view)).hexdigest()[:16]


class _Answers:
    """Answers saved beside the corpus while it is being labelled; truncated lines are ignored.

    A line has the digest of its view, as another corpus in the same folder may have another view
    with that key. Lines of earlier versions have only the key, and count for any view with it.
    """

    def __init__(self, path: Path, fresh: bool) -> None:
        self._path = path
        self._known: dict[tuple[str, str], Decision] = {}
        if fresh:
            self.forget()
        for line in path.read_bytes().splitlines() if path.exists() else ():
            named, _, data = line.rpartition(b"\t")
            key, _, view = named.partition(b"\t")
            try:
                self._known[key.decode(), view.decode()] = to_decision(data)
            except (ContractError, UnicodeDecodeError):
                continue

    def get(self, example: Example) -> Decision | None:
        """Return the label that a view was made with, or the saved answer, if admissible."""
        own = self._known.get((example.key, _view_of(example)))
        kept = own or self._known.get((example.key, ""))
        return _admissible(example, example.decision or kept)

    def add(self, asked: list[Example], answers: list[Decision | None]) -> None:
        """Append new answers in one write."""
        pairs = zip(asked, answers, strict=True)
        new = [(e, decision) for e, decision in pairs if decision is not None]
        if not new:
            return
        # The line break comes first: the previous line may be truncated.
        lines = [
            f"\n{e.key}\t{_view_of(e)}\t".encode() + encode_decision(decision)
            for e, decision in new
        ]
        try:
            with open(self._path, "ab") as file:
                file.write(b"".join(lines))
        except OSError as error:
            raise CorpusError(
                f"cannot keep answers in {self._path} ({error.strerror}); free some space, "
                "then label again: kept answers are not asked for twice"
            ) from None

    def forget(self) -> None:
        """Remove the saved answers."""
        self._path.unlink(missing_ok=True)
