"""Frozen transfer to AgentsNet-RP in the paper's layout, by priority and symmetry, and references.

The reference protocols are no laws: they know their task and are allowed messages of any size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from statistics import fmean

import msgspec

from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.evaluate.stats import Interval, average_ranks, paired
from waggle.report import reading
from waggle.report.matching import Unit, complete, label, shown, unit
from waggle.report.primary import signed
from waggle.report.reading import macro, mean, metric, score
from waggle.report.tables import Span, Table, bracketed, number

Rows = Sequence[Row]
TASKS = ("coloring", "consensus", "leader_election", "matching", "vertex_cover")
TITLES = ("Coloring", "Consensus", "LeaderElection", "Matching", "VertexCover")
DRAWS = 20
"""Priority draws per graph of the reference protocols."""


def _with(rows: Rows, *, priority: bool) -> list[Row]:
    return [
        row
        for row in rows
        if row.substrate == "agentsnet" and bool(row.options.get("priority", True)) == priority
    ]


def agentsnet(rows: Rows, recipe: Recipe) -> Table:
    """Soft score by task, strict solved fraction by size, retention, messages, average rank."""
    chosen = _with(rows, priority=True)
    called = shown(chosen, recipe)
    names = list(called)
    sizes = sorted({row.n for row in chosen}) or [0]
    by_name = {name: [row for row in chosen if row.method == name] for name in names}
    ranks = _ranks(chosen, recipe, names, sizes)
    body = []
    for name, own in by_name.items():
        soft = [mean([r for r in own if r.task == task], score("soft")) for task in TASKS]
        strict = [macro([r for r in own if r.n == n], score("strict")) for n in sizes]
        first, last = strict[0], strict[-1]
        kept = last / first if first and last is not None else None
        body.append(
            (
                called[name],
                *(number(value, 2) for value in soft),
                *(number(value, 2) for value in (*strict, macro(own, score("strict")), kept)),
                number(mean(own, metric("messages")), 1),
                number(ranks.get(name), 2),
            )
        )
    columns = ("method", *TITLES, *(f"N={n}" for n in sizes), "overall",
               f"{sizes[-1]}/{sizes[0]}", "msg. / agent", "avg. rank")  # fmt: skip
    spans = (Span("", 1), Span("Soft score", 5), Span("Strict solved fraction", len(sizes) + 1),
             Span("Retention", 1), Span("", 2))  # fmt: skip
    notes = ("average rank over five soft scores and the strict fraction at each size; strict is "
             "macro-averaged over tasks",)  # fmt: skip
    return Table(
        "Frozen AgentsNet transfer", columns, tuple(body),
        (*notes, *reading.provenance(chosen, recipe)), spans, reading.groups_of(names, recipe),
        ("", *["higher"] * (7 + len(sizes)), "fewest", "lower"),
        reading.unranked(names, recipe, chosen),
    )  # fmt: skip


def _ranks(
    rows: Rows, recipe: Recipe, names: Sequence[str], sizes: Sequence[int]
) -> dict[str, float]:
    """Rank the methods that have every endpoint and lack no unit of it."""
    width = len(TASKS) + len(sizes)
    found = {name: _endpoints(rows, name, sizes) for name in names if recipe.methods[name].ranked}
    able = [name for name, values in found.items() if len(values) == width]
    table = {name: found[name] for name in complete(rows, able)}
    return average_ranks(table) if len(table) > 1 else {}


def _endpoints(rows: Rows, method: str, sizes: Sequence[int]) -> list[float]:
    own = [row for row in rows if row.method == method]
    values = [mean([r for r in own if r.task == task], score("soft")) for task in TASKS]
    values += [macro([r for r in own if r.n == n], score("strict")) for n in sizes]
    return [value for value in values if value is not None]


def agentsnet_paired(rows: Rows, recipe: Recipe) -> Table:
    """Paired differences in strict solved fraction, by size and over both."""
    chosen = _with(rows, priority=True)
    mine = reading.reference(chosen, recipe)
    own = [row for row in chosen if row.method == mine]
    sizes = sorted({row.n for row in chosen})
    body = []
    for name in reading.methods_of(chosen, recipe):
        theirs = [row for row in chosen if row.method == name]
        scopes = [*([r for r in own if r.n == n] for n in sizes), own]
        found = [_over_graphs(scope, theirs) for scope in scopes]
        if name != mine:
            cells = (number(None) if f is None else signed(f, 3) for f in found)
            body.append((label(recipe, name), *cells))
    notes = ("95 % paired bootstrap over matched task-graph settings within size and topology, "
             "10,000 resamples; the draws of a graph are averaged first",)  # fmt: skip
    return Table(
        f"AgentsNet strict solved fraction: {label(recipe, mine)} minus the other",
        ("against", *(f"N={n}" for n in sizes), "overall"), tuple(body),
        (*notes, *reading.provenance(chosen, recipe)),
    )  # fmt: skip


def _over_graphs(mine: Rows, theirs: Rows) -> Interval | None:
    """Return the paired difference in strict fraction over task-graph settings.

    Draws of one graph are no independent units: they are averaged before anything is resampled.
    Whether nodes have priorities does not tell two draws apart.
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
    plain = {key: value for key, value in row.options.items() if key != "priority"}
    return unit(msgspec.structs.replace(row, options=plain))


@cache
def _symmetry(family: str, n: int, index: int) -> tuple[bool, bool]:
    """Whether a graph has no singleton orbit, and no unique node of maximum degree."""
    from waggle.substrates.agentsnet.graph_files import find_graph
    from waggle.substrates.agentsnet.symmetry import diagnose

    found = diagnose(find_graph(family, n, index, None))
    return found.obstructed, not found.unique_max_degree


def _stratum(row: Row) -> tuple[bool, bool]:
    return _symmetry(row.options.get("family", "ws"), row.n, int(row.options.get("index", 0)))


def agentsnet_priority(rows: Rows, recipe: Recipe) -> Table:
    """LeaderElection with and without priority, by size and by two notions of symmetry."""
    leaders = [row for row in rows if row.substrate == "agentsnet" and row.task == TASKS[2]]
    sizes = sorted({row.n for row in leaders})
    strata: list[tuple[str, Callable[[Row], bool]]] = [
        *((f"N={n}", lambda row, n=n: row.n == n) for n in sizes),
        ("overall", lambda row: True),
        ("no singleton orbit", lambda row: _stratum(row)[0]),
        ("some singleton orbit", lambda row: not _stratum(row)[0]),
        ("tied maximum degree", lambda row: _stratum(row)[1]),
        ("unique maximum degree", lambda row: not _stratum(row)[1]),
    ]
    graphs = [len({(r.options.get("family"), r.options.get("index"), r.n)
                   for r in leaders if holds(r)}) for _, holds in strata]  # fmt: skip
    body = []
    for name in reading.methods_of(leaders, recipe):
        played = [row for row in leaders if row.method == name]
        without, given = (_with(played, priority=priority) for priority in (False, True))
        for text, own in (("without", without), ("with", given)):
            if own:
                gain = _over_graphs(given, without) if text == "with" else None
                cells = (_both([r for r in own if holds(r)]) for _, holds in strata)
                body.append((f"{label(recipe, name)}, {text}", *cells, bracketed(gain, "+.3f")))
    columns = tuple(f"{name} ({count})" for (name, _), count in zip(strata, graphs, strict=True))
    notes = ("soft / strict; how many graphs in brackets; an orbit is one of the automorphism "
             "group once priorities are removed; gain: strict with minus without, 95 % paired "
             "bootstrap over graphs within size and topology",)  # fmt: skip
    return Table(
        "LeaderElection with and without priority", ("method", *columns, "gain"), tuple(body),
        (*notes, *reading.provenance(leaders, recipe)),
    )  # fmt: skip


def _both(rows: Rows) -> str:
    soft, strict = (mean(rows, score(name)) for name in ("soft", "strict"))
    return number(None) if soft is None else f"{number(soft, 2)} / {number(strict, 2)}"


def agentsnet_protocols(rows: Rows, recipe: Recipe) -> Table:
    """Reference protocols on the same graphs: what knowing the task and free messages reach."""
    from waggle.substrates.agentsnet.graph_files import find_graph
    from waggle.substrates.agentsnet.reference import reference_table

    chosen = _with(rows, priority=True)
    wanted = sorted({(str(r.options.get("family", "ws")), r.n, int(r.options.get("index", 0)))
                     for r in chosen})  # fmt: skip
    graphs = [find_graph(family, n, index, None) for family, n, index in wanted]
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
        *(() if graphs else reading.provenance([], recipe)),
    )
    return Table("AgentsNet reference protocols", columns, tuple(sorted(body)), notes)
