"""Liars in the swarm: what Byzantine nodes cost the honest ones, and what a defence wins back."""

from __future__ import annotations

from waggle.evaluate.plan import MethodSpec, Recipe
from waggle.evaluate.rows import Row
from waggle.report.layout import signed
from waggle.report.provenance import provenance
from waggle.report.rows import Rows, difference, family, grouped, macro, metric, of, shown
from waggle.report.tables import Table, number

_OWN = ("honest", "soft", "score")
"""The score that is read: the honest nodes' own, else the one whose parts are the nodes' own."""


def honest(row: Row) -> float | None:
    """Return what the honest nodes achieved; where success is the swarm's alone, its score."""
    return next((row.scores[name] for name in _OWN if name in row.scores), None)


def byzantine(rows: Rows, recipe: Recipe) -> Table:
    """What the honest nodes achieve, beside their law without liars and without a defence."""
    names = shown(rows, recipe)
    body = []
    for method, text in names.items():
        spec = recipe.methods[method]
        trusting = _like(recipe, spec, list(names), perturbation={}, switches={})
        bare = _like(recipe, spec, list(names), perturbation=spec.perturbation, switches={})
        for (tasks, n), own in grouped(of(rows, method), lambda r: (family(r), r.n)).items():
            losses = (
                number(None) if other in (None, method)
                else signed(difference(own, of(rows, other), honest), 3)
                for other in (trusting, bare)
            )  # fmt: skip
            sent = number(macro(own, metric("messages")), 2)
            line = (number(macro(own, metric("score")), 3), number(macro(own, honest), 3))
            body.append((text, tasks, str(n), *line, *losses, sent, str(len(own))))
    columns = (
        "method", "tasks", "N", "score", "honest", "Δ no liars", "Δ no defence",
        "messages/agent", "episodes",
    )  # fmt: skip
    notes = (
        "honest: mean success of the honest nodes where success is a node's own (Silo, AgentsNet "
        "tasks whose soft score has parts), else the soft score or the score of the whole swarm",
        "on AgentsNet a mean of parts of the soft score, which may exceed 1 as parts are unequal",
        "Δ: honest score minus that of the same law without liars, and with the same liars and no "
        "defence; matched units, 95 % paired bootstrap, 10,000 resamples",
        *provenance(rows, recipe),
    )
    return Table("Byzantine agents", columns, tuple(body), notes)


def _like(recipe: Recipe, spec: MethodSpec, among: list[str], **changes: object) -> str | None:
    """Return the method of the same law, options and engine with some settings changed."""
    wanted = spec.model_copy(update=changes)
    fields = ("law", "options", "engine", "switches", "perturbation")
    return next(
        (
            name
            for name in among
            if all(getattr(recipe.methods[name], f) == getattr(wanted, f) for f in fields)
        ),
        None,
    )
