"""The token corpus of stage one: harvested views, labelled and tokenised by worker processes.

    FOLDER/ORDER/manifest.json               settings, tokenizer, rows and hash of every shard
    FOLDER/ORDER/SPLIT-000.safetensors       ids (uint16, all sequences in a row), lengths, prompts
    FOLDER/.parts-HASH/SPLIT-00017.safetensors   some consecutive jobs, until all are there

A sequence is the whole chat of one call and the answer to it; `prompts` says where the answer
begins. Episodes are played once and their views written in every order asked for: the expert
compares neither names nor places, so its record on a canonical view is its record on the shuffled
one, renamed. A harvest that was killed goes on with the parts that are missing. A prompt counts
once, and one of the training split is left out of validation. Invariant: the same settings give the
same arrays, whatever the number of workers and however often the harvest was interrupted.
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
from waggle.core.order import Order, canonical
from waggle.core.seeds import mix
from waggle.corpus import harvest
from waggle.corpus.harvest import Job, Pair
from waggle.corpus.settings import HarvestSettings
from waggle.corpus.store import CorpusError
from waggle.crew import crew
from waggle.scd.data.arrays import Rows, damaged, stack, unlabelled
from waggle.scd.data.tokenize import ChatEncoder, tokenizer_digest
from waggle.scd.files import new_folder, write_file

Progress = Callable[[str, int, int], None]
"""Called with what is made, how many parts are done, and how many there are."""
MANIFEST = "manifest.json"
SPLITS = ("train", "validation")
SHARD_ROWS = 65_536
PART_VIEWS = 4_000
"""Planned views of a part, about: some seconds of one process."""
BUNDLE_VIEWS = 200
"""Views of a job that plays no episode, about."""


class Part(NamedTuple):
    """What some jobs give: sequences, and the hash of each prompt."""

    rows: Rows
    hashes: NDArray[np.uint64]


class _Harvest(NamedTuple):
    """What a harvest is to give."""

    settings: HarvestSettings
    tokenizer: Any
    orders: tuple[Order, ...]
    longest: int
    parts: Path
    """Where parts are kept until all are there."""


def identity(settings: HarvestSettings, tokenizer: Any, order: Order, longest: int) -> Any:
    """Return what fixes the tokens of one order, whichever others are made with it."""
    return {
        "settings": settings.model_dump(mode="json", exclude={"orders"}), "order": order,
        "longest": longest, "tokenizer": tokenizer_digest(tokenizer),
    }  # fmt: skip


def token_corpus(
    folder: Path, settings: HarvestSettings, tokenizer: Any, order: Order, *, longest: int,
    workers: int = 1, progress: Progress = lambda _what, _done, _total: None,
) -> dict[str, Rows]:  # fmt: skip
    """Return the token corpus of a folder in an order; harvest it first if it is not there.

    A harvest also writes the other orders of its settings, from the same episodes.

    Raises:
        CorpusError: if the folder holds another token corpus, or a damaged one.
    """
    if (folder / order / MANIFEST).exists():
        return read(folder / order, identity(settings, tokenizer, order, longest))
    if len(tokenizer) > 2**16:
        raise CorpusError("token corpora hold 16-bit ids; train this backbone without [harvest]")
    orders = (order, *(o for o in settings.orders if o != order))
    orders = tuple(o for o in orders if not (folder / o / MANIFEST).exists())
    names = {o: identity(settings, tokenizer, o, longest) for o in orders}
    name = hashlib.sha256(json.dumps(names, sort_keys=True).encode()).hexdigest()[:12]
    wanted = _Harvest(settings, tokenizer, orders, longest, folder / f".parts-{name}")
    splits = {split: _cut(harvest.plan(settings, split)) for split in SPLITS}
    files = _harvested(wanted, splits, workers, progress)
    for each in reversed(orders):
        _write(folder / each, _joined(files, each), names[each])
    shutil.rmtree(wanted.parts, ignore_errors=True)
    return read(folder / order)


def existing_tokens(folder: Path, tokenizer: Any, order: Order) -> dict[str, Rows]:
    """Return a token corpus that another recipe made, whatever its settings.

    Raises:
        CorpusError: if it is not there, in another order, or of another tokenizer.
    """
    where = folder / order
    if not (where / MANIFEST).exists():
        raise CorpusError(
            f"{folder} holds no tokens in {order} order; harvest them there with "
            f'orders = ["canonical", "shuffled"] in [harvest]'
        )
    if _manifest(where)["identity"].get("tokenizer") != tokenizer_digest(tokenizer):
        raise CorpusError(f"{where} is of another tokenizer; harvest with this backbone")
    return read(where)


def digest(folder: Path) -> str:
    """Name a token corpus by its manifest, which holds the hashes of its shards."""
    text = json.dumps(_manifest(folder), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _cut(jobs: Sequence[Job]) -> list[Sequence[Job]]:
    """Cut jobs into parts of about the same work."""
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


def _harvested(
    wanted: _Harvest, splits: Mapping[str, list[Sequence[Job]]], workers: int, progress: Progress
) -> dict[str, list[Path]]:
    """Make every part that is not there yet; return the files of each split, in order."""
    files: dict[str, list[Path]] = {}
    missing: list[tuple[Sequence[Job], Path]] = []
    for split, parts in splits.items():
        files[split] = [wanted.parts / f"{split}-{i:05d}.safetensors" for i in range(len(parts))]
        missing += [(p, f) for p, f in zip(parts, files[split], strict=True) if not f.exists()]
    total = sum(map(len, files.values()))
    for done, _ in enumerate(_made(wanted, missing, workers), total - len(missing) + 1):
        progress("harvest", done, total)
    return files


def _made(
    wanted: _Harvest, missing: list[tuple[Sequence[Job], Path]], workers: int
) -> Iterator[Path]:
    if workers <= 1 or len(missing) <= 1:
        _open(wanted)
        for jobs, path in missing:
            yield _make_part(jobs, path)
        return
    # Long parts first, so that the processes end together.
    missing = sorted(missing, key=lambda each: -sum(map(_views, each[0])))
    with crew(workers, _open, wanted) as pool:
        for made in [pool.submit(_make_part, jobs, path) for jobs, path in missing]:
            yield made.result()


_STATE: dict[str, Any] = {}
"""The encoder and harvest of this worker process."""


def _open(wanted: _Harvest) -> None:
    _STATE.update(encoder=ChatEncoder(wanted.tokenizer), wanted=wanted)


def _make_part(jobs: Sequence[Job], path: Path) -> Path:
    """Do some jobs, write their views in every order and keep them in one file."""
    from safetensors.numpy import save

    wanted: _Harvest = _STATE["wanted"]
    made: dict[Order, list[Part]] = {order: [] for order in wanted.orders}
    for job in jobs:
        pairs = harvest.gather(job, wanted.settings, "shuffled")
        for order in wanted.orders:
            made[order].append(
                tokenised(_STATE["encoder"], _shown(pairs, order, job.salt), wanted.longest)
            )
    columns: dict[str, NDArray[Any]] = {}
    for order, parts in made.items():
        tokens = _columns(stack([part.rows for part in parts]))
        columns |= {f"{order}.{name}": column for name, column in tokens.items()}
        columns[f"{order}.hashes"] = np.concatenate([part.hashes for part in parts])
    write_file(path, save(columns))
    return path


def _shown(pairs: Sequence[Pair], order: Order, salt: int) -> list[Pair]:
    """Show views in an order; in shuffled order every other view gets fresh names and rows.

    Made views are named in a row and played ones by the runtime. A law must know both, and others.
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


def tokenised(encoder: ChatEncoder, pairs: Sequence[Pair], longest: int) -> Part:
    """Tokenise pairs, each prompt once; sequences beyond `longest` are left out."""
    unique: dict[int, tuple[list[int], Pair]] = {}
    for prompt, pair in zip(encoder.prompts([view for view, _ in pairs]), pairs, strict=True):
        hashed = hashlib.blake2b(np.array(prompt, np.uint32).tobytes(), digest_size=8).digest()
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


def _joined(files: Mapping[str, Sequence[Path]], order: Order) -> dict[str, Rows]:
    """Join the parts of every split; a prompt that was there before is left out."""
    made: dict[str, Rows] = {}
    seen: NDArray[np.uint64] = np.zeros(0, np.uint64)
    for split, paths in files.items():
        parts = [_read_part(path, order) for path in paths]
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


def _read_part(path: Path, order: Order) -> Part:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            ids, lengths, prompts, hashes = (
                file.get_tensor(f"{order}.{name}")
                for name in ("ids", "lengths", "prompts", "hashes")
            )
    except (OSError, SafetensorError) as error:
        raise damaged(path, error) from None
    return Part(unlabelled(ids, lengths, prompts), hashes)


def _columns(rows: Rows) -> dict[str, NDArray[Any]]:
    """Return what a token corpus keeps of some sequences."""
    return {
        "ids": rows.ids, "lengths": rows.lengths.astype(np.int32),
        "prompts": rows.prompts.astype(np.int32),
    }  # fmt: skip


def _write(folder: Path, made: Mapping[str, Rows], identity: Mapping[str, Any]) -> None:
    from safetensors.numpy import save_file

    with new_folder(folder) as partial:
        shards: dict[str, list[dict[str, Any]]] = {}
        for split, rows in made.items():
            shards[split] = []
            for number, first in enumerate(range(0, len(rows), SHARD_ROWS)):
                some = rows.take(np.arange(first, min(first + SHARD_ROWS, len(rows))))
                path = partial / f"{split}-{number:03d}.safetensors"
                save_file(_columns(some), str(path))
                hashed = hashlib.sha256(path.read_bytes()).hexdigest()
                shards[split].append({"file": path.name, "rows": len(some), "sha256": hashed})
        text = json.dumps({"identity": identity, "shards": shards}, indent=1)
        (partial / MANIFEST).write_text(text, encoding="utf-8")


def read(folder: Path, identity: Mapping[str, Any] | None = None) -> dict[str, Rows]:
    """Read a token corpus; check its hashes and, if given, its settings.

    Raises:
        CorpusError: if it is damaged, or one of other settings.
    """
    manifest = _manifest(folder)
    if identity is not None and manifest["identity"] != json.loads(json.dumps(identity)):
        raise CorpusError(f"{folder} holds tokens of other settings; delete it or change --out")
    try:
        return {
            split: stack([_shard(folder, shard) for shard in some])
            for split, some in manifest["shards"].items()
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(folder, error) from None


def _manifest(folder: Path) -> Any:
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if not isinstance(found["identity"], dict) or not isinstance(found["shards"], dict):
            raise TypeError("not a manifest")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(folder, error) from None
    return found


def _shard(folder: Path, shard: Mapping[str, Any]) -> Rows:
    from safetensors.numpy import load

    data = (folder / str(shard["file"])).read_bytes()
    if hashlib.sha256(data).hexdigest() != shard["sha256"]:
        raise ValueError(f"{shard['file']} is not the file the manifest names")
    found = unlabelled(**load(data))
    if len(found) != shard["rows"] or int(found.lengths.sum()) != len(found.ids):
        raise ValueError(f"{shard['file']} has not the rows of the manifest")
    return found
