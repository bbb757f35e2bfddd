"""Shapes of options that many commands share, so that they look alike in every help text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

from cyclopts import Parameter

Flag: TypeAlias = Annotated[bool, Parameter(negative="", show_default=False)]
"""Off unless it is given."""
Size: TypeAlias = Annotated[int, Parameter(name=("-n", "--n"))]
"""How many agents."""
Sizes: TypeAlias = Annotated[
    tuple[int, ...],
    Parameter(name=("-n", "--n"), show_default=lambda sizes: ", ".join(map(str, sizes))),
]
"""How many agents, in several swarms."""
Paths: TypeAlias = Annotated[tuple[Path, ...], Parameter(show_default=False)]
"""Files or folders; none if unset."""
Chosen: TypeAlias = Annotated[str, Parameter(show_default=False)]
"""A part of what there is; all of it if unset."""
ChosenSizes: TypeAlias = Annotated[str, Parameter(name=("-n", "--n"), show_default=False)]
"""The same of swarm sizes."""


def words(text: str) -> list[str]:
    """Return what a choice names."""
    return [word.strip() for word in text.split(",") if word.strip()]
