"""Packed laws: their folders, their manifest `law.json`, and checks that files are unchanged.

The folder of a packed law holds weights in bfloat16 (a whole model, or a PEFT adapter on a base
that is fetched by name), the model card, the results the card was made from, and `law.json`. `nano`
is a folder beside this file; other packed laws are separate distributions, found by their entry
point in the group `waggle.laws`. `pack` makes such a folder. Invariant: a file is loaded only if
its digest is the one in `law.json`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import msgspec

from waggle.built_in import ELSEWHERE
from waggle.core.errors import ConfigError, suggest

ROOT = Path(__file__).parent
"""Folder of the laws of this package."""
OWN = ("nano",)
"""The laws of this package."""
LAW = "law.json"
RESULTS = "results.json"
CARD = "README.md"
SOURCE = "packed from"
"""Key of the results: digest of the exported law whose weights were packed."""
FORMAT = 1
MAX_LAW = 1 << 20
"""Maximum size of a law.json, in bytes."""
LOADED = (".json", ".jinja", ".safetensors", ".txt", ".model", ".bin", ".pt", ".tiktoken")
"""Suffixes of files that libraries load; a packed law must list each such file."""
MAX_FILE = 15 << 20
"""Maximum size of one file of a shipped law, in bytes."""
MAX_WHOLE = {"full": 25_000_000, "dense": 90_000_000, "lora": 90_000_000}
"""Maximum size of a whole shipped law, in bytes, by kind."""


class FileDigest(msgspec.Struct, frozen=True):
    """Size and digest of one file."""

    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of `law.json`."""

    format: int = FORMAT
    name: str
    kind: Literal["lora", "dense", "full"]
    """`full`: a whole model; otherwise an adapter on the backbone."""
    backbone: str
    order: Literal["shuffled", "canonical"]
    """The canon order it was trained in and is used with."""
    teacher: str
    parameters: int
    """Number of shipped weights."""
    seeds: Mapping[str, Any]
    corpus: Mapping[str, Any]
    recipe: Mapping[str, Any]
    training: Mapping[str, Any] = {}
    """The trainer's entries: selected update, losses, phase times."""
    earlier: tuple[Mapping[str, Any], ...] = ()
    """The trainings before, the first one first: each with `law`, `training` and `recipe`."""
    files: Mapping[str, FileDigest] = {}

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(stamp.bytes for stamp in self.files.values())


def names() -> list[str]:
    """Return the names of installed packed laws and of those of the project one can install."""
    return sorted({*OWN, *ELSEWHERE, *_distributed()})


def folder(name: str) -> Path:
    """Return the folder of a packed law; that of `nano` may lack its weights.

    Raises:
        ConfigError: with the fix, for a law that is not installed.
    """
    if name in OWN:
        return ROOT / name
    if name in (found := _distributed()):
        return found[name]
    if name in ELSEWHERE:
        raise ConfigError(f"the weights of {name!r} are not here; pip install {ELSEWHERE[name]}")
    known = names()
    raise ConfigError(f"no law {name!r} ships{suggest(name, known)}; there are {', '.join(known)}")


def _distributed() -> dict[str, Path]:
    """Return the packed laws of installed distributions.

    The module of such an entry point lies beside a `law.json`; it is located without an import.
    """
    found = {}
    for point in entry_points(group="waggle.laws"):
        module = find_spec(point.module.partition(".")[0])
        if module is not None and module.origin is not None:
            place = Path(module.origin).parent
            if (place / LAW).is_file():
                found[point.name] = place
    return found


def present(name: str) -> bool:
    """Return whether the weights of a packed law are in this installation."""
    try:
        return (folder(name) / LAW).is_file()
    except ConfigError:
        return False


def manifest(place: Path) -> Manifest:
    """Read the `law.json` of a folder.

    Raises:
        ConfigError: with one line that names the fix.
    """
    path = place / LAW
    try:
        if path.stat().st_size > MAX_LAW:
            raise ConfigError(f"{path} is too long to describe a law; {_FIX}")
        found = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise ConfigError(f"the weights of {place.name!r} are not here; {_FIX}") from None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} does not describe a law ({error}); {_FIX}") from None
    if found.format != FORMAT:
        raise ConfigError(f"{path} has format {found.format}, not {FORMAT}; upgrade waggle-swarm")
    if any(Path(name).name != name for name in found.files):
        raise ConfigError(f"{path} names files outside its folder; {_FIX}")
    return found


def verify(place: Path) -> Manifest:
    """Check every file that a law is loaded from against its digest, and return its manifest.

    The card is for people and may be edited; everything else must be as shipped.

    Raises:
        ConfigError: naming the first file that is missing, changed or not listed.
    """
    found = manifest(place)
    listed = [name for name in found.files if name.endswith(".safetensors")]
    if not listed:
        raise ConfigError(f"{place / LAW} lists no weights; {_FIX}")
    loaded = [path.name for path in place.iterdir() if path.suffix in LOADED]
    unlisted = sorted({*loaded} - {*found.files, LAW})
    if unlisted:
        raise ConfigError(f"{place / unlisted[0]} is not listed in {LAW}; {_FIX}")
    for name, stamp in found.files.items():
        if name != CARD and stamp_of(place / name) != stamp:
            raise ConfigError(f"{place / name} is not the file that was shipped; {_FIX}")
    return found


def stamp_of(path: Path) -> FileDigest | None:
    """Return size and digest of a file, or None if it cannot be read."""
    try:
        with path.open("rb") as file:
            return FileDigest(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())
    except OSError:
        return None


_FIX = "install waggle-swarm again, or use another law of `waggle list laws`"
