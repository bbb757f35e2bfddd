"""The digest of a law's weights, computed from the files that determine its answers.

The digest covers weights, configuration and tokenizer of a folder and, for an adapter, of its
backbone. A catalog backbone is identified by its name and checksum, a hub backbone by its name and
the commit of the revision on this machine. Cards and results are left out, so rewriting them keeps
the digest. A file is hashed once per process while its time and size stay the same; a packed folder
needs no hashing, since `law.json` has the hashes. Invariant: a law has the same digest on every
machine, and weights that cannot be identified have none.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

from waggle import shipped
from waggle.core.errors import ConfigError
from waggle.core.protocols import Law
from waggle.models import fetch
from waggle.models.catalog import source
from waggle.shipped import Manifest

DIGITS = 12
"""Hex digits of a digest: enough to tell laws apart, short enough to read."""
_SETTINGS = ("adapter_config.json", "chat_template.jinja", "config.json", "tokenizer.json",
             "tokenizer_config.json")  # fmt: skip
"""Files that determine answers together with the weights."""


class File(NamedTuple):
    """The metadata of a file at one time, read without opening it."""

    path: str
    bytes: int
    changed: int
    node: int


Seen: TypeAlias = tuple[str | tuple[File, ...], ...]
"""The sources of weights: each the name of a backbone, or the files of a folder."""


def look(model: str, adapter: str | None = None, packed: bool = False) -> Seen:
    """Return the sources that a law would be loaded from; no file is opened.

    Args:
        model: a name of the catalog, a Hugging Face id, or a folder.
        adapter: folder of an adapter on that model.
        packed: whether the law's own folder has a `law.json` that is verified at loading.
    """
    own = model if adapter is None else adapter
    places = (model,) if adapter is None else (model, adapter)
    return tuple(_place(each, packed and each == own) for each in places)


def digest(seen: Seen) -> str:
    """Return the digest of the given sources; empty if a file is missing or has changed."""
    return _short([place if isinstance(place, str) else _folder(place) for place in seen])


def digest_of(law: Law) -> str:
    """Return the digest of a law for rows and diagnoses; empty for rule-based laws."""
    try:
        said = getattr(law, "digest", "")
    except Exception:  # a plug-in that cannot identify its weights may still play
        return ""
    if not isinstance(said, str) or not said:
        return ""
    if re.fullmatch("[0-9a-f]{1,64}", said):
        return said
    return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()[:DIGITS]


def of_manifest(found: Manifest) -> str:
    """Return the digest of the law that a `law.json` describes; no other file is read."""
    own = _listed({name: found.files[name].sha256 for name in _relevant(found.files)})
    if found.kind == "full":
        return _short([own])
    base = _place(found.backbone, False)
    return _short([base if isinstance(base, str) else _folder(base), own])


def _short(parts: list[str]) -> str:
    if not parts or not all(parts):
        return ""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:DIGITS]


def _place(name: str, packed: bool) -> str | tuple[File, ...]:
    folder = Path(name).expanduser().absolute()
    if packed:
        return _files([folder / shipped.LAW])
    if any((folder / file).is_file() for file in ("config.json", "adapter_config.json")):
        return _files(folder / name for name in _relevant(_names(folder)))
    try:
        entry = source(name)
    except ConfigError:
        return ""
    if entry.kind != "hub":
        return f"{entry.kind} {entry.name} {entry.sha256}"
    cached = fetch.snapshot(entry.hub)
    return "" if cached is None else f"hub {entry.hub} {cached.name}"


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []


def _relevant(names: Iterable[str]) -> list[str]:
    """Return the files of a folder that determine its law's answers; none without weights."""
    there = sorted(names)
    weights = [name for name in there if name.endswith(".safetensors")]
    weights = weights or [name for name in there if name.endswith(".bin")]
    return sorted([*weights, *(name for name in there if name in _SETTINGS)]) if weights else []


def _files(paths: Iterable[Path]) -> tuple[File, ...]:
    try:
        return tuple(_file(path) for path in paths)
    except OSError:
        return ()


def _file(path: Path) -> File:
    at = path.stat()
    return File(str(path), at.st_size, at.st_mtime_ns, at.st_ino)


def _folder(files: tuple[File, ...]) -> str:
    """Return the names and hashes of a folder's files as one text; empty if one is unknown."""
    if [Path(file.path).name for file in files] == [shipped.LAW]:
        return _recorded(files[0])
    return _listed({Path(file.path).name: _hashed(file) for file in files})


def _listed(hashes: Mapping[str, str]) -> str:
    return json.dumps(hashes) if hashes and all(hashes.values()) else ""


@lru_cache(maxsize=1024)
def _recorded(file: File) -> str:
    """Return the file hashes that `law.json` records, as one text."""
    try:
        files = shipped.manifest(Path(file.path).parent).files
    except ConfigError:
        return ""
    return _listed({n: files[n].sha256 for n in _relevant(files)}) if _unchanged(file) else ""


@lru_cache(maxsize=4096)
def _hashed(file: File) -> str:
    stamp = shipped.stamp_of(Path(file.path))
    return stamp.sha256 if stamp is not None and _unchanged(file) else ""


def _unchanged(file: File) -> bool:
    """Return whether a file that was just read still has the same metadata."""
    return _files([Path(file.path)]) == (file,)
