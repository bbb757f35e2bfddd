"""Frozen transfer to AgentsNet-RP in the paper's layout, by priority and symmetry, and references.

The reference protocols are not laws: they are specific to a task and send messages of any size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import cache
from statistics import fmean
from typing import Any

import msgspec

from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.evaluate.stats import Interval, paired
from waggle.report.layout import against_reference, by_method, signed
from waggle.report.provenance import provenance
from waggle.report.rows import (
    Rows,
    Unit,
    label,
    macro,
    mean,
    methods_of,
    metric,
    of,
    ranks,
    reference,
    score,
    sizes_of,
    unit,
)
from waggle.report.tables import Span, Table, number

TASKS = ("coloring", "consensus", "leader_election", "matching", "vertex_cover")
TITLES = ("Coloring", "Consensus", "LeaderElection", "Matching", "VertexCover")
DRAWS = 20
"""Priority draws per graph for the reference protocols."""


def _with(rows: Rows, *, priority: bool, swapped: bool = False) -> list[Row]:
    """Return AgentsNet rows with or without priorities, under the task's or a swapped goal."""
    return [
        row
        for row in rows
        if row.substrate == "agentsnet"
        and bool(row.options.get("priority", True)) == priority
        and bool(row.options.get("goal")) == swapped
    ]


def agentsnet(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate soft score by task, strict fraction by size, retention, messages, average rank."""
    chosen = _with(rows, priority=True)
    sizes = sizes_of(chosen) or [0]

    def endpoints(own: Rows) -> dict[Any, float | None]:
        found = {task: mean([r for r in own if r.task == task], score("soft")) for task in TASKS}
        return found | {n: macro([r for r in own if r.n == n], score("strict")) for n in sizes}

    average = ranks(chosen, recipe, endpoints)

    def cells(name: str, own: Rows) -> list[str]:
        values = endpoints(own)
        first, last = values[sizes[0]], values[sizes[-1]]
        kept = last / first if first and last is not None else None
        shares = [*values.values(), macro(own, score("strict")), kept]
        return [
            *(number(value, 2) for value in shares),
            number(mean(own, metric("messages")), 1),
            number(average.get(name), 2),
        ]

    return by_method(
        "AgentsNet: soft scores and strict solved fraction", chosen, recipe,
        [*TITLES, *(f"N={n}" for n in sizes), "overall", f"{sizes[-1]}/{sizes[0]}",
         "msg. / agent", "avg. rank"],
        cells, better=[*["higher"] * (7 + len(sizes)), "fewest", "lower"],
        spans=[Span("Soft score", 5), Span("Strict solved fraction", len(sizes) + 1),
               Span("Retention", 1), Span("", 2)],
        notes=["average rank over five soft scores and the strict fraction at each size; strict is "
               "macro-averaged over tasks"],
    )  # fmt: skip


def agentsnet_paired(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate paired differences in strict solved fraction, by size and overall."""
    chosen = _with(rows, priority=True)
    sizes = sizes_of(chosen)
    body = []
    for name, mine, theirs in against_reference(chosen, recipe):
        scopes = [*([row for row in mine if row.n == n] for n in sizes), mine]
        body.append((name, *(signed(_over_graphs(scope, theirs), 3) for scope in scopes)))
    note = ("95 % paired bootstrap over matched task-graph settings within size and topology, "
            "10,000 resamples; the draws of a graph are averaged first")  # fmt: skip
    return Table(
        f"AgentsNet strict solved fraction: {label(recipe, reference(chosen, recipe))} minus the "
        "other",
        ("against", *(f"N={n}" for n in sizes), "overall"),
        tuple(body),
        (note, *provenance(chosen, recipe)),
    )


def _over_graphs(mine: Rows, theirs: Rows) -> Interval | None:
    """Return the paired difference in strict fraction over task-graph settings.

    Draws of one graph are not independent units, so they are averaged before resampling. Rows with
    and without priorities are matched as the same draw.
    """
    other = {_draw(row): row.scores.get("strict") for row in theirs}
    gains: dict[str, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in mine:
        one, two = row.scores.get("strict"), other.get(_draw(row))
        if one is not None and two is not None:
            stratum = f"{row.n:06d} {row.options.get('family', 'ws')}"
            gains[stratum][row.task, str(row.options.get("index", 0))].append(one - two)
    strata = {
        stratum: [fmean(draws) for _, draws in sorted(graphs.items())]
        for stratum, graphs in gains.items()
    }
    return paired(strata) if strata else None


def _draw(row: Row) -> Unit:
    """Return the unit of a row without its priority and goal options; it is cached in the row."""
    known: dict[str, Unit] = row.__dict__
    if "draw" not in known:
        plain = {k: value for k, value in row.options.items() if k not in ("priority", "goal")}
        known["draw"] = unit(msgspec.structs.replace(row, options=plain))
    return known["draw"]


def _graph(row: Row) -> tuple[str, int, int, int]:
    """Return family, size, index and edition of the graph of a row."""
    from waggle.substrates.agentsnet.graphs import edition

    family, index = str(row.options.get("family", "ws")), int(row.options.get("index", 0))
    return family, row.n, index, edition(row.seed)


@cache
def _symmetry(family: str, n: int, index: int, edition: int) -> tuple[bool, bool]:
    """Return whether a graph has no singleton orbit, and no unique node of maximum degree."""
    from waggle.substrates.agentsnet.graph_files import find_graph
    from waggle.substrates.agentsnet.symmetry import diagnose

    found = diagnose(find_graph(family, n, index, None, edition))
    return found.obstructed, not found.unique_max_degree


def agentsnet_priority(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate LeaderElection with and without priority, by size and two notions of symmetry."""
    leaders = [row for row in rows if row.substrate == "agentsnet" and row.task == TASKS[2]]
    strata: dict[str, Callable[[Row], bool]] = {
        **{f"N={n}": lambda row, n=n: row.n == n for n in sizes_of(leaders)},  # type: ignore[misc]
        "overall": lambda row: True,
        "no singleton orbit": lambda row: _symmetry(*_graph(row))[0],
        "some singleton orbit": lambda row: not _symmetry(*_graph(row))[0],
        "tied maximum degree": lambda row: _symmetry(*_graph(row))[1],
        "unique maximum degree": lambda row: not _symmetry(*_graph(row))[1],
    }
    body = []
    for name in methods_of(leaders, recipe):
        without, given = (_with(of(leaders, name), priority=kind) for kind in (False, True))
        for text, own in (("without", without), ("with", given)):
            if own:
                gain = _over_graphs(given, without) if text == "with" else None
                cells = (_both(list(filter(holds, own))) for holds in strata.values())
                body.append((f"{label(recipe, name)}, {text}", *cells, signed(gain, 3)))
    columns = (
        f"{name} ({len(set(map(_graph, filter(holds, leaders))))})"
        for name, holds in strata.items()
    )
    note = ("soft / strict; how many graphs in brackets; an orbit is one of the automorphism "
            "group once priorities are removed; gain: strict with minus without, 95 % paired "
            "bootstrap over graphs within size and topology")  # fmt: skip
    return Table(
        "LeaderElection with and without priority", ("method", *columns, "gain"), tuple(body),
        (note, *provenance(leaders, recipe)),
    )  # fmt: skip


def agentsnet_goal_swap(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate the solved fraction under the task's goal and another's, on the same cases."""
    swapped = _with(rows, priority=True, swapped=True)
    cases = {(row.method, *_draw(row)) for row in swapped}
    given = [row for row in _with(rows, priority=True) if (row.method, *_draw(row)) in cases]
    body = []
    for name in methods_of(swapped, recipe):
        mine, others = of(given, name), of(swapped, name)
        cells = (
            " / ".join(number(mean([r for r in some if r.task == task], score("strict")), 2)
                       for some in (mine, others))
            for task in TASKS
        )  # fmt: skip
        body.append((label(recipe, name), *cells, signed(_over_graphs(mine, others), 3)))
    note = ("strict solved fraction, own goal / goal of another task on the same view; drop: own "
            "minus other, 95 % paired bootstrap over graphs within size and topology")  # fmt: skip
    return Table(
        "Goal swap", ("method", *TITLES, "drop"), tuple(body), (note, *provenance(swapped, recipe))
    )


def _both(rows: Rows) -> str:
    soft, strict = (mean(rows, score(name)) for name in ("soft", "strict"))
    return number(None) if soft is None else f"{number(soft, 2)} / {number(strict, 2)}"


def agentsnet_protocols(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate task-specific reference protocols with unlimited messages on the same graphs."""
    from waggle.baselines.graph_protocols import reference_table
    from waggle.substrates.agentsnet.graph_files import find_graph

    wanted = sorted(set(map(_graph, _with(rows, priority=True))))
    graphs = [find_graph(f, n, index, None, edition) for f, n, index, edition in wanted]
    sizes = sorted({graph.n for graph in graphs})
    body = [
        (row.task, row.protocol, *(number(row.strict.get(n), 2) for n in sizes),
         number(fmean(row.strict.values()), 2), number(row.soft, 3),
         number(row.messages_per_agent, 1))
        for row in (reference_table(graphs, DRAWS) if graphs else ())
    ]  # fmt: skip
    columns = ("task", "protocol", *(f"strict N={n}" for n in sizes), "strict", "soft",
               "msg. / agent")  # fmt: skip
    notes = (
        f"{len(graphs)} graphs, {DRAWS} priority draws each; no laws, no teacher, no backbone",
        *(() if graphs else provenance([], recipe)),
    )
    return Table("AgentsNet reference protocols", columns, tuple(sorted(body)), notes)
