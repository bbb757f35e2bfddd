"""Tables beyond the primary matrix: further tasks, ports, anchors, horizon, population extension.

Layouts of the paper's "Flocking and Transport", "Lower-scale anchors", "communication horizon" and
"Population extension" tables; the regime `ports` of Silo is an addition of this project.
"""

from __future__ import annotations

from waggle.evaluate import anchors
from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.report.layout import against_reference, by_method, points
from waggle.report.primary import PURSUIT_FORAGING
from waggle.report.provenance import provenance
from waggle.report.rows import (
    Rows,
    counter,
    difference,
    kilobytes,
    label,
    macro,
    mean,
    mean_and_deviation,
    metric,
    reference,
    score,
    silo,
    sizes_of,
    swarmbench,
    unit,
)
from waggle.report.tables import Span, Table, number, percent

_DELIVERED = counter("messages.delivered")
_WRITES = {
    "asked": "candidate", "done": "executed", "repeat": "suppressed.duplicate",
    "unverified": "suppressed.unverified", "route": "suppressed.route", "refresh": "refreshed",
}  # fmt: skip
"""Counters of the outcomes of an episode's writes, by column."""


def flocking_transport(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate raw scores of the two remaining SwarmBench tasks."""
    chosen = swarmbench(rows, tasks=("flocking", "transport"))
    keys = sorted({(row.task, row.n) for row in chosen})

    def cells(name: str, own: Rows) -> list[str]:
        here = ([row for row in own if (row.task, row.n) == key] for key in keys)
        return [number(mean(some, metric("score")), 2) for some in here]

    tasks = list(dict.fromkeys(task for task, _ in keys))
    return by_method(
        "Flocking and Transport", chosen, recipe, [f"N={n}" for _, n in keys], cells,
        better=["higher"] * len(keys), notes=["raw scores"],
        spans=[Span(t.capitalize(), sum(task == t for task, _ in keys)) for t in tasks],
    )  # fmt: skip


def silo_ports(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate Silo with one capped frame per port and round."""
    chosen = [row for row in silo(rows) if row.options.get("regime") == "ports"]
    keys = sorted({(row.n, int(row.options.get("cap", 4096))) for row in chosen})

    def cells(name: str, own: Rows) -> list[str]:
        line = []
        for n, cap in keys:
            here = [r for r in own if (r.n, r.options.get("cap", 4096)) == (n, cap)]
            line += [percent(mean(here, score(kind))) for kind in ("score", "strict")]
            line += [number(mean(here, metric("messages")), 2), number(kilobytes(here), 1)]
        return line

    parts = ("mean S (%)", "strict S (%)", "messages / agent", "kB / episode")
    return by_method(
        "Silo, regime ports", chosen, recipe, parts * len(keys), cells,
        better=["higher", "higher", "", ""] * len(keys),
        spans=[Span(f"N={n}, {cap} bytes per frame", len(parts)) for n, cap in keys],
        notes=["delivered frames; a frame on every port in every round is 27 per agent at R = 9"],
    )  # fmt: skip


def swarm_anchor(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate SwarmBench at N = 8: score and delivered messages, mean ± sample deviation."""
    chosen = swarmbench(rows, anchors.N, tasks=None)
    tasks = list(dict.fromkeys(row.task for row in chosen))

    def cells(name: str, own: Rows) -> list[str]:
        line = []
        for task in tasks:
            here = [row for row in own if row.task == task]
            line += [mean_and_deviation(map(metric("score"), here), 2)]
            line += [mean_and_deviation(map(_DELIVERED, here), 1)]
        return line

    return by_method(
        "Lower-scale SwarmBench anchor at N = 8", chosen, recipe, ("score", "msg.") * len(tasks),
        cells, better=["higher", "fewest"] * len(tasks),
        spans=[Span(task.capitalize(), 2) for task in tasks],
        notes=["mean ± sample s.d. per episode; messages delivered in the whole episode"],
    )  # fmt: skip


def swarm_mechanism(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate the outcomes of writes on Pursuit and Foraging at N = 8, mean ± sample deviation."""
    chosen = swarmbench(rows, anchors.N, PURSUIT_FORAGING)
    writing = {row.method for row in chosen if counter("writes.candidate")(row)}
    chosen = [row for row in chosen if row.method in writing]

    def cells(name: str, own: Rows) -> list[str]:
        line = []
        for task in PURSUIT_FORAGING:
            here = [row for row in own if row.task == task]
            line += [
                mean_and_deviation(map(counter(f"writes.{what}"), here), 1)
                for what in _WRITES.values()
            ]
        return line

    return by_method(
        "Mechanism activity on SwarmBench at N = 8", chosen, recipe, (*_WRITES,) * 2, cells,
        better=[""] * (2 * len(_WRITES)),
        spans=[Span(task.capitalize(), len(_WRITES)) for task in PURSUIT_FORAGING],
        notes=[
            "writes of an episode, mean ± sample s.d.: asked for by the law and done; stopped as a "
            "repeat of what is known, as an unverified challenge, or as a relay to an agent on its "
            "way; among those done, the refreshes; the rest were stopped for want of a contact or "
            "of anything to write; methods that write nothing are left out",
        ],
    )  # fmt: skip


def silo_anchor(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate Silo at small populations: success, messages and kilobytes per episode."""
    chosen = silo(rows)
    scopes = [None, *sizes_of(chosen)]

    def cells(name: str, own: Rows) -> list[str]:
        line = []
        for n in scopes:
            here = silo(own, n)
            line += [percent(mean(here, metric("score")), 2)]
            line += [number(mean(here, _DELIVERED), 2), number(kilobytes(here), 2)]
        return line

    return by_method(
        "Lower-scale Silo anchor", chosen, recipe, ("S (%)", "msg.", "kB") * len(scopes), cells,
        better=["higher", "fewest", "fewest"] * len(scopes),
        spans=[Span("all" if n is None else f"N={n}", 3) for n in scopes],
        notes=[f"per episode; {len({row.task for row in chosen})} tasks"],
    )  # fmt: skip


def horizon(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate Silo success and messages per agent by rounds of communication."""
    chosen = silo(rows)
    rounds = sorted({row.rounds - 1 for row in chosen})

    def cells(name: str, own: Rows) -> list[str]:
        line = []
        for r in rounds:
            here = [row for row in own if row.rounds - 1 == r]
            traffic = number(mean(here, metric("messages")), 2)
            share = percent(mean(here, metric("score")))
            line.append(f"{share} / {traffic}" if here else number(None))
        return line

    sizes = ", ".join(map(str, sizes_of(chosen)))
    return by_method(
        f"Communication horizon, Silo N = {sizes}", chosen, recipe, [f"R={r}" for r in rounds],
        cells, better=["higher"] * len(rounds),
        notes=["mean S (%) / delivered messages per agent"],
    )  # fmt: skip


def silo_paired(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate paired differences of the reference in Silo success, by setting (N, R, regime)."""
    chosen = silo(rows)
    keys = sorted({_setting(row) for row in chosen})
    body = []
    for name, mine, theirs in against_reference(chosen, recipe):
        scopes = ([row for row in mine if _setting(row) == key] for key in keys)
        found = [difference(scope, theirs, metric("score")) for scope in scopes]
        units = sum(each.units for each in found if each is not None)
        body.append((name, *map(points, found), str(units)))
    several = len({text for _, _, text in keys}) > 1
    heads = (
        f"N={n} R={rounds}{f', {text}' if several and text else ''}" for n, rounds, text in keys
    )
    note = ("mean S in percentage points, 95 % paired bootstrap over matched seeds within tasks, "
            "10,000 resamples")  # fmt: skip
    return Table(
        f"Paired differences in Silo success: {label(recipe, reference(chosen, recipe))} minus "
        "the other",
        ("against", *heads, "pairs"),
        tuple(body),
        (note, *provenance(chosen, recipe)),
    )


def _setting(row: Row) -> tuple[int, int, str]:
    return row.n, row.rounds - 1, unit(row).options


def extension(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate the smallest against the largest population: Silo success, SwarmBench P/F."""
    # Use the planned populations, so that one without rows shows as missing.
    sizes = [n for block in recipe.blocks for n in block.n] or [0]
    small, large = min(sizes), max(sizes)

    def cells(name: str, own: Rows) -> list[str]:
        one, two = silo(own, small), silo(own, large)
        swarm = (swarmbench(own, n, PURSUIT_FORAGING) for n in (small, large))
        return [
            percent(mean(one, metric("score"))), percent(mean(two, metric("score"))),
            percent(_retention(one, two)), number(mean(two, metric("messages")), 2),
            *(number(macro(some, anchors.normalized)) for some in swarm),
        ]  # fmt: skip

    return by_method(
        f"Population extension from N = {small} to N = {large}",
        [*silo(rows), *swarmbench(rows, tasks=PURSUIT_FORAGING)], recipe,
        [f"N={small} S (%)", f"N={large} S (%)", "retention (%)", f"N={large} msg. / agent",
         f"N={small}", f"N={large}"],
        cells, better=["higher", "higher", "higher", "fewest", "higher", "higher"],
        spans=[Span("Silo", 4), Span("SwarmBench P/F normalized", 2)],
        notes=["retention: mean S at the larger over the smaller population, on tasks and seeds "
               "that both have; a method at chance loses nothing", anchors.describe()],
    )  # fmt: skip


def _retention(small: Rows, large: Rows) -> float | None:
    """Return success at the larger population over that at the smaller, on the same cases."""

    def case(row: Row) -> tuple[str, str, int, int]:
        return row.task, unit(row).options, row.rounds, row.seed

    both = {case(row) for row in small} & {case(row) for row in large}
    one, two = (
        mean([row for row in rows if case(row) in both], metric("score")) for rows in (small, large)
    )
    return None if not one or two is None else two / one
