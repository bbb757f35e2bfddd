"""The harvest in parts: worker processes play, label and tokenise; what is finished stays.

    FOLDER/.parts-HASH/00017.safetensors    some consecutive jobs, in every order asked for

A part is a fixed run of jobs and takes its name when it is whole, so a harvest that was killed goes
on with the parts that are missing. Views are played once and written down in several orders: the
expert compares neither names nor places, so its record on a canonical view is its record on the
shuffled one, renamed. Invariant: the same settings give the same parts, whatever the workers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from waggle.core import orbit
from waggle.core.order import Order, canonical
from waggle.core.seeds import mix
from waggle.corpus import harvest
from waggle.corpus.harvest import Job, Pair
from waggle.corpus.settings import HarvestSettings
from waggle.corpus.store import CorpusError
from waggle.crew import crew
from waggle.scd.data.speller import Piece, Speller, Tokens
from waggle.scd.data.tokens import Coder

Tell = Callable[[str, int, int], None]
PART = 4_000
"""Planned views of a part, about: some seconds of one process."""
BUNDLES = 200
"""Views of a job that makes bundles, about."""


class Wanted(NamedTuple):
    """What a harvest is to give."""

    settings: HarvestSettings
    tokenizer: Any
    orders: tuple[Order, ...]
    longest: int
    folder: Path
    """Where parts are kept until all are there."""


def cut(jobs: Sequence[Job]) -> list[Sequence[Job]]:
    """Cut jobs into parts of about the same work."""
    parts: list[Sequence[Job]] = []
    first = planned = 0
    for number, job in enumerate(jobs):
        planned += _views(job)
        if planned >= PART or number + 1 == len(jobs):
            parts.append(jobs[first : number + 1])
            first, planned = number + 1, 0
    return parts


def _views(job: Job) -> int:
    return job.case.n * (job.case.rounds or 10) if job.law else BUNDLES


def reap(
    wanted: Wanted, splits: dict[str, list[Sequence[Job]]], workers: int, tell: Tell
) -> dict[str, list[Path]]:
    """Make every part that is not there yet; return the files of each split, in order."""
    files: dict[str, list[Path]] = {}
    missing: list[tuple[Sequence[Job], Path]] = []
    for split, parts in splits.items():
        files[split] = [wanted.folder / f"{split}-{i:05d}.safetensors" for i in range(len(parts))]
        missing += [(p, f) for p, f in zip(parts, files[split], strict=True) if not f.exists()]
    total = sum(map(len, files.values()))
    try:
        wanted.folder.mkdir(parents=True, exist_ok=True)
        for done, _ in enumerate(_made(wanted, missing, workers), total - len(missing) + 1):
            tell("harvest", done, total)
    except OSError as error:
        raise CorpusError(
            f"cannot write {wanted.folder} ({error.strerror or error}); free some space, then run "
            "the same command again: finished parts are kept"
        ) from None
    return files


def _made(
    wanted: Wanted, missing: list[tuple[Sequence[Job], Path]], workers: int
) -> Iterator[Path]:
    if workers <= 1 or len(missing) <= 1:
        _open(wanted)
        yield from (_work(jobs, path) for jobs, path in missing)
        return
    # Long parts first, so that the processes end together.
    missing = sorted(missing, key=lambda each: -sum(map(_views, each[0])))
    pool: ProcessPoolExecutor
    with crew(workers, _open, wanted) as pool:
        for made in [pool.submit(_work, jobs, path) for jobs, path in missing]:
            yield made.result()


_STATE: dict[str, Any] = {}
"""What a worker process was opened with."""


def _open(wanted: Wanted) -> None:
    _STATE.update(speller=Speller(Coder(wanted.tokenizer)), wanted=wanted)


def _work(jobs: Sequence[Job], path: Path) -> Path:
    """Do some jobs and keep what they give."""
    from safetensors.numpy import save

    wanted: Wanted = _STATE["wanted"]
    pieces: dict[Order, list[Piece]] = {order: [] for order in wanted.orders}
    for job in jobs:
        for order, piece in _gathered(job, wanted).items():
            pieces[order].append(piece)
    arrays: dict[str, Any] = {}
    for order, some in pieces.items():
        tokens = stack([piece.tokens for piece in some])
        arrays |= {f"{order}.{name}": column for name, column in tokens._asdict().items()}
        arrays[f"{order}.hashes"] = np.concatenate([piece.hashes for piece in some])
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_bytes(save(arrays))
    os.replace(partial, path)
    return path


def _gathered(job: Job, wanted: Wanted) -> dict[Order, Piece]:
    """Do one job and write its views down in every order."""
    speller: Speller = _STATE["speller"]
    pairs = harvest.gather(job, wanted.settings, "shuffled")
    return {
        order: speller.spell(_shown(pairs, order, job.salt), wanted.longest)
        for order in wanted.orders
    }


def _shown(pairs: Sequence[Pair], order: Order, salt: int) -> list[Pair]:
    """Show views in an order; of shuffled ones every other has fresh names and rows.

    Made views are named in a row and played ones by the runtime: a law is to know both, and others.
    """
    if order == "shuffled":
        return [_fresh(pair, mix(salt, i)) if i % 2 else pair for i, pair in enumerate(pairs)]
    shown = []
    for view, decision in pairs:
        seen, naming = canonical(view)
        shown.append((seen, naming.decision(decision)))
    return shown


def _fresh(pair: Pair, entropy: int) -> Pair:
    g = orbit.sample(pair[0], entropy)
    return g.view(pair[0]), g.decision(pair[1])


def read_part(path: Path, order: Order) -> Piece:
    """Read one order of a finished part."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            ids, lengths, prompts, hashes = (
                file.get_tensor(f"{order}.{name}") for name in (*Tokens._fields, "hashes")
            )
    except (OSError, SafetensorError) as error:
        reason = str(error).splitlines()[0][:120]
        raise CorpusError(f"{path} is damaged ({reason}); delete it and run again") from None
    return Piece(Tokens(ids, lengths, prompts), hashes)


def stack(parts: Sequence[Tokens]) -> Tokens:
    """Put sequences of several parts end to end."""
    return Tokens(*(np.concatenate(column) for column in zip(*parts, strict=True)))
