"""The part `tokens` of a large corpus: prompts and records as arrays, ready for stage one.

    FOLDER/ORDER/manifest.json            settings, tokenizer, and rows and hash of every shard
    FOLDER/ORDER/SPLIT-000.safetensors    ids (uint16, all sequences in a row), lengths, prompts

A sequence is the whole chat of one call and the record that answers it; `prompts` says where the
record begins. In canonical order an orbit image is the same text, so views are tokenised once.
Workers play, label and tokenise in one order or both (see `reaping`); doubles are left out by the
hash of the prompt, and what stands in training is left out of validation. Invariant: the same
settings give the same arrays, whatever the number of workers and however often the harvest was
interrupted; a folder under its final name is complete, and reading checks its hashes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from waggle.core.order import Order
from waggle.corpus import harvest
from waggle.corpus.settings import HarvestSettings
from waggle.corpus.store import CorpusError
from waggle.scd.data.harvest import Tell, Wanted, cut, read_part, reap, stack
from waggle.scd.data.speller import Piece, Tokens
from waggle.scd.train.checkpoint import publishing

MANIFEST = "manifest.json"
SHARD_ROWS = 65_536
SPLITS = ("train", "validation")


def tokenizer_hash(tokenizer: Any) -> str:
    """Name a tokenizer by what it does."""
    return hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode()).hexdigest()[:16]


def identity(settings: HarvestSettings, tokenizer: Any, order: Order, longest: int) -> Any:
    """Return what fixes the tokens of one order; which others are made beside it does not."""
    return {
        "settings": settings.model_dump(mode="json", exclude={"orders"}), "order": order,
        "longest": longest, "tokenizer": tokenizer_hash(tokenizer),
    }  # fmt: skip


def make(
    folder: Path, settings: HarvestSettings, tokenizer: Any, order: Order, *, longest: int,
    workers: int = 1, tell: Tell = lambda _what, _done, _total: None,
) -> dict[str, Tokens]:  # fmt: skip
    """Return the token corpus of a folder in an order, harvesting it first if it is not there.

    A harvest writes down every order of the settings besides, from the same episodes.

    Raises:
        CorpusError: if the folder holds another one, or a damaged one.
    """
    if (folder / order / MANIFEST).exists():
        return read(folder / order, identity(settings, tokenizer, order, longest))
    if len(tokenizer) > 2**16:
        raise CorpusError("token corpora hold 16-bit ids; train this backbone without [harvest]")
    orders = (order, *(o for o in settings.orders if o != order))
    orders = tuple(o for o in orders if not (folder / o / MANIFEST).exists())
    names = {o: identity(settings, tokenizer, o, longest) for o in orders}
    name = hashlib.sha256(json.dumps(names, sort_keys=True).encode()).hexdigest()[:12]
    wanted = Wanted(settings, tokenizer, orders, longest, folder / f".parts-{name}")
    splits = {split: cut(harvest.plan(settings, split)) for split in SPLITS}
    files = reap(wanted, splits, workers, tell)
    for each in reversed(orders):
        write(folder / each, _whole(files, each), names[each])
    shutil.rmtree(wanted.folder, ignore_errors=True)
    return read(folder / order)


def found(folder: Path, tokenizer: Any, order: Order) -> dict[str, Tokens]:
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
    if read_manifest(where)["identity"].get("tokenizer") != tokenizer_hash(tokenizer):
        raise CorpusError(f"{where} is of another tokenizer; harvest with this backbone")
    return read(where)


def digest(folder: Path) -> str:
    """Name a token corpus by its manifest, which holds the hashes of its shards."""
    text = json.dumps(read_manifest(folder), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _whole(files: Mapping[str, Sequence[Path]], order: Order) -> dict[str, Tokens]:
    """Put the parts of every split together."""
    made: dict[str, Tokens] = {}
    seen: NDArray[np.uint64] = np.zeros(0, np.uint64)
    for split, paths in files.items():
        made[split], seen = joined([read_part(path, order) for path in paths], seen)
    if not all(len(tokens) for tokens in made.values()):
        raise CorpusError("the harvest is empty; raise `native` or `synthetic` in [harvest]")
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
        manifest = read_manifest(folder)
        if identity is not None and manifest["identity"] != json.loads(json.dumps(identity)):
            raise CorpusError(f"{folder} holds tokens of other settings; delete it or change --out")
        return {
            split: stack([_shard(folder, shard) for shard in some])
            for split, some in manifest["shards"].items()
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = str(error).splitlines()[0][:120]
        raise CorpusError(f"{folder} is damaged ({reason}); delete it and run again") from None


def read_manifest(folder: Path) -> Any:
    """Return the manifest of a token corpus.

    Raises:
        CorpusError: if it cannot be read.
    """
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if not isinstance(found["identity"], dict) or not isinstance(found["shards"], dict):
            raise TypeError("not a manifest")
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = str(error).splitlines()[0][:120]
        raise CorpusError(f"{folder} is damaged ({reason}); delete it and run again") from None
    return found


def _shard(folder: Path, shard: Mapping[str, Any]) -> Tokens:
    from safetensors.numpy import load

    data = (folder / str(shard["file"])).read_bytes()
    if hashlib.sha256(data).hexdigest() != shard["sha256"]:
        raise ValueError(f"{shard['file']} is not the file the manifest names")
    found = Tokens(**load(data))
    if len(found) != shard["rows"] or int(found.lengths.sum()) != len(found.ids):
        raise ValueError(f"{shard['file']} has not the rows of the manifest")
    return found
