"""`waggle recipes …`: list and copy the recipes bundled with the package.

They are stored only once, in `recipes/` of the repository; the build puts them into the wheel.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import waggle
from waggle.cli import console
from waggle.cli.checkout import CHECKOUT
from waggle.cli.options import AsJson
from waggle.core.errors import ConfigError, suggest

FOLDER = "recipes"
"""Folder of the copies, so that the commands of the documentation work as they are written."""


class Entry(NamedTuple):
    """One recipe."""

    name: str
    path: Path
    use: str
    """The command that takes it."""
    about: str


def show(*, json: AsJson = False) -> None:
    """List the bundled recipes."""
    found = sorted(_entries())
    if json:
        console.dump({e.name: {"use": e.use, "about": e.about} for e in found})
        return
    rows = [(entry.name, entry.use, entry.about) for entry in found]
    console.table(None, ("recipe", "used by", "what it does"), rows, right=9)
    console.say("copy some with `waggle recipes copy NAME …`, all of them without a name")


def copy(*names: str, to: Path = Path(FOLDER), json: AsJson = False) -> None:
    """Copy bundled recipes to a folder, to play or change them.

    The file from which a recipe takes its methods is copied as well. Your own files are not
    overwritten. Example:

    `waggle recipes copy tables/reduced && waggle eval recipes/tables/reduced.toml`

    Args:
        names: Names from `waggle recipes list`. Default: all of them.
        to: Folder for the copies; created if missing.
    """
    known = {entry.name: entry.path for entry in _entries()}
    home = _home()
    chosen = list(known.values())
    if names:
        chosen = []
        for name in (name.removesuffix(".toml") for name in names):
            if name not in known:
                hint = suggest(name, list(known))
                raise ConfigError(f"no recipe {name!r}; see `waggle recipes list`{hint}")
            chosen += [known[name], *_needed(known[name])]
    targets = {to / path.relative_to(home): path for path in chosen}
    for target, path in targets.items():
        if target.exists() and target.read_bytes() != path.read_bytes():
            raise ConfigError(f"{target} is there already and differs; choose another --to")
    for target, path in targets.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    if json:
        console.dump({"files": [str(target) for target in targets]})
        return
    for target in targets:
        console.say(str(target))


def bundled(recipe: Path) -> Path:
    """Return the file of a recipe that is given by its bundled name; other paths stay as they are.

    A file of one's own takes precedence over a bundled recipe of the same name.
    """
    if not recipe.exists():
        with suppress(ConfigError):
            file = _home() / f"{recipe.as_posix().removesuffix('.toml')}.toml"
            return file if file.is_file() else recipe
    return recipe


def _home() -> Path:
    """Return the folder of the recipes: in the installed package, else in the checkout."""
    for folder in (Path(waggle.__file__).parent / FOLDER, CHECKOUT / FOLDER):
        if folder.is_dir():
            return folder
    raise ConfigError("this installation holds no recipes; install `waggle-swarm` again")


def _entries() -> Iterator[Entry]:
    home = _home()
    for path in home.rglob("*.toml"):
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
        name = path.relative_to(home).with_suffix("").as_posix()
        yield Entry(name, path, _use(path, data), data.get("about") or _first_sentence(text))
    for path in home.rglob("*.sh"):
        text = path.read_text(encoding="utf-8").partition("\n")[2]
        yield Entry(path.relative_to(home).as_posix(), path, "sh", _first_sentence(text))


def _use(path: Path, data: Mapping[str, Any]) -> str:
    """Return the command that takes a recipe."""
    if "backbone" in data:
        return "waggle train"
    if "blocks" in data:
        return "waggle eval"
    if "credit" in data:
        return "waggle learn"
    return "waggle fit" if path.parent.name == "fit" else "other recipes"


def _first_sentence(text: str) -> str:
    """Return the first sentence of the comment at the top of a file."""
    comment = re.match(r"(?:#.*\n)*", text)
    words = " ".join(re.sub(r"^# ?", "", comment.group() if comment else "", flags=re.M).split())
    return re.split(r"(?<=[.:]) ", words, maxsplit=1)[0].rstrip(":")


def _needed(path: Path) -> list[Path]:
    """Return the file that a recipe takes its methods from, if there is one."""
    data = tomllib.loads(path.read_text(encoding="utf-8")) if path.suffix == ".toml" else {}
    shared = data.get("methods_from")
    return [(path.parent / shared).resolve()] if shared else []
