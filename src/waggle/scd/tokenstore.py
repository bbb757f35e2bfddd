"""The part `tokens` of a large corpus: prompts and records as arrays, ready for stage one.

    FOLDER/manifest.json            settings, tokenizer, and rows and hash of every shard
    FOLDER/SPLIT-000.safetensors    ids (uint16, all sequences in a row), lengths, prompts

A sequence is the whole chat of one call and the record that answers it; `prompts` says where the
record begins. In canonical order an orbit image is the same text, so views are tokenised once.
Workers play, label and tokenise; doubles are left out by the hash of the text, and what stands in
training is left out of validation. Invariant: the same settings give the same arrays, whatever the
number of workers; a folder under its final name is complete, and reading checks its hashes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from waggle.core import prompt
from waggle.core.order import Order
from waggle.core.schema import Contract, View
from waggle.corpus import harvest
from waggle.corpus.harvest import Job, Pair
from waggle.corpus.settings import HarvestSettings
from waggle.corpus.store import CorpusError
from waggle.scd.checkpoint import publishing
from waggle.scd.tokens import Coder

MANIFEST = "manifest.json"
SHARD_ROWS = 65_536
SPLITS = ("train", "validation")

Tell = Callable[[str, int, int], None]


class Tokens(NamedTuple):
    """Sequences of one split, end to end."""

    ids: NDArray[np.uint16]
    lengths: NDArray[np.int32]
    prompts: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.lengths)

    def starts(self) -> NDArray[np.int64]:
        """Return where each sequence starts."""
        return np.concatenate(([0], np.cumsum(self.lengths, dtype=np.int64)[:-1]))


class Piece(NamedTuple):
    """What one job gives: sequences and the hashes of their texts."""

    tokens: Tokens
    hashes: NDArray[np.uint64]


class Speller:
    """Writes (view, decision) pairs as token sequences, many at once."""

    def __init__(self, coder: Coder) -> None:
        self._coder = coder
        self._backend: Any = coder.tokenizer.backend_tokenizer
        self._encode = getattr(self._backend, "encode_batch_fast", self._backend.encode_batch)
        self._around: dict[Contract, tuple[str, str]] = {}

    def spell(self, pairs: Sequence[Pair], longest: int) -> Piece:
        """Tokenise pairs, each text once; sequences beyond `longest` are left out."""
        found: dict[int, tuple[str, str]] = {}
        for view, decision in pairs:
            text = self._prompt(view)
            digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
            found.setdefault(
                int.from_bytes(digest, "big"), (text, self._coder.answer_text(decision))
            )
        prompts = self._ids([text for text, _ in found.values()])
        answers = self._ids([text for _, text in found.values()])
        rows = [
            (key, p, a)
            for key, p, a in zip(found, prompts, answers, strict=True)
            if len(p) + len(a) <= longest
        ]
        flat = [token for _, p, a in rows for token in (*p, *a)]
        return Piece(
            Tokens(
                np.array(flat, np.uint16),
                np.array([len(p) + len(a) for _, p, a in rows], np.int32),
                np.array([len(p) for _, p, _ in rows], np.int32),
            ),
            np.array([key for key, _, _ in rows], np.uint64),
        )

    def _ids(self, texts: list[str]) -> list[list[int]]:
        return [found.ids for found in self._encode(texts, add_special_tokens=False)]

    def _prompt(self, view: View) -> str:
        """Return the chat of a view; what stands around its own part is found once a contract."""
        tail = prompt.tail(view)
        known = self._around.get(view.contract)
        if known is None:
            whole = self._coder.prompt_text(view)
            before, found, after = whole.partition(prompt.prefix(view.contract) + tail)
            if not found:
                raise CorpusError("this chat template rewrites prompts; use another backbone")
            known = (before + prompt.prefix(view.contract), after)
            if len(self._around) < 4096:
                self._around[view.contract] = known
        return f"{known[0]}{tail}{known[1]}"


def tokenizer_hash(tokenizer: Any) -> str:
    """Name a tokenizer by what it does."""
    return hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode()).hexdigest()[:16]


def make(
    folder: Path, settings: HarvestSettings, tokenizer: Any, order: Order, *, longest: int,
    workers: int = 1, tell: Tell = lambda _what, _done, _total: None,
) -> dict[str, Tokens]:  # fmt: skip
    """Return the token corpus of a folder, harvesting it first if it is not there.

    Raises:
        CorpusError: if the folder holds another one, or a damaged one.
    """
    identity = {
        "settings": settings.model_dump(mode="json"), "order": order, "longest": longest,
        "tokenizer": tokenizer_hash(tokenizer),
    }  # fmt: skip
    if (folder / MANIFEST).exists():
        return read(folder, identity)
    if len(tokenizer) > 2**16:
        raise CorpusError("token corpora hold 16-bit ids; train this backbone without [harvest]")
    made: dict[str, Tokens] = {}
    seen: NDArray[np.uint64] = np.zeros(0, np.uint64)
    plans = {split: harvest.plan(settings, split) for split in SPLITS}
    # One pool for all splits: starting a process costs as much as some hundred views.
    every = [job for jobs in plans.values() for job in jobs]
    pieces = list(_pieces(every, settings, tokenizer, order, longest, workers, tell))
    for split, jobs in plans.items():
        made[split], seen = joined(pieces[: len(jobs)], seen)
        del pieces[: len(jobs)]
    if not all(len(tokens) for tokens in made.values()):
        raise CorpusError("the harvest is empty; raise `native` or `synthetic` in [harvest]")
    write(folder, made, identity)
    return made


def joined(
    pieces: Sequence[Piece], before: NDArray[np.uint64]
) -> tuple[Tokens, NDArray[np.uint64]]:
    """Put pieces together in their order, dropping doubles and what was there before."""
    hashes = np.concatenate([piece.hashes for piece in pieces])
    _, first = np.unique(hashes, return_index=True)
    keep = np.zeros(len(hashes), bool)
    keep[first] = True
    keep &= ~np.isin(hashes, before)
    lengths = np.concatenate([piece.tokens.lengths for piece in pieces])
    ids = np.concatenate([piece.tokens.ids for piece in pieces])[np.repeat(keep, lengths)]
    prompts = np.concatenate([piece.tokens.prompts for piece in pieces])
    return Tokens(ids, lengths[keep], prompts[keep]), hashes[keep]


def _pieces(
    jobs: Sequence[Job], settings: HarvestSettings, tokenizer: Any, order: Order, longest: int,
    workers: int, tell: Tell,
) -> Iterator[Piece]:  # fmt: skip
    """Do jobs in processes, the long ones first; pieces come back in the order of the jobs."""
    if workers <= 1:
        speller = Speller(Coder(tokenizer))
        for number, job in enumerate(jobs):
            tell("harvest", number + 1, len(jobs))
            yield speller.spell(harvest.gather(job, settings, order), longest)
        return
    size = [-(job.case.n * (job.case.rounds or 10)) for job in jobs]
    queue = sorted(range(len(jobs)), key=size.__getitem__)
    given = (tokenizer, settings, order, longest)
    # Fresh processes: a fork of a process that has used CUDA or threads may hang.
    context = get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=_open, initargs=given) as pool:
        waiting = {number: pool.submit(_work, jobs[number]) for number in queue}
        for number in range(len(jobs)):
            yield waiting.pop(number).result()
            tell("harvest", number + 1, len(jobs))


_STATE: dict[str, Any] = {}
"""What a worker process was opened with."""


def _open(tokenizer: Any, settings: HarvestSettings, order: Order, longest: int) -> None:
    import os

    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _STATE.update(
        speller=Speller(Coder(tokenizer)), settings=settings, order=order, longest=longest
    )


def _work(job: Job) -> Piece:
    pairs = harvest.gather(job, _STATE["settings"], _STATE["order"])
    piece: Piece = _STATE["speller"].spell(pairs, _STATE["longest"])
    return piece


def write(folder: Path, made: Mapping[str, Tokens], identity: Mapping[str, Any]) -> None:
    """Write a token corpus, whole or not at all."""
    from safetensors.numpy import save_file

    with publishing(folder) as partial:
        shards: dict[str, list[dict[str, Any]]] = {}
        for split, tokens in made.items():
            shards[split] = []
            for number, some in enumerate(_cut(tokens)):
                path = partial / f"{split}-{number:03d}.safetensors"
                save_file(some._asdict(), str(path))
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                shards[split].append({"file": path.name, "rows": len(some), "sha256": digest})
        text = json.dumps({"identity": identity, "shards": shards}, indent=1)
        (partial / MANIFEST).write_text(text, encoding="utf-8")


def _cut(tokens: Tokens) -> Iterator[Tokens]:
    starts = tokens.starts()
    for first in range(0, len(tokens), SHARD_ROWS):
        last = min(first + SHARD_ROWS, len(tokens))
        end = len(tokens.ids) if last == len(tokens) else int(starts[last])
        yield Tokens(
            np.ascontiguousarray(tokens.ids[int(starts[first]) : end]),
            np.ascontiguousarray(tokens.lengths[first:last]),
            np.ascontiguousarray(tokens.prompts[first:last]),
        )


def read(folder: Path, identity: Mapping[str, Any] | None = None) -> dict[str, Tokens]:
    """Read a token corpus, checking settings and hashes."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if identity is not None and manifest["identity"] != json.loads(json.dumps(identity)):
            raise CorpusError(f"{folder} holds tokens of other settings; delete it or change --out")
        return {
            split: _stack([_shard(folder, shard) for shard in some])
            for split, some in manifest["shards"].items()
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = str(error).splitlines()[0][:120]
        raise CorpusError(f"{folder} is damaged ({reason}); delete it and run again") from None


def _shard(folder: Path, shard: Mapping[str, Any]) -> Tokens:
    from safetensors.numpy import load

    data = (folder / str(shard["file"])).read_bytes()
    if hashlib.sha256(data).hexdigest() != shard["sha256"]:
        raise ValueError(f"{shard['file']} is not the file the manifest names")
    found = Tokens(**load(data))
    if len(found) != shard["rows"] or int(found.lengths.sum()) != len(found.ids):
        raise ValueError(f"{shard['file']} has not the rows of the manifest")
    return found


def _stack(parts: Sequence[Tokens]) -> Tokens:
    return Tokens(*(np.concatenate(column) for column in zip(*parts, strict=True)))
