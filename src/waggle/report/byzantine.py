"""Byzantine nodes (liars): the loss of the honest nodes, and the gain of each defence.

A row is one law under one attack. It has the honest score without a defence, its loss against the
same law without liars, and for every defence the gain over the same liars without it. For attacks
that withhold data for good, the row also has the score that remains reachable: Silo's score if the
attackers' pieces never travel and all others arrive.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from statistics import fmean
from typing import Any, NamedTuple

from waggle.evaluate.plan import MethodSpec, Recipe
from waggle.evaluate.rows import Row
from waggle.report.figure import PALETTE, Figure, canvas, finish, legend
from waggle.report.layout import signed
from waggle.report.provenance import caption, provenance
from waggle.report.rows import (
    Rows,
    difference,
    grouped,
    label,
    macro,
    methods_of,
    metric,
    of,
    task_of,
)
from waggle.report.tables import Table, number
from waggle.runtime.perturb import Perturbation, Schedule

DEFENCES: Mapping[str, Mapping[str, Any]] = {
    "provenance": {"provenance": True},
    "reputation": {"reputation": True},
    "reopening": {"reopening": 1},
    "all": {"provenance": True, "reputation": True, "reopening": 1},
}
"""The defence settings that have a column."""
WITHHELD = ("silent", "wait")
"""Attacks in which an attacker's data never travel."""
CURVES = ("stale", "flipflop")
"""Attacks that the figure draws."""
_OWN = ("honest", "soft", "score")
"""Scores in order of preference: of the honest nodes, else with parts per node, else any."""


class Regime(NamedTuple):
    """An attack and the share of attackers."""

    attack: str
    share: float


class Family(NamedTuple):
    """The methods of one law in one runtime, which differ in their liars and defences only."""

    plain: str
    """The method without liars and without a defence."""
    methods: dict[str, MethodSpec]
    """All methods, in the recipe's order."""

    def find(self, perturbation: Mapping[str, Any], defence: Mapping[str, Any]) -> str | None:
        """Return the first method with these liars and this defence, if any."""
        for name, spec in self.methods.items():
            if spec.perturbation == perturbation and spec.defence == defence:
                return name
        return None


def honest(row: Row) -> float | None:
    """Return the score of the honest nodes; where success is not per node, that of the swarm."""
    return next((row.scores[name] for name in _OWN if name in row.scores), None)


def silo(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate Silo, mean over tasks."""
    return _table("Byzantine agents on Silo", "silo", rows, recipe)


def swarmbench(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate SwarmBench, by task."""
    return _table("Byzantine agents on SwarmBench", "swarmbench", rows, recipe)


def agentsnet(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate AgentsNet, mean over tasks."""
    return _table("Byzantine agents on AgentsNet", "agentsnet", rows, recipe)


def _table(title: str, substrate: str, rows: Rows, recipe: Recipe) -> Table:
    own = [row for row in rows if row.substrate == substrate]
    body = []
    for family in _families(own, recipe):
        without_liars = of(own, family.plain)
        for name, spec in family.methods.items():
            if spec.defence:
                continue
            attack, share = regime(spec)
            defended = [family.find(spec.perturbation, defence) for defence in DEFENCES.values()]
            for (tasks, n), here in grouped(of(own, name), _setting).items():
                loss = number(None)
                if name != family.plain:
                    loss = signed(difference(here, without_liars, honest), 3)
                gains = (
                    signed(difference(of(own, other), here, honest), 3) if other else number(None)
                    for other in defended
                )
                bound = _reach(here, share) if attack in WITHHELD else None
                body.append(
                    (
                        label(recipe, family.plain), tasks, str(n), attack, f"{100 * share:g} %",
                        number(macro(here, honest), 3), loss, *gains, number(bound, 3),
                        number(macro(here, metric("messages")), 1), str(len(here)),
                    )
                )  # fmt: skip
    columns = (
        "law", "tasks", "N", "attack", "share", "honest", "Δ no liars",
        *(f"Δ {name}" for name in DEFENCES), "reach", "messages/agent", "episodes",
    )  # fmt: skip
    notes = (
        "honest: mean success of the honest nodes where success is a node's own (Silo; AgentsNet "
        "tasks whose soft score has parts, which may exceed 1 as parts are unequal), else the soft "
        "score or the score of the whole swarm; without a defence",
        "Δ: difference of honest scores, to the same law without liars and of each defence to the "
        "same liars without it; matched units, 95 % paired bootstrap, 10,000 resamples",
        "reach: honest score on Silo if no piece of an attacker travels and all others arrive; a "
        "law may be above it, as an answer from fewer pieces is right at times",
        *provenance(own, recipe),
    )
    return Table(title, columns, tuple(body), notes)


def _setting(row: Row) -> tuple[str, int]:
    """Return the scope of a row: task on SwarmBench (scales differ), else substrate; and N."""
    return (task_of(row) if row.substrate == "swarmbench" else row.substrate, row.n)


def _families(rows: Rows, recipe: Recipe) -> list[Family]:
    """Group the methods that have rows by law and runtime; leave out groups without a plain one."""
    specs = {name: recipe.methods[name] for name in methods_of(rows, recipe)}
    plain = [name for name, spec in specs.items() if not spec.perturbation and not spec.defence]
    families: dict[str, Family] = {}
    for name, spec in specs.items():
        base = next((p for p in plain if _runtime(specs[p]) == _runtime(spec)), None)
        if base is not None:
            families.setdefault(base, Family(base, {})).methods[name] = spec
    return list(families.values())


def _runtime(spec: MethodSpec) -> tuple[Any, ...]:
    """Return what all methods of a family share: the law and the runtime that plays it."""
    return spec.law, spec.options, spec.engine, spec.switches


def regime(spec: MethodSpec) -> Regime:
    """Return the attack of a method and the share of its attackers."""
    share = spec.perturbation.get("byzantine", 0.0)
    return Regime(spec.perturbation.get("attack", "silent") if share else "none", share)


def _reach(rows: Rows, share: float) -> float | None:
    """Return the score honest Silo nodes could reach with all data except the attackers'."""
    bounds = [_reach_of(r.task, r.n, r.seed, share) for r in rows if r.substrate == "silo"]
    return fmean(bounds) if bounds else None


@cache
def _reach_of(task: str, n: int, seed: int, share: float) -> float:
    from waggle.substrates.silo.cases import independent_case

    case = independent_case(task, n, seed)
    liars = Schedule(Perturbation(byzantine=share), seed, range(n), 1).byzantine
    known = sum(1 << node for node in range(n) if node not in liars)
    return fmean(case.is_right(known, node) for node in range(n) if node not in liars)


def curves(rows: Rows, recipe: Recipe) -> Figure:
    """Draw honest score against the share of attackers, with all defences (dashed) and without."""
    panels = [(s, a) for s in sorted({_setting(row) for row in rows}, key=str) for a in CURVES]
    axes = canvas(-(-len(panels) // len(CURVES)), len(CURVES), width=3.1, height=2.0)
    for axis, (setting, attack) in zip(axes, panels, strict=True):
        here = [row for row in rows if _setting(row) == setting]
        for color, family in zip(PALETTE, _families(here, recipe), strict=False):
            for defence, line in (({}, "-"), (DEFENCES["all"], "--")):
                points = _curve(here, family, attack, defence)
                if len(points) > 1:
                    text = label(recipe, family.plain) + (", all defences" if defence else "")
                    x, y = zip(*points, strict=True)
                    axis.plot(x, y, line, color=color, marker="o", markersize=3, label=text)
        axis.set_title(f"{setting[0]}, N = {setting[1]}\n{attack}", fontsize=7.5)
        axis.set_xlabel("attackers (%)")
        axis.set_ylim(bottom=0)
    legend(axes)
    note = caption("Mean honest score by the share of attackers", rows, recipe)
    return finish(axes, "byzantine", "Honest score against the share of attackers", note)


def _curve(
    rows: Rows, family: Family, attack: str, defence: Mapping[str, Any]
) -> list[tuple[float, float]]:
    """Return the points of one law under one attack; all attacks share the one without liars."""
    points: dict[float, float | None] = {}
    for name, spec in family.methods.items():
        liars = regime(spec)
        shown = spec.defence == defence or (liars.attack == "none" and not spec.defence)
        if shown and liars.attack in (attack, "none"):
            points[100 * liars.share] = macro(of(rows, name), honest)
    return sorted((share, score) for share, score in points.items() if score is not None)
