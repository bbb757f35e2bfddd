"""The primary matrix in the paper's layout, and tables of the same runs.

"Cross-substrate scaling", "Paired uncertainty for the primary scaling contrasts", "success by
population and Silo difficulty level", "Same-Runtime Decision-Law Ablation" and the inference part
of the primary matrix. Silo success is mean S; strict S is in the table by level.
"""

from __future__ import annotations

from waggle.evaluate import anchors
from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.report.floors import judged
from waggle.report.layout import against_reference, by_method, signed
from waggle.report.provenance import provenance
from waggle.report.rows import (
    Rows,
    Value,
    difference,
    kilobytes,
    label,
    levels_of,
    macro,
    matched,
    mean,
    metric,
    of,
    ranks,
    reference,
    score,
    shown,
    silo,
    sizes_of,
    spread,
    swarmbench,
)
from waggle.report.tables import SPLIT, Span, Table, bracketed, number, percent

PURSUIT_FORAGING = ("pursuit", "foraging")
AGENT_DISTILLATION = "agentdistill"
"""The method to whose tokens the paper relates those of all others."""


def _tasks(rows: Rows) -> list[str]:
    present = {row.task for row in rows}
    return [task for task in anchors.NORMALIZED if task in present]


def _level(rows: Rows, level: str) -> list[Row]:
    return [row for row in rows if row.task.partition("-")[0] == level]


def primary(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate Silo success and messages, SwarmBench raw and normalized scores, average rank."""
    both = [*silo(rows), *swarmbench(rows)]
    small, swarm = sizes_of(silo(rows)), sizes_of(swarmbench(rows))
    tasks, levels = _tasks(swarmbench(rows)), levels_of(rows)
    largest = small[-1] if small else 0
    average = ranks(both, recipe, _endpoints)

    def cells(name: str, own: Rows) -> list[str]:
        line = [_success(silo(own, n)) for n in small]
        here = silo(own, largest)
        line += [percent(mean(_level(here, level), metric("score"))) for level in levels]
        line += [SPLIT.join(_raw(own, n, task) for task in tasks) for n in swarm]
        line += [number(macro(swarmbench(own, n), anchors.normalized)) for n in swarm]
        return [*line, number(average.get(name), 2)]

    raw = SPLIT.join(task.capitalize() for task in tasks)
    spans = [
        Span("Silo: mean S (%) / messages per agent", len(small)),
        Span(f"Silo N={largest}: mean S (%)", len(levels)),
        Span(f"SwarmBench raw: {raw}", len(swarm)),
        Span("SwarmBench normalized", len(swarm)),
        Span("", 1),
    ]
    rank_note = (
        f"average rank over {len(_endpoints(both))} endpoints: Silo mean S and raw SwarmBench "
        "score by task at each N, ties averaged, rows shown for reference left out"
    )
    of_swarm = [f"N={n}" for n in swarm]
    higher = SPLIT.join(["higher"] * len(tasks))
    table = by_method(
        "Primary matrix",
        both,
        recipe,
        [*(f"N={n}" for n in small), *(f"Level {x}" for x in levels), *of_swarm, *of_swarm,
         "avg. rank"],
        cells,
        better=[*["higher"] * (len(small) + len(levels)), *[higher] * len(swarm),
                *["higher"] * len(swarm), "lower"],
        spans=[span for span in spans if span.columns],
        notes=[anchors.describe(), rank_note] if swarm else [rank_note],
    )  # fmt: skip
    scopes = [[silo(both, n)] for n in small]
    scopes += [[_level(silo(both, largest), level)] for level in levels]
    scopes += [[swarmbench(both, n, [task]) for task in tasks] for n in swarm]
    scopes += [[swarmbench(both, n)] for n in swarm]
    return judged(table, recipe, scopes, _comparable)


def _comparable(row: Row) -> float | None:
    """Return a score that can be averaged over tasks: normalized on SwarmBench."""
    return metric("score")(row) if row.substrate == "silo" else anchors.normalized(row)


def _success(rows: Rows) -> str:
    if not rows:
        return number(None)
    return f"{percent(mean(rows, metric('score')))} / {number(mean(rows, metric('messages')), 2)}"


def _raw(rows: Rows, n: int, task: str) -> str:
    return number(mean(swarmbench(rows, n, [task]), metric("score")), 2)


def _endpoints(rows: Rows) -> dict[tuple[str, int], float]:
    """Return the endpoints of the average rank: Silo and every SwarmBench task, at each N."""
    scopes = {("silo", n): silo(rows, n) for n in sizes_of(silo(rows))}
    for n in sizes_of(swarmbench(rows)):
        scopes |= {(task, n): swarmbench(rows, n, [task]) for task in _tasks(swarmbench(rows, n))}
    found = {key: mean(own, metric("score")) for key, own in scopes.items()}
    return {key: value for key, value in found.items() if value is not None}


def paired_scaling(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate paired differences of the reference from every other method, by endpoint and N."""
    both = [*silo(rows), *swarmbench(rows)]
    sizes = sizes_of(both)
    body = []
    for title, pick, value, digits in (
        ("Silo mean S (%)", silo, _points, 1),
        ("SwarmBench normalized", swarmbench, anchors.normalized, 3),
    ):
        for name, mine, theirs in against_reference(rows, recipe):
            cells = [_contrast(pick(mine, n), pick(theirs, n), value, digits) for n in sizes]
            if any(cell != number(None) for cell in cells):
                body.append((title, name, *cells))
    notes = (
        "difference [95 % interval] (reference as a share of the other); paired bootstrap over "
        "matched seeds within tasks, tasks weighing the same, 10,000 resamples",
    )
    return Table(
        f"Paired differences: {label(recipe, reference(rows, recipe))} minus the other",
        ("endpoint", "against", *(f"N={n}" for n in sizes)),
        tuple(body),
        (*notes, *provenance(both, recipe)),
    )


def _points(row: Row) -> float | None:
    found = row.scores.get("score")
    return None if found is None else 100.0 * found


def _contrast(mine: Rows, theirs: Rows, value: Value, digits: int) -> str:
    found = difference(mine, theirs, value)
    if found is None:
        return number(None)
    one, two = (macro(side, value) for side in matched(mine, theirs))
    share = f" ({one / two:.1%})" if one and two and two > 0.0 else ""
    return signed(found, digits) + share


def silo_levels(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate Silo success by method, population and level; strict S, messages and bytes."""
    chosen, levels = silo(rows), levels_of(rows)
    body = []
    for name, called in shown(chosen, recipe).items():
        for n in sizes_of(of(chosen, name)):
            own = silo(of(chosen, name), n)
            shares = [percent(mean(_level(own, level), metric("score"))) for level in levels]
            shares += [percent(mean(own, score(kind))) for kind in ("score", "strict", "partial")]
            traffic = [number(mean(own, metric(kind)), 2) for kind in ("messages", "attempted")]
            volume = number(kilobytes(own), 1)
            body.append((called, str(n), *shares, *traffic, volume, str(len(own))))
    columns = ("method", "N", *(f"Level {x}" for x in levels), "mean S", "strict S", "P",
               "delivered / agent", "sent / agent", "kB / episode", "episodes")  # fmt: skip
    notes = ("S and P in per cent; strict: all nodes right; P: official partial correctness; kB: "
             "delivered frames",)  # fmt: skip
    return Table(
        "Silo by population and level", columns, tuple(body), (*notes, *provenance(chosen, recipe))
    )


def same_runtime(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate quality, traffic and reorganization by decision source, at the largest N."""
    plain = [row for row in rows if not row.shock]
    largest = max((row.n for row in plain), default=0)

    def cells(name: str, own: Rows) -> list[str]:
        small, swarm = silo(own, largest), swarmbench(own, largest, PURSUIT_FORAGING)
        return [
            bracketed(spread(small, metric("score")), ".3f"),
            number(mean(small, metric("messages")), 2),
            bracketed(spread(swarm, anchors.normalized), ".3f"),
            *_reorganized([row for row in own if row.shock]),
        ]

    size = f", N={largest}" if plain else ""
    return by_method(
        "Decision sources under one runtime", rows, recipe,
        [f"Silo mean S{size}", "Silo msg. / agent", f"P/F normalized{size}",
         "late-conflict recovery", "re-synthesis latency"],
        cells, better=["higher", "fewest", "higher", "", "lower"], first="decision source",
        notes=["brackets: 95 % bootstrap over seeds within tasks; latency in round-equivalents "
               "over recovered settings", anchors.describe()],
    )  # fmt: skip


def _reorganized(rows: Rows) -> tuple[str, str]:
    if not rows:
        return number(None), number(None)
    hits = [row for row in rows if row.metrics.get("recovery") == 1.0]
    share = f"{len(hits)}/{len(rows)} ({len(hits) / len(rows):.1%})"
    return share, number(mean(hits, metric("resynthesis_latency")), 1)


def accounting(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate calls, tokens and messages per episode on Silo at the largest population.

    Tokens are also given relative to those of Agent Distillation, if it was played.
    """
    largest = max(sizes_of(silo(rows)), default=0)
    here = silo(rows, largest)
    tokens = ("input_tokens", "output_tokens")
    beside = {name: mean(of(here, AGENT_DISTILLATION), metric(name)) for name in tokens}

    def used(own: Rows, name: str) -> str:
        value, whole = mean(own, metric(name)), beside[name]
        if not value:
            return number(None)
        return f"{value:.0f} ({value / whole:.2f}×)" if whole else f"{value:.0f}"

    def cells(name: str, own: Rows) -> list[str]:
        calls = mean(own, metric("calls"))
        return [
            percent(mean(own, metric("score"))),
            number(calls, 0) if calls else number(None),
            *(used(own, name) for name in tokens),
            *(number(mean(own, metric(m)), 2) for m in ("messages", "attempted")),
        ]

    relative = ["in brackets, tokens as a multiple of those of Agent Distillation"]
    return by_method(
        f"Deployment inference and communication on Silo, N = {largest}",
        here, recipe,
        ["mean S (%)", "model calls / episode", "input tokens / episode",
         "output tokens / episode", "delivered / agent", "sent / agent"],
        cells, better=["higher", "lower", "lower", "lower", "fewest", "fewest"],
        notes=["no model is called by the rules; tokens are those of each law's own tokenizer",
               *(relative if beside["input_tokens"] else ())],
    )  # fmt: skip
