"""The warm start that arms begin with: whole, of their recipe, and the same for all of them.

Arms of a factorial are paired by it, so an arm that began with another one is neither resumed nor
counted. What it was is told by a digest of its law's files, kept with every arm.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from waggle.core.errors import ConfigError
from waggle.laws.digest import digest, look
from waggle.scd.config import Recipe
from waggle.scd.ship.export import FOLDER

WEIGHTS = Path("best") / "trainable.safetensors"
"""What training goes on from, in the folder of a stage."""
BEGUN = "began with"
"""Entry of an arm's card and result: the digest of its warm start."""


def given(start: Path, recipe: Recipe) -> Path:
    """Return the law of a warm start that another run made.

    Raises:
        ConfigError: if it is not whole, or not one that this recipe would make.
    """
    law = start / FOLDER
    about = _about(law)
    if not about or not (start / WEIGHTS).is_file():
        raise ConfigError(f"{start} holds no whole warm start; leave --start out")
    for name, theirs, ours in _compared(about.get("recipe", {}), recipe):
        if theirs != ours:
            raise ConfigError(
                f"{start} was trained with {name} {theirs!r}, not {ours!r}; leave --start out"
            )
    return law


def _compared(theirs: dict[str, Any], own: Recipe) -> list[tuple[str, Any, Any]]:
    """Return what a warm start and the arms must have in common, of both."""
    ours = own.model_dump(mode="json")
    kinds = [each.get("adaptation", {}).get("kind") for each in (theirs, ours)]
    names = ("name", "backbone", "order")
    return [
        *(("recipe" if n == "name" else n, theirs.get(n), ours[n]) for n in names),
        ("adaptation", kinds[0], kinds[1]),
    ]


def name(start: Path) -> str:
    """Return the digest of a warm start; empty where there is none."""
    return digest(look(str(start / FOLDER)))


def same(law: Path, start: Path) -> None:
    """Check that an arm began with this warm start, as far as both can be told.

    Raises:
        ConfigError: if it began with another one.
    """
    began, now = _about(law).get("card", {}).get(BEGUN), name(start)
    if began and now and began != now:
        raise ConfigError(
            f"{law} began with another warm start ({began}) than {start} ({now}); choose another "
            "--out"
        )


def _about(law: Path) -> dict[str, Any]:
    """Return what a law says about itself; nothing where that cannot be read."""
    try:
        found = json.loads((law / "waggle.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
