"""The token corpus of stage one: harvested views, labelled and tokenised by worker processes.

    FOLDER/ORDER/manifest.json                   settings, tokenizer, rows of every split
    FOLDER/ORDER/SPLIT.safetensors               ids (uint16, sequences end to end) and lengths
    FOLDER/.parts-HASH/SPLIT-00017.safetensors   several consecutive jobs, until all are complete

A sequence is the whole chat of one call and its answer; `prompts` gives the start of the answer.
Episodes are played in shuffled order, whichever order is written: the expert compares neither names
nor positions, so its record on a canonical view is its record on the shuffled one, renamed. An
interrupted harvest resumes with the missing parts. Each prompt is kept once, or each orbit with
`as_seen`, and validation leaves out those of the training split. Invariant: the same settings give
the same arrays, whatever the number of workers and however often the harvest was interrupted.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from waggle.core import orbit
from waggle.core.canon import encode_view
from waggle.core.order import Order, canonical
from waggle.core.seeds import mix
from waggle.corpus import harvest
from waggle.corpus.harvest import Job, Pair
from waggle.corpus.settings import HarvestSettings
from waggle.corpus.store import CorpusError
from waggle.process_pool import process_pool
from waggle.scd.data.arrays import Rows, damaged, load, save, stack, unlabelled
from waggle.scd.data.tokenize import ChatEncoder, tokenizer_digest
from waggle.scd.files import new_folder, write_file

Progress = Callable[[str, int, int], None]
"""Callback with the name of the work, the number of parts done, and the number of parts."""
MANIFEST = "manifest.json"
SPLITS = ("train", "validation")
PART_VIEWS = 4_000
"""Approximate number of planned views per part: some seconds of one process."""
BUNDLE_VIEWS = 200
"""Approximate number of views of a job that plays no episode."""


class Part(NamedTuple):
    """The results of several jobs: sequences, and the hash of each prompt, or of its orbit."""

    rows: Rows
    hashes: NDArray[np.uint64]


class _Harvest(NamedTuple):
    """The specification of a harvest."""

    settings: HarvestSettings
    tokenizer: Any
    order: Order
    longest: int
    parts: Path
    """Folder for the parts until all are complete."""


def identity(settings: HarvestSettings, tokenizer: Any, order: Order, longest: int) -> Any:
    """Return the settings that determine the tokens."""
    return {
        "settings": settings.model_dump(mode="json"), "order": order, "longest": longest,
        "tokenizer": tokenizer_digest(tokenizer),
    }  # fmt: skip


def token_corpus(
    folder: Path, settings: HarvestSettings, tokenizer: Any, order: Order, *, longest: int,
    workers: int = 1, progress: Progress = lambda _what, _done, _total: None,
) -> dict[str, Rows]:  # fmt: skip
    """Return the token corpus of a folder in an order; harvest it first if it is missing.

    Raises:
        CorpusError: if the folder holds another token corpus, or a damaged one.
    """
    where, asked = folder / order, identity(settings, tokenizer, order, longest)
    if not (where / MANIFEST).exists():
        if len(tokenizer) > 2**16:
            raise CorpusError(
                "tokens are kept as 16-bit ids; train this backbone without [harvest]"
            )
        name = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:12]
        wanted = _Harvest(settings, tokenizer, order, longest, folder / f".parts-{name}")
        splits = {split: _split_jobs(harvest.plan(settings, split)) for split in SPLITS}
        _write(where, _join_splits(_harvest_parts(wanted, splits, workers, progress)), asked)
        shutil.rmtree(wanted.parts, ignore_errors=True)
    return read(where, asked)


def _split_jobs(jobs: Sequence[Job]) -> list[Sequence[Job]]:
    """Split jobs into parts of about the same work."""
    parts: list[Sequence[Job]] = []
    first = planned = 0
    for number, job in enumerate(jobs):
        planned += _views(job)
        if planned >= PART_VIEWS or number + 1 == len(jobs):
            parts.append(jobs[first : number + 1])
            first, planned = number + 1, 0
    return parts


def _views(job: Job) -> int:
    return job.case.n * (job.case.rounds or 10) if job.law else BUNDLE_VIEWS


def _harvest_parts(
    wanted: _Harvest, splits: Mapping[str, list[Sequence[Job]]], workers: int, progress: Progress
) -> dict[str, list[Path]]:
    """Make the missing parts; return the files of each split, in order."""
    files: dict[str, list[Path]] = {}
    missing: list[tuple[Sequence[Job], Path]] = []
    for split, parts in splits.items():
        files[split] = [wanted.parts / f"{split}-{i:05d}.safetensors" for i in range(len(parts))]
        missing += [(p, f) for p, f in zip(parts, files[split], strict=True) if not f.exists()]
    total = sum(map(len, files.values()))
    for done, _ in enumerate(_make_missing(wanted, missing, workers), total - len(missing) + 1):
        progress("harvest", done, total)
    return files


def _make_missing(
    wanted: _Harvest, missing: list[tuple[Sequence[Job], Path]], workers: int
) -> Iterator[Path]:
    if workers <= 1 or len(missing) <= 1:
        _open(wanted)
        for jobs, path in missing:
            yield _make_part(jobs, path)
        return
    # Long parts first, so that the processes finish at about the same time.
    missing = sorted(missing, key=lambda each: -sum(map(_views, each[0])))
    with process_pool(workers, _open, wanted) as pool:
        for part in [pool.submit(_make_part, jobs, path) for jobs, path in missing]:
            yield part.result()


_STATE: dict[str, Any] = {}
"""The encoder and harvest of this worker process."""


def _open(wanted: _Harvest) -> None:
    _STATE.update(encoder=ChatEncoder(wanted.tokenizer), wanted=wanted)


def _make_part(jobs: Sequence[Job], path: Path) -> Path:
    """Run several jobs and write their results to one file."""
    from safetensors.numpy import save as packed

    wanted: _Harvest = _STATE["wanted"]
    parts = []
    for job in jobs:
        pairs, orbits = harvest.gather(job, wanted.settings, "shuffled"), None
        if wanted.settings.as_seen and wanted.order == "shuffled":
            orbits = [encode_view(canonical(view)[0]) for view, _ in pairs]
        else:
            pairs = _in_order(pairs, wanted.order, job.salt)
        parts.append(tokenised(_STATE["encoder"], pairs, wanted.longest, orbits))
    hashes = np.concatenate([part.hashes for part in parts])
    write_file(path, packed({**stack([part.rows for part in parts]).columns(), "hashes": hashes}))
    return path


def _in_order(pairs: Sequence[Pair], order: Order, salt: int) -> list[Pair]:
    """Return views in an order; in shuffled order every other view gets fresh names and row order.

    Synthetic views have consecutive names, played ones those of the runtime. A law must handle
    both, and others.
    """
    shown = []
    for i, (view, decision) in enumerate(pairs):
        if order == "canonical":
            seen, naming = canonical(view)
            shown.append((seen, naming.decision(decision)))
        elif i % 2:
            g = orbit.sample(view, mix(salt, i))
            shown.append((g.view(view), g.decision(decision)))
        else:
            shown.append((view, decision))
    return shown


def tokenised(
    encoder: ChatEncoder, pairs: Sequence[Pair], longest: int, orbits: Sequence[bytes] | None = None
) -> Part:
    """Tokenise pairs, each prompt once; sequences longer than `longest` are left out.

    `orbits` gives, for each pair, a text that all views of its orbit share; each orbit is then
    tokenised once.
    """
    unique: dict[int, tuple[list[int], Pair]] = {}
    prompts = encoder.prompts([view for view, _ in pairs])
    named = orbits or [np.array(prompt, np.uint32).tobytes() for prompt in prompts]
    for name, prompt, pair in zip(named, prompts, pairs, strict=True):
        hashed = hashlib.blake2b(name, digest_size=8).digest()
        unique.setdefault(int.from_bytes(hashed, "big"), (prompt, pair))
    answers = encoder.answers([decision for _, (_, decision) in unique.values()])
    kept = [
        (key, prompt, answer)
        for (key, (prompt, _)), answer in zip(unique.items(), answers, strict=True)
        if len(prompt) + len(answer) <= longest
    ]
    rows = unlabelled(
        np.array([token for _, p, a in kept for token in (*p, *a)], np.uint16),
        np.array([len(p) + len(a) for _, p, a in kept], np.int32),
        np.array([len(p) for _, p, _ in kept], np.int32),
    )
    return Part(rows, np.array([key for key, _, _ in kept], np.uint64))


def _join_splits(files: Mapping[str, Sequence[Path]]) -> dict[str, Rows]:
    """Join the parts of every split; prompts that occurred before are left out."""
    made: dict[str, Rows] = {}
    seen: NDArray[np.uint64] = np.zeros(0, np.uint64)
    for split, paths in files.items():
        parts = [_read_part(path) for path in paths]
        hashes = np.concatenate([part.hashes for part in parts])
        keep = np.zeros(len(hashes), bool)
        keep[np.unique(hashes, return_index=True)[1]] = True
        keep &= ~np.isin(hashes, seen)
        rows, seen = stack([part.rows for part in parts]), hashes[keep]
        ids = rows.ids[np.repeat(keep, rows.lengths)]
        made[split] = unlabelled(ids, rows.lengths[keep], rows.prompts[keep])
    if not all(len(rows) for rows in made.values()):
        raise CorpusError("the harvest is empty; raise `native` or `synthetic` in [harvest]")
    return made


def _read_part(path: Path) -> Part:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        columns = load_file(str(path))
        hashes = columns.pop("hashes")
        return Part(Rows(**columns), hashes)
    except (OSError, SafetensorError, KeyError, TypeError) as error:
        raise damaged(path, error) from None


def _write(folder: Path, made: Mapping[str, Rows], identity: Mapping[str, Any]) -> None:
    with new_folder(folder) as partial:
        shards = {}
        for split, rows in made.items():
            path = partial / f"{split}.safetensors"
            save(path, rows)
            shards[split] = [{"file": path.name, "rows": len(rows)}]
        text = json.dumps({"identity": identity, "shards": shards}, indent=1)
        (partial / MANIFEST).write_text(text, encoding="utf-8")


def read(folder: Path, identity: Mapping[str, Any]) -> dict[str, Rows]:
    """Read a token corpus.

    Raises:
        CorpusError: if it is damaged, or was made with other settings.
    """
    try:
        made = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["identity"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(folder, error) from None
    if made != json.loads(json.dumps(identity)):
        raise CorpusError(f"{folder} holds tokens of other settings; delete it or change --out")
    return {split: load(folder / f"{split}.safetensors") for split in SPLITS}
