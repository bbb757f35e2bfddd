"""Tables beyond the primary matrix: further tasks, ports, anchors, horizon, population extension.

Layouts of the paper's "Flocking and Transport", "Lower-scale anchors", "communication horizon" and
"Population extension" tables; the regime `ports` of Silo is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import stdev

from waggle.evaluate import anchors
from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.report import reading
from waggle.report.matching import label, options_of, shown
from waggle.report.reading import macro, mean, metric, per_episode
from waggle.report.tables import Span, Table, bracketed, number, percent

Rows = Sequence[Row]
Cells = Callable[[Rows], Sequence[str]]
PURSUIT_FORAGING = ("pursuit", "foraging")


def _silo(rows: Rows) -> list[Row]:
    return [row for row in rows if row.substrate == "silo" and not row.shock]


def _swarm(rows: Rows) -> list[Row]:
    return [row for row in rows if row.substrate == "swarmbench" and not row.shock]


def _by_method(
    title: str,
    rows: Rows,
    recipe: Recipe,
    columns: Sequence[str],
    cells: Cells,
    *,
    better: Sequence[str],
    spans: Sequence[Span] = (),
    notes: Sequence[str] = (),
) -> Table:
    """Return a table with one line per method."""
    called = shown(rows, recipe)
    names = list(called)
    body = tuple(
        (text, *cells([row for row in rows if row.method == name])) for name, text in called.items()
    )
    return Table(
        title,
        ("method", *columns),
        body,
        (*notes, *reading.provenance(rows, recipe)),
        (Span("", 1), *spans) if spans else (),
        reading.groups_of(names, recipe),
        ("", *better),
        reading.unranked(names, recipe, rows),
    )


def flocking_transport(rows: Rows, recipe: Recipe) -> Table:
    """Raw scores of the two remaining SwarmBench tasks."""
    chosen = [row for row in _swarm(rows) if row.task in ("flocking", "transport")]
    keys = sorted({(row.task, row.n) for row in chosen})

    def cells(own: Rows) -> list[str]:
        return [
            number(mean([r for r in own if (r.task, r.n) == key], metric("score")), 2)
            for key in keys
        ]

    tasks = list(dict.fromkeys(task for task, _ in keys))
    spans = [Span(t.capitalize(), sum(task == t for task, _ in keys)) for t in tasks]
    return _by_method(
        "Flocking and Transport", chosen, recipe, [f"N={n}" for _, n in keys], cells,
        better=["higher"] * len(keys), spans=spans, notes=("raw scores",),
    )  # fmt: skip


def silo_ports(rows: Rows, recipe: Recipe) -> Table:
    """Silo with one capped frame per port and round."""
    chosen = [row for row in _silo(rows) if row.options.get("regime") == "ports"]
    keys = sorted({(row.n, int(row.options.get("cap", 4096))) for row in chosen})

    def cells(own: Rows) -> list[str]:
        line = []
        for n, cap in keys:
            here = [r for r in own if (r.n, r.options.get("cap", 4096)) == (n, cap)]
            shares = (percent(mean(here, reading.score(s))) for s in ("score", "strict"))
            volume = mean(here, metric("bytes"))
            kilo = None if volume is None else volume / 1000.0
            line += [*shares, number(mean(here, metric("messages")), 2), number(kilo, 1)]
        return line

    parts = ("mean S (%)", "strict S (%)", "messages / agent", "kB / episode")
    return _by_method(
        "Silo, regime ports", chosen, recipe, [part for _ in keys for part in parts], cells,
        better=["higher", "higher", "", ""] * len(keys),
        spans=[Span(f"N={n}, {cap} bytes per frame", len(parts)) for n, cap in keys],
        notes=("delivered frames; a frame on every port in every round is 27 per agent at R = 9",),
    )  # fmt: skip


def swarm_anchor(rows: Rows, recipe: Recipe) -> Table:
    """SwarmBench at N = 8: score and delivered messages, mean ± sample deviation."""
    chosen = [row for row in _swarm(rows) if row.n == anchors.N]
    tasks = list(dict.fromkeys(row.task for row in chosen))

    def cells(own: Rows) -> list[str]:
        line = []
        for task in tasks:
            here = [row for row in own if row.task == task]
            line += [_spread(here, metric("score"), 2)]
            line += [_spread(here, per_episode("messages.delivered"), 1)]
        return line

    return _by_method(
        "Lower-scale SwarmBench anchor at N = 8", chosen, recipe,
        [part for _ in tasks for part in ("score", "msg.")], cells,
        better=["higher", "fewest"] * len(tasks),
        spans=[Span(task.capitalize(), 2) for task in tasks],
        notes=("mean ± sample s.d. per episode; messages delivered in the whole episode",),
    )  # fmt: skip


def _spread(rows: Rows, value: reading.Value, digits: int) -> str:
    found = [v for row in rows if (v := value(row)) is not None]
    if not found:
        return number(None)
    deviation = stdev(found) if len(found) > 1 else 0.0
    return f"{number(sum(found) / len(found), digits)} ± {number(deviation, digits)}"


def silo_anchor(rows: Rows, recipe: Recipe) -> Table:
    """Silo at small populations: success, messages and kilobytes per episode."""
    chosen = _silo(rows)
    sizes = sorted({row.n for row in chosen})

    def cells(own: Rows) -> list[str]:
        line: list[str] = []
        for some in (own, *([row for row in own if row.n == n] for n in sizes)):
            volume = mean(some, metric("bytes"))
            line += [percent(mean(some, metric("score")), 2)]
            line += [number(mean(some, per_episode("messages.delivered")), 2)]
            line += [number(None if volume is None else volume / 1000.0, 2)]
        return line

    parts = ("S (%)", "msg.", "kB")
    return _by_method(
        "Lower-scale Silo anchor", chosen, recipe,
        parts * (1 + len(sizes)), cells,
        better=["higher", "fewest", "fewest"] * (1 + len(sizes)),
        spans=[Span("all", 3), *(Span(f"N={n}", 3) for n in sizes)],
        notes=(f"per episode; {len({row.task for row in chosen})} tasks",),
    )  # fmt: skip


def horizon(rows: Rows, recipe: Recipe) -> Table:
    """Silo success and messages per agent by rounds of communication."""
    chosen = _silo(rows)
    rounds = sorted({row.rounds - 1 for row in chosen})

    def cells(own: Rows) -> list[str]:
        line = []
        for r in rounds:
            here = [row for row in own if row.rounds - 1 == r]
            traffic = number(mean(here, metric("messages")), 2)
            share = percent(mean(here, metric("score")))
            line.append(f"{share} / {traffic}" if here else number(None))
        return line

    sizes = ", ".join(str(n) for n in sorted({row.n for row in chosen}))
    return _by_method(
        f"Communication horizon, Silo N = {sizes}", chosen, recipe, [f"R={r}" for r in rounds],
        cells, better=["higher"] * len(rounds),
        notes=("mean S (%) / delivered messages per agent",),
    )  # fmt: skip


def silo_paired(rows: Rows, recipe: Recipe) -> Table:
    """Paired differences of the reference in Silo success, setting by setting (N, R, regime)."""
    chosen = _silo(rows)
    keys = sorted({_setting(row) for row in chosen})
    mine = reading.reference(chosen, recipe)
    own = {key: [r for r in chosen if r.method == mine and _setting(r) == key] for key in keys}
    body = []
    for name in reading.methods_of(chosen, recipe):
        theirs = [row for row in chosen if row.method == name]
        found = [reading.difference(own[key], theirs, metric("score")) for key in keys]
        if name != mine:
            shown_as = (bracketed(each, "+.1f", scale=100.0) for each in found)
            units = sum(each.units for each in found if each is not None)
            body.append((label(recipe, name), *shown_as, str(units)))
    several = len({text for _, _, text in keys}) > 1
    heads = (
        f"N={n} R={rounds}{f', {text}' if several and text else ''}" for n, rounds, text in keys
    )
    notes = ("mean S in percentage points, 95 % paired bootstrap over matched seeds within tasks, "
             "10,000 resamples",)  # fmt: skip
    return Table(
        f"Paired differences in Silo success: {label(recipe, mine)} minus the other",
        ("against", *heads, "pairs"), tuple(body), (*notes, *reading.provenance(chosen, recipe)),
    )  # fmt: skip


def _setting(row: Row) -> tuple[int, int, str]:
    return row.n, row.rounds - 1, options_of(row.options)


def extension(rows: Rows, recipe: Recipe) -> Table:
    """From one population to a larger one: Silo success retained, SwarmBench P/F normalized."""
    chosen = [*_silo(rows), *(r for r in _swarm(rows) if r.task in PURSUIT_FORAGING)]
    # Those that are asked for, so that one which is not played yet is seen to be missing.
    sizes = [n for block in recipe.blocks for n in block.n] or [0]
    small, large = min(sizes), max(sizes)

    def cells(own: Rows) -> list[str]:
        silo = {n: [r for r in _silo(own) if r.n == n] for n in (small, large)}
        swarm = {n: [r for r in _swarm(own) if r.n == n] for n in (small, large)}
        one, two = (mean(silo[n], metric("score")) for n in (small, large))
        return [
            percent(one), percent(two), percent(_retention(silo[small], silo[large])),
            number(mean(silo[large], metric("messages")), 2),
            *(number(macro(swarm[n], anchors.normalized)) for n in (small, large)),
        ]  # fmt: skip

    columns = (
        f"N={small} S (%)", f"N={large} S (%)", "retention (%)", f"N={large} msg. / agent",
        f"N={small}", f"N={large}",
    )  # fmt: skip
    return _by_method(
        f"Population extension from N = {small} to N = {large}", chosen, recipe, columns, cells,
        better=["higher", "higher", "higher", "fewest", "higher", "higher"],
        spans=[Span("Silo", 4), Span("SwarmBench P/F normalized", 2)],
        notes=("retention: mean S at the larger over the smaller population, on tasks and seeds "
               "that both have; who is at chance keeps it", anchors.describe()),
    )  # fmt: skip


def _retention(small: Rows, large: Rows) -> float | None:
    """Return success at the larger population over that at the smaller, on the same cases."""

    def case(row: Row) -> tuple[str, str, int, int]:
        return row.task, options_of(row.options), row.rounds, row.seed

    both = {case(row) for row in small} & {case(row) for row in large}
    one, two = (
        mean([r for r in rows if case(r) in both], metric("score")) for rows in (small, large)
    )
    return None if not one or two is None else two / one
