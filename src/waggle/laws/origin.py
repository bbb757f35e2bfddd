"""Where a trained law comes from: the few words its folder says about itself.

A folder that training exported holds `waggle.json`, one that ships holds `law.json`; both name the
canon order the law was trained in, its teacher and its backbone. Any other folder or name says
nothing, and a law over it is taken as the paper has it. Read with distrust: bounded and checked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from waggle.core.errors import ConfigError

FILES = ("law.json", "waggle.json")
"""Where a folder describes its law, the shipped form first."""
MAX_BYTES = 1 << 20


class _Card(msgspec.Struct, frozen=True):
    teacher: str = "none"


class Origin(msgspec.Struct, frozen=True):
    """What a law's folder says about it."""

    order: Literal["shuffled", "canonical"] = "shuffled"
    """The canon order it was trained in."""
    teacher: str = "none"
    backbone: str = "none"


class _File(msgspec.Struct, frozen=True):
    order: Literal["shuffled", "canonical"] = "shuffled"
    teacher: str = ""
    backbone: str = "none"
    card: _Card = _Card()


def origin(folder: str | None) -> Origin:
    """Return what a folder says about its law; nothing is said by what is no such folder.

    Raises:
        ConfigError: when it says something that cannot be read.
    """
    if folder is None:
        return Origin()
    places = (Path(folder).expanduser() / name for name in FILES)
    place = next((p for p in places if p.is_file()), None)
    return Origin() if place is None else _read(place)


def _read(place: Path) -> Origin:
    try:
        if place.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{place} is too long to describe a law; export the law again")
        said = msgspec.json.decode(place.read_bytes(), type=_File)
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{place} does not describe a law ({error}); export it again") from None
    return Origin(said.order, said.teacher or said.card.teacher, said.backbone)
