"""All tables and figures by name; nothing is imported before it is asked for.

A table that a recipe asks for is a function of (rows, recipe) that returns a `Table`; a figure is
one that returns a `Figure`. A new one is one line here. Tables of arms, diagnoses and searches are
made where a run directory holds their files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from waggle.core.errors import ConfigError, suggest

if TYPE_CHECKING:
    from waggle.evaluate.plan import Recipe
    from waggle.report.figure import Figure
    from waggle.report.rows import Rows
    from waggle.report.tables import Table

    MakeTable: TypeAlias = Callable[[Rows, Recipe], Table]
    MakeFigure: TypeAlias = Callable[[Rows, Recipe], Figure]

TABLES: Mapping[str, str] = {
    "scores": "waggle.report.generic:scores",
    "contrasts": "waggle.report.generic:contrasts",
    "ceilings": "waggle.report.ceilings:ceilings",
    "mechanism": "waggle.report.generic:mechanism",
    "inference": "waggle.report.generic:inference",
    "stages": "waggle.report.generic:stages",
    "floors-silo": "waggle.report.floors:floors_silo",
    "floors-swarmbench": "waggle.report.floors:floors_swarmbench",
    "floors-agentsnet": "waggle.report.floors:floors_agentsnet",
    "primary": "waggle.report.primary:primary",
    "paired-scaling": "waggle.report.primary:paired_scaling",
    "silo-levels": "waggle.report.primary:silo_levels",
    "silo-ports": "waggle.report.scale:silo_ports",
    "silo-paired": "waggle.report.scale:silo_paired",
    "flocking-transport": "waggle.report.scale:flocking_transport",
    "swarm-anchor": "waggle.report.scale:swarm_anchor",
    "silo-anchor": "waggle.report.scale:silo_anchor",
    "horizon": "waggle.report.scale:horizon",
    "extension": "waggle.report.scale:extension",
    "same-runtime": "waggle.report.primary:same_runtime",
    "accounting": "waggle.report.primary:accounting",
    "agentsnet": "waggle.report.agentsnet:agentsnet",
    "agentsnet-paired": "waggle.report.agentsnet:agentsnet_paired",
    "agentsnet-priority": "waggle.report.agentsnet:agentsnet_priority",
    "agentsnet-protocols": "waggle.report.agentsnet:agentsnet_protocols",
    "reorganization": "waggle.report.reorganization.tables:cells",
    "reorganization-misses": "waggle.report.reorganization.tables:misses",
    "reorganization-process": "waggle.report.reorganization.tables:process",
    "reorganization-effects": "waggle.report.reorganization.tables:effects",
    "trajectory": "waggle.report.reorganization.trajectory:trajectory",
    "components": "waggle.report.reorganization.tables:components",
    "perturbations": "waggle.report.reorganization.runtime:perturbations",
    "sensitivity": "waggle.report.reorganization.runtime:sensitivity",
}
"""Table name -> module:function."""

FIGURES: Mapping[str, str] = {
    "scaling": "waggle.report.curves:scaling",
    "tradeoff": "waggle.report.curves:tradeoff",
    "horizon": "waggle.report.curves:horizon",
    "reorganization-course": "waggle.report.reorganization.figures:course",
    "reorganization-activity": "waggle.report.reorganization.figures:activity",
    "trajectory": "waggle.report.reorganization.figures:trajectory",
    "attribution-sources": "waggle.report.reorganization.figures:sources",
    "attribution-components": "waggle.report.reorganization.figures:components",
    "perturbations": "waggle.report.reorganization.figures:perturbations",
    "sensitivity": "waggle.report.reorganization.figures:sensitivity",
}
"""Figure name -> module:function."""


def table(name: str) -> MakeTable:
    """Return the maker of a table.

    Raises:
        ConfigError: for an unknown name.
    """
    made: MakeTable = _find("table", name, TABLES)
    return made


def figure(name: str) -> MakeFigure:
    """Return the maker of a figure.

    Raises:
        ConfigError: for an unknown name.
    """
    made: MakeFigure = _find("figure", name, FIGURES)
    return made


def tables(folder: Path, rows: Rows, recipe: Recipe) -> list[Table]:
    """Return all tables of a run directory: of arms, of the recipe, of diagnoses, of a search."""
    from waggle.report import diagnoses, factorial

    arms = factorial.tables(folder, rows, recipe)
    asked = [table(name)(rows, recipe) for name in recipe.tables] if rows else []
    search = diagnoses.search(folder) if arms else []
    return [*arms, *asked, *diagnoses.held_out(folder), *search]


def check(recipe: Recipe) -> None:
    """Check that everything a recipe asks for exists; nothing is imported.

    Raises:
        ConfigError: for an unknown name.
    """
    for name in recipe.tables:
        _known("table", name, TABLES)
    for name in recipe.figures:
        _known("figure", name, FIGURES)


def _known(kind: str, name: str, known: Mapping[str, str]) -> str:
    if name not in known:
        hint = suggest(name, list(known))
        raise ConfigError(f"{kind} {name!r} is unknown; use one of {', '.join(known)}{hint}")
    return known[name]


def _find(kind: str, name: str, known: Mapping[str, str]) -> Any:
    module, _, attribute = _known(kind, name, known).partition(":")
    return getattr(import_module(module), attribute)
