"""The primary matrix in the paper's layout, its paired contrasts, and Silo by level.

Tables "Cross-substrate scaling", "Paired uncertainty for the primary scaling contrasts" and
"success by population and Silo difficulty level". Silo success is mean S; strict S stands in the
table by level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from waggle.evaluate import anchors
from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.evaluate.stats import Interval, average_ranks
from waggle.report import reading
from waggle.report.matching import complete, label, matched, shown
from waggle.report.reading import macro, mean, metric
from waggle.report.tables import SPLIT, Span, Table, bracketed, number, percent

Rows = Sequence[Row]


def _silo(rows: Rows, n: int | None = None) -> list[Row]:
    return [r for r in rows if r.substrate == "silo" and not r.shock and n in (None, r.n)]


def _swarm(rows: Rows, n: int | None = None, task: str | None = None) -> list[Row]:
    chosen = reading.normalized(rows)
    return [r for r in chosen if not r.shock and n in (None, r.n) and task in (None, r.task)]


def _sizes(rows: Rows) -> list[int]:
    return sorted({row.n for row in rows})


def _tasks(rows: Rows) -> list[str]:
    present = {row.task for row in rows}
    return [task for task in anchors.NORMALIZED if task in present]


def primary(rows: Rows, recipe: Recipe) -> Table:
    """Silo success and messages, SwarmBench raw and normalized scores, and the average rank."""
    both = [*_silo(rows), *_swarm(rows)]
    called = shown(both, recipe)
    names = list(called)
    silo, swarm = _sizes(_silo(rows)), _sizes(_swarm(rows))
    tasks, levels = _tasks(_swarm(rows)), reading.levels_of(rows)
    largest = silo[-1] if silo else 0
    ranks = _ranks(rows, recipe, names)
    body = []
    for name in names:
        own = [row for row in rows if row.method == name]
        line = [called[name]]
        line += [_success(_silo(own, n)) for n in silo]
        line += [percent(mean(_level(own, largest, x), metric("score"))) for x in levels]
        line += [SPLIT.join(_raw(own, n, task) for task in tasks) for n in swarm]
        line += [number(macro(_swarm(own, n), anchors.normalized)) for n in swarm]
        body.append((*line, number(ranks.get(name), 2)))
    sizes = tuple(f"N={n}" for n in silo), tuple(f"N={n}" for n in swarm)
    raw = SPLIT.join(task.capitalize() for task in tasks)
    spans = [
        Span("", 1),
        Span("Silo: mean S (%) / messages per agent", len(silo)),
        Span(f"Silo N={largest}: mean S (%)", len(levels)),
        Span(f"SwarmBench raw: {raw}", len(swarm)),
        Span("SwarmBench normalized", len(swarm)),
        Span("", 1),
    ]
    rank_note = (
        f"average rank over {len(_values(rows))} endpoints: Silo mean S and raw SwarmBench score "
        "by task at each N, ties averaged, rows shown for reference left out"
    )
    notes = [anchors.describe(), rank_note] if swarm else [rank_note]
    higher = SPLIT.join(["higher"] * len(tasks))
    return Table(
        "Primary matrix",
        ("method", *sizes[0], *(f"Level {x}" for x in levels), *sizes[1], *sizes[1], "avg. rank"),
        tuple(body),
        (*notes, *reading.provenance(both, recipe)),
        tuple(span for span in spans if span.columns),
        reading.groups_of(names, recipe),
        ("", *["higher"] * len(silo), *["higher"] * len(levels), *[higher] * len(swarm),
         *["higher"] * len(swarm), "lower"),
        reading.unranked(names, recipe, both),
    )  # fmt: skip


def _points(row: Row) -> float | None:
    found = row.scores.get("score")
    return None if found is None else 100.0 * found


def _success(rows: Rows) -> str:
    if not rows:
        return number(None)
    return f"{percent(mean(rows, metric('score')))} / {number(mean(rows, metric('messages')), 2)}"


def _level(rows: Rows, n: int, level: str) -> list[Row]:
    return [row for row in _silo(rows, n) if row.task.partition("-")[0] == level]


def _raw(rows: Rows, n: int, task: str) -> str:
    return number(mean(_swarm(rows, n, task), metric("score")), 2)


def _values(rows: Rows) -> dict[tuple[str, int], float]:
    """Return the endpoints of the average rank for one method."""
    found = {("silo", n): mean(_silo(rows, n), metric("score")) for n in _sizes(_silo(rows))}
    for n in _sizes(_swarm(rows)):
        for task in _tasks(_swarm(rows, n)):
            found[task, n] = mean(_swarm(rows, n, task), metric("score"))
    return {key: value for key, value in found.items() if value is not None}


def _ranks(rows: Rows, recipe: Recipe, names: Sequence[str]) -> dict[str, float]:
    """Rank the methods that have every endpoint and lack no unit of it."""
    both = [*_silo(rows), *_swarm(rows)]
    keys = sorted(_values(rows))
    found = {name: _values([r for r in rows if r.method == name]) for name in names}
    able = [m for m in names if recipe.methods[m].ranked and sorted(found[m]) == keys]
    table = {name: [found[name][key] for key in keys] for name in complete(both, able)}
    return average_ranks(table) if len(table) > 1 else {}


def paired_scaling(rows: Rows, recipe: Recipe) -> Table:
    """Paired differences of the reference from every other method, by endpoint and N."""
    mine = reading.reference(rows, recipe)
    own = [row for row in rows if row.method == mine]
    sizes = _sizes([*_silo(rows), *_swarm(rows)])
    endpoints: list[tuple[str, Callable[[Rows, int | None], list[Row]], reading.Value, int]] = [
        ("Silo mean S (%)", _silo, _points, 1),
        ("SwarmBench normalized", _swarm, anchors.normalized, 3),
    ]
    body = []
    for title, pick, value, digits in endpoints:
        for name in reading.methods_of(rows, recipe):
            theirs = [row for row in rows if row.method == name]
            cells = [_contrast(pick(own, n), pick(theirs, n), value, digits) for n in sizes]
            if name != mine and any(cell != number(None) for cell in cells):
                body.append((title, label(recipe, name), *cells))
    notes = (
        "difference [95 % interval] (reference as a share of the other); paired bootstrap over "
        "matched seeds within tasks, tasks weighing the same, 10,000 resamples",
    )
    return Table(
        f"Paired differences: {label(recipe, mine)} minus the other",
        ("endpoint", "against", *(f"N={n}" for n in sizes)),
        tuple(body),
        (*notes, *reading.provenance([*_silo(rows), *_swarm(rows)], recipe)),
    )


def _contrast(mine: Rows, theirs: Rows, value: reading.Value, digits: int) -> str:
    found = reading.difference(mine, theirs, value)
    if found is None:
        return number(None)
    one = macro(matched(mine, theirs)[0], value)
    share = f" ({one / (one - found.mean):.1%})" if one and one > found.mean else ""
    return signed(found, digits) + share


def signed(found: Interval, digits: int) -> str:
    """Format a difference with its interval."""
    return bracketed(found, f"+.{digits}f")


def silo_levels(rows: Rows, recipe: Recipe) -> Table:
    """Silo success by method, population and level; strict S, messages and bytes."""
    levels = reading.levels_of(rows)
    body = []
    for name, called in shown(_silo(rows), recipe).items():
        for n in _sizes(_silo(rows)):
            own = _silo([row for row in rows if row.method == name], n)
            if own:
                shares = [percent(mean(_level(own, n, x), metric("score"))) for x in levels]
                body.append((called, str(n), *shares, *_overall(own)))
    columns = ("method", "N", *(f"Level {x}" for x in levels), "mean S", "strict S", "P",
               "delivered / agent", "sent / agent", "kB / episode", "episodes")  # fmt: skip
    notes = ("S and P in per cent; strict: all nodes right; P: official partial correctness; kB: "
             "delivered frames",)  # fmt: skip
    return Table(
        "Silo by population and level", columns, tuple(body),
        (*notes, *reading.provenance(_silo(rows), recipe)),
    )  # fmt: skip


def _overall(rows: Rows) -> tuple[str, ...]:
    shares = (percent(mean(rows, reading.score(name))) for name in ("score", "strict", "partial"))
    traffic = (number(mean(rows, metric(name)), 2) for name in ("messages", "attempted"))
    volume = mean(rows, metric("bytes"))
    kilo = number(None if volume is None else volume / 1000.0, 1)
    return (*shares, *traffic, kilo, str(len(rows)))
