"""All tables and figures by name; their modules are imported on first use.

A recipe requests tables and figures by name. A table is a function of (rows, recipe) that returns a
`Table`, a figure one that returns a `Figure`; a new one is one line here. Tables of arms, diagnoses
and searches are made if a run directory holds their files.
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
    "scores": "generic:scores",
    "contrasts": "generic:contrasts",
    "ceilings": "ceilings:ceilings",
    "own-metrics": "generic:own_metrics",
    "mechanism": "generic:mechanism",
    "inference": "generic:inference",
    "stages": "generic:stages",
    "floors-silo": "floors:floors_silo",
    "floors-swarmbench": "floors:floors_swarmbench",
    "floors-agentsnet": "floors:floors_agentsnet",
    "primary": "primary:primary",
    "paired-scaling": "primary:paired_scaling",
    "silo-levels": "primary:silo_levels",
    "silo-ports": "scale:silo_ports",
    "silo-paired": "scale:silo_paired",
    "flocking-transport": "scale:flocking_transport",
    "swarm-anchor": "scale:swarm_anchor",
    "swarm-mechanism": "scale:swarm_mechanism",
    "silo-anchor": "scale:silo_anchor",
    "horizon": "scale:horizon",
    "extension": "scale:extension",
    "same-runtime": "primary:same_runtime",
    "accounting": "primary:accounting",
    "agentsnet": "agentsnet:agentsnet",
    "agentsnet-paired": "agentsnet:agentsnet_paired",
    "agentsnet-priority": "agentsnet:agentsnet_priority",
    "agentsnet-goal-swap": "agentsnet:agentsnet_goal_swap",
    "agentsnet-protocols": "agentsnet:agentsnet_protocols",
    "reorganization": "reorganization.tables:cells",
    "reorganization-misses": "reorganization.tables:misses",
    "reorganization-process": "reorganization.tables:process",
    "reorganization-effects": "reorganization.tables:effects",
    "trajectory": "reorganization.trajectory:trajectory",
    "components": "reorganization.tables:components",
    "perturbations": "reorganization.runtime:perturbations",
    "sensitivity": "reorganization.runtime:sensitivity",
    "byzantine-silo": "byzantine:silo",
    "byzantine-swarmbench": "byzantine:swarmbench",
    "byzantine-agentsnet": "byzantine:agentsnet",
    "worker-transfer": "workers:transfer",
    "worker-reuse": "workers:reuse",
    "focused": "focused:ratios",
    "specialists": "specialists:main",
    "specialists-effects": "specialists:effects",
    "specialists-recovery": "specialists:recovery",
}
"""Table name -> module:function of this folder."""

FIGURES: Mapping[str, str] = {
    "scaling": "curves:scaling",
    "tradeoff": "curves:tradeoff",
    "horizon": "curves:horizon",
    "reorganization-course": "reorganization.figures:course",
    "reorganization-activity": "reorganization.figures:activity",
    "trajectory": "reorganization.figures:trajectory",
    "attribution-sources": "reorganization.figures:sources",
    "attribution-components": "reorganization.figures:components",
    "perturbations": "reorganization.figures:perturbations",
    "sensitivity": "reorganization.figures:sensitivity",
    "byzantine": "byzantine:curves",
    "worker-tradeoff": "workers:tradeoff",
    "focused": "focused:figure",
}
"""Figure name -> module:function of this folder."""


def table(name: str) -> MakeTable:
    """Return the function that makes a table; an unknown name raises an error."""
    made: MakeTable = _find("table", name, TABLES)
    return made


def figure(name: str) -> MakeFigure:
    """Return the function that draws a figure in the common style; raise for an unknown name."""
    from waggle.report.figure import styled

    made: MakeFigure = _find("figure", name, FIGURES)
    return styled(made)


def tables(folder: Path, rows: Rows, recipe: Recipe) -> list[Table]:
    """Return all tables of a run directory: of arms, of the recipe, of diagnoses, of a search.

    A table of plug-in metrics is added if rows hold any.
    """
    from waggle.report import diagnoses, factorial, generic

    arms = factorial.tables(folder, rows, recipe)
    own = ["own-metrics"] if generic.has_own_metrics(rows) else []
    names = dict.fromkeys([*recipe.tables, *own])
    asked = [table(name)(rows, recipe) for name in names] if rows else []
    search = diagnoses.search(folder) if arms else []
    return [*arms, *asked, *diagnoses.held_out(folder), *search]


def check(recipe: Recipe) -> None:
    """Raise an error if a recipe requests an unknown table or figure, without importing any."""
    for name in recipe.tables:
        _target("table", name, TABLES)
    for name in recipe.figures:
        _target("figure", name, FIGURES)


def _target(kind: str, name: str, known: Mapping[str, str]) -> str:
    if name not in known:
        hint = suggest(name, list(known))
        raise ConfigError(f"{kind} {name!r} is unknown; use one of {', '.join(known)}{hint}")
    return known[name]


def _find(kind: str, name: str, known: Mapping[str, str]) -> Any:
    module, _, attribute = _target(kind, name, known).partition(":")
    return getattr(import_module(f"waggle.report.{module}"), attribute)
