"""Decision sources under one runtime, and what inference cost.

The paper's "Same-Runtime Decision-Law Ablation" and "Inference accounting".
"""

from __future__ import annotations

from collections.abc import Sequence

from waggle.core.record import STAGES
from waggle.evaluate import anchors
from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.report import reading
from waggle.report.matching import label, shown
from waggle.report.reading import mean, metric
from waggle.report.scale import PURSUIT_FORAGING
from waggle.report.tables import Table, bracketed, number, percent

Rows = Sequence[Row]


def same_runtime(rows: Rows, recipe: Recipe) -> Table:
    """Quality, traffic and reorganization of every decision source, at the largest population."""
    plain = [row for row in rows if not row.shock]
    largest = max((row.n for row in plain), default=0)
    called = shown(rows, recipe)
    names = list(called)
    body = []
    for name in names:
        own = [row for row in plain if row.method == name and row.n == largest]
        silo = [row for row in own if row.substrate == "silo"]
        swarm = reading.normalized(own, PURSUIT_FORAGING)
        body.append(
            (
                called[name],
                bracketed(reading.spread(silo, metric("score")), ".3f"),
                number(mean(silo, metric("messages")), 2),
                bracketed(reading.spread(swarm, anchors.normalized), ".3f"),
                *_reorganized([row for row in rows if row.method == name and row.shock]),
            )
        )
    size = f", N={largest}" if plain else ""
    columns = ("decision source", f"Silo mean S{size}", "Silo msg. / agent",
               f"P/F normalized{size}", "late-conflict recovery", "re-synthesis latency",
               )  # fmt: skip
    notes = ("brackets: 95 % bootstrap over seeds within tasks; latency in round-equivalents over "
             "recovered settings", anchors.describe())  # fmt: skip
    return Table(
        "Decision sources under one runtime", columns, tuple(body),
        (*notes, *reading.provenance(rows, recipe)), (), reading.groups_of(names, recipe),
        ("", "higher", "fewest", "higher", "", "lower"), reading.unranked(names, recipe, rows),
    )  # fmt: skip


def _reorganized(rows: Rows) -> tuple[str, str]:
    if not rows:
        return number(None), number(None)
    hits = [row for row in rows if row.metrics.get("recovery") == 1.0]
    share = f"{len(hits)}/{len(rows)} ({len(hits) / len(rows):.1%})"
    return share, number(mean(hits, metric("resynthesis_latency")), 1)


def accounting(rows: Rows, recipe: Recipe) -> Table:
    """Calls, tokens and messages per episode on Silo at the largest population."""
    silo = [row for row in rows if row.substrate == "silo" and not row.shock]
    largest = max((row.n for row in silo), default=0)
    chosen = [row for row in silo if row.n == largest]
    called = shown(chosen, recipe)
    names = list(called)
    body = []
    for name in names:
        own = [row for row in chosen if row.method == name]
        usage = (mean(own, metric(m)) for m in ("calls", "input_tokens", "output_tokens"))
        body.append(
            (
                called[name],
                percent(mean(own, metric("score"))),
                *(number(value, 0) if value else "—" for value in usage),
                number(mean(own, metric("messages")), 2),
                number(mean(own, metric("attempted")), 2),
            )
        )
    columns = ("method", "mean S (%)", "model calls / episode", "input tokens / episode",
               "output tokens / episode", "delivered / agent", "sent / agent")  # fmt: skip
    notes = ("no model is called by the rules; tokens are those of each law's own tokenizer",)
    return Table(
        f"Deployment inference and communication on Silo, N = {largest}", columns, tuple(body),
        (*notes, *reading.provenance(chosen, recipe)), (), reading.groups_of(names, recipe),
        ("", "higher", "lower", "lower", "lower", "fewest", "fewest"),
        reading.unranked(names, recipe, chosen),
    )  # fmt: skip


def inference(rows: Rows, recipe: Recipe) -> Table:
    """Calls, tokens and how decodes became executable, over everything that was played."""
    body = []
    names = reading.methods_of(rows, recipe)
    for name in names:
        own = [row for row in rows if row.method == name]
        total = sum(row.counters.get("updates", 0) for row in own)
        counts = [sum(row.counters.get(f"stage.{s}", 0) for row in own) for s in STAGES]
        usage = (mean(own, metric(m)) for m in ("calls", "input_tokens", "output_tokens"))
        first = f"{counts[0] / total:.2%}" if total else "—"
        body.append(
            (
                label(recipe, name), f"{total:,}", *(number(v, 1) for v in usage),
                first, *(f"{count:,}" for count in counts),
            )
        )  # fmt: skip
    columns = ("method", "updates", "calls/ep.", "input tok./ep.", "output tok./ep.",
               "executable first", *STAGES)  # fmt: skip
    return Table("Inference accounting", columns, tuple(body), reading.provenance(rows, recipe))
