"""Metadata in the folder of a trained law: canon order, teacher, backbone and trainings.

A folder that training exported has a `waggle.json`, a shipped one a `law.json`. An adapter from
elsewhere names its backbone in PEFT's own file. Any other folder or name has no metadata, and the
law then uses the paper's defaults. The files are not trusted: their size and types are checked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from waggle.core.errors import ConfigError
from waggle.models.adapters import CONFIG
from waggle.models.catalog import source

FILES = ("law.json", "waggle.json")
"""Files that describe the law of a folder, the shipped form first."""
MAX_BYTES = 1 << 20
UNNAMED = "none"
"""Backbone of a law that names none."""

_Name = Annotated[str, msgspec.Meta(max_length=4096)]


class Origin(msgspec.Struct, frozen=True):
    """The metadata of a law, read from its folder."""

    order: Literal["shuffled", "canonical"] = "shuffled"
    """The canon order it was trained in."""
    teacher: str = "none"
    backbone: str = UNNAMED


class _Card(msgspec.Struct, frozen=True):
    teacher: str = "none"


class _Description(msgspec.Struct, frozen=True):
    order: Literal["shuffled", "canonical"] = "shuffled"
    teacher: str = ""
    backbone: _Name = UNNAMED
    card: _Card = _Card()


class _Adapter(msgspec.Struct, frozen=True):
    base_model_name_or_path: _Name | None = None


class Training(msgspec.Struct, frozen=True):
    """One training of a law: the law it made, what the trainer wrote on its card, its settings."""

    law: str
    training: dict[str, Any] = {}
    recipe: dict[str, Any] = {}


class _Trained(msgspec.Struct, frozen=True):
    name: str = ""
    training: dict[str, Any] = {}
    card: dict[str, Any] = {}
    recipe: dict[str, Any] = {}
    learning: dict[str, Any] = {}
    earlier: list[Training] = []


_File = TypeVar("_File", _Description, _Adapter, _Trained)


def origin(folder: str | None) -> Origin:
    """Return the metadata of a law's folder, or the defaults if there is no folder.

    Raises:
        ConfigError: if a description cannot be read.
    """
    if folder is None:
        return Origin()
    place, file = Path(folder).expanduser(), _description(folder)
    said = _Description() if file is None else _read(file, _Description)
    backbone = said.backbone
    if backbone == UNNAMED and (place / CONFIG).is_file():
        backbone = _read(place / CONFIG, _Adapter).base_model_name_or_path or UNNAMED
    return Origin(said.order, said.teacher or said.card.teacher, backbone)


def trainings(folder: str) -> list[Training]:
    """Return the trainings of a law's folder, the first one first; none without metadata.

    Raises:
        ConfigError: if the description cannot be read.
    """
    file = _description(folder)
    if file is None:
        return []
    said = _read(file, _Trained)
    settings = said.learning or said.recipe
    return [*said.earlier, Training(said.name or folder, said.training or said.card, settings)]


def _description(folder: str) -> Path | None:
    place = Path(folder).expanduser()
    return next((place / name for name in FILES if (place / name).is_file()), None)


def _read(file: Path, kind: type[_File]) -> _File:
    try:
        if file.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{file} is too long to describe a law; export the law again")
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{file} does not describe a law ({error}); export it again") from None


def backbone_of(adapter: str, default: str) -> str:
    """Return the backbone that an adapter names, or the default if it names none.

    Raises:
        ConfigError: if the name is neither a known model nor a folder with one.
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
