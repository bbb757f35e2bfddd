"""Where a trained law comes from: the few words its folder says about itself.

A folder that training exported holds `waggle.json`, one that ships holds `law.json`; both name the
canon order the law was trained in, its teacher and its backbone. An adapter of anybody else names
its backbone in PEFT's own file. Any other folder or name says nothing, and a law over it is taken
as the paper has it. Read with distrust: bounded and checked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec

from waggle.core.errors import ConfigError
from waggle.models.adapters import CONFIG
from waggle.models.catalog import source

FILES = ("law.json", "waggle.json")
"""Where a folder describes its law, the shipped form first."""
MAX_BYTES = 1 << 20
UNNAMED = "none"
"""Backbone of a law that names none."""


class _Card(msgspec.Struct, frozen=True):
    teacher: str = "none"


class Origin(msgspec.Struct, frozen=True):
    """What a law's folder says about it."""

    order: Literal["shuffled", "canonical"] = "shuffled"
    """The canon order it was trained in."""
    teacher: str = "none"
    backbone: str = UNNAMED


_Name = Annotated[str, msgspec.Meta(max_length=4096)]


class _File(msgspec.Struct, frozen=True):
    order: Literal["shuffled", "canonical"] = "shuffled"
    teacher: str = ""
    backbone: _Name = UNNAMED
    card: _Card = _Card()


class _Adapter(msgspec.Struct, frozen=True):
    base_model_name_or_path: _Name | None = None


_Said = TypeVar("_Said", _File, _Adapter)


def origin(folder: str | None) -> Origin:
    """Return what a folder says about its law; nothing is said by what is no such folder.

    Raises:
        ConfigError: when it says something that cannot be read.
    """
    if folder is None:
        return Origin()
    places = (Path(folder).expanduser() / name for name in FILES)
    place = next((p for p in places if p.is_file()), None)
    said = _File() if place is None else _read(place, _File)
    backbone = said.backbone if said.backbone != UNNAMED else _base(Path(folder).expanduser())
    return Origin(said.order, said.teacher or said.card.teacher, backbone)


def _base(folder: Path) -> str:
    """Return the backbone that PEFT wrote into the folder of an adapter."""
    place = folder / CONFIG
    said = _read(place, _Adapter) if place.is_file() else _Adapter()
    return said.base_model_name_or_path or UNNAMED


def _read(place: Path, kind: type[_Said]) -> _Said:
    try:
        if place.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{place} is too long to describe a law; export the law again")
        return msgspec.json.decode(place.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{place} does not describe a law ({error}); export it again") from None


def backbone_of(adapter: str, default: str) -> str:
    """Return the backbone that an adapter names, or the default where it names none.

    Raises:
        ConfigError: when what it names is neither a known model nor a folder with one.
    """
    name = origin(adapter).backbone
    if name == UNNAMED:
        return default
    try:
        if not (Path(name).expanduser() / "config.json").is_file():
            source(name)
    except ConfigError:
        raise ConfigError(
            f"the adapter {adapter} names the backbone {name!r}, which is not known here; give its "
            "folder or its name of `waggle models list` as option model (--law.model)"
        ) from None
    return name
