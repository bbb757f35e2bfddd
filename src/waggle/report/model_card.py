"""The model card of a shipped law, from results alone.

Every number comes from `law.json` and `results.json` (diagnosis, datasheet, rows of runs); the only
words written by hand are the notes on failures, which are kept in the results as well. Invariant:
the same two files give the same card, so a card that drifted from its law is seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from waggle import shipped
from waggle.core.record import STAGES
from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.report import belonging
from waggle.report.matrix import family
from waggle.report.reading import whole
from waggle.report.shortfalls import failures, misplaced, most, own, strangers
from waggle.report.tables import Table, markdown, number
from waggle.shipped import Manifest


def run_results(recipe: Recipe, rows: Sequence[Row], command: str) -> dict[str, Any]:
    """Return what a card keeps of a run: means per method, task family and population.

    Of the rows that tables keep: those of the plan whose seed is finished on all tasks.
    """
    counted = whole(rows, recipe)
    good = counted.rows
    cells: dict[tuple[str, int, str], list[Row]] = defaultdict(list)
    for row in good:
        cells[family(row), row.n, row.method].append(row)
    return {
        "title": recipe.title,
        "command": command,
        "seeds": sorted({row.seed for row in good}),
        "failed": len(counted.failed),
        "laws": {name: spec.law for name, spec in recipe.methods.items()},
        "cells": [_cell(*key, some) for key, some in sorted(cells.items())],
        "weights": belonging.counted(good, recipe),
    }


def _cell(task: str, n: int, method: str, rows: Sequence[Row]) -> dict[str, Any]:
    def mean(name: str) -> float | None:
        found = [v for row in rows if (v := row.metrics.get(name)) is not None]
        return fmean(found) if found else None

    updates = sum(row.counters.get("updates", 0) for row in rows)
    stages = {s: sum(row.counters.get(f"stage.{s}", 0) for row in rows) for s in STAGES}
    return {
        "task": task, "n": n, "method": method, "episodes": len(rows), "updates": updates,
        "score": mean("score"), "messages": mean("messages"), "stages": stages,
    }  # fmt: skip


def card(law: Manifest, results: Mapping[str, Any]) -> str:
    """Return the model card as Markdown."""
    parts = [
        _front(law),
        _about(law),
        markdown(_facts(law)),
        markdown(_settings(law)),
        *(markdown(table) for table in _counted(results)),
        *(markdown(table) for table in _ranks(results.get("ranks", ()))),
        *(markdown(table) for table in _datasheet(results.get("corpus", {}))),
        *(markdown(table) for table in _diagnoses(law, results)),
        *(markdown(_run(law, run)) for run in results.get("runs", ())),
        *(markdown(table) for table in _decoding(law, results.get("runs", ()))),
        "### Known failures\n\n" + "\n".join(f"* {text}" for text in failures(law, results)) + "\n",
    ]
    return "\n".join(parts)


def _front(law: Manifest) -> str:
    library = "transformers" if law.kind == "full" else "peft"
    base = "" if law.kind == "full" else f"base_model: {law.backbone}\n"
    return f"---\nlicense: apache-2.0\nlibrary_name: {library}\n{base}tags: [waggle, swarm]\n---\n"


def _about(law: Manifest) -> str:
    what = "a whole model" if law.kind == "full" else f"an adapter on {law.backbone}"
    called = law.name if law.name in shipped.names() else "FOLDER"
    return (
        f"# {law.name}, a Waggle law\n\n"
        "One anonymous local law for self-organizing swarms, trained by Swarm-Consistent "
        "Distillation. It reads one bounded local view and answers with one canonical JSON "
        f"decision. This is {what} in bfloat16; the training heads are not part of it. Use it with "
        f"`waggle run TASK --law {called}`; views are then shown in {law.order} order, which it "
        "was trained in.\n\nNever trained on: Synchronization, Flocking, Transport, AgentsNet.\n"
    )


def _facts(law: Manifest) -> Table:
    rows = [
        ("teacher", law.teacher),
        ("backbone", law.backbone),
        ("canon order", law.order),
        ("weights", f"{law.parameters:,}"),
        ("weight files, bytes", f"{_weight_bytes(law):,}"),
        *((f"seed: {name}", str(value)) for name, value in law.seeds.items()),
        *((name, _plain(value)) for name, value in _flat(law.training)),
    ]
    return Table("The law", ("", ""), tuple(dict(rows).items()))


def _weight_bytes(law: Manifest) -> int:
    return sum(s.bytes for name, s in law.files.items() if name.endswith(".safetensors"))


def _settings(law: Manifest) -> Table:
    rows = tuple(
        (f"{part}.{name}", _plain(value))
        for part, settings in law.recipe.items()
        if isinstance(settings, Mapping)
        for name, value in _flat(settings)
    )
    return Table("Training settings", ("setting", "value"), rows)


def _counted(results: Mapping[str, Any]) -> Iterator[Table]:
    """What training read, and how long its phases took."""
    tokens, phases = results.get("tokens", {}), results.get("phases", {})
    if tokens:
        rows = tuple((split, f"{count:,}") for split, count in tokens.items())
        note = "prompts and records of stage one, doubles left out"
        yield Table("Token corpus", ("split", "sequences"), rows, (note,))
    if phases:
        every = {**phases, "all": round(sum(phases.values()), 1)}
        rows = tuple((name, number(seconds, 1)) for name, seconds in every.items())
        yield Table("Phases of training", ("phase", "seconds"), rows)


def _ranks(rows: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    """What adapters of several ranks keep of what training changed."""
    if rows:
        shown = tuple(
            (
                row["factors"], str(row["rank"] or "—"), number(row["bytes"] / 1e6, 1),
                number(row["kept"], 4), f"{row['rounding']:.1e}", number(row["nll"], 5),
            )
            for row in rows
        )  # fmt: skip
        head = ("factors", "rank", "MB", "norm kept", "rounding", "NLL per token")
        notes = (
            "waggle law ranks; none: the backbone, whole: the trained matrices themselves",
            "fitted: best for the inputs of training records; plain: best in the matrices",
        )
        yield Table("Size of the adapter", head, shown, notes)


def _datasheet(sheet: Mapping[str, Any]) -> Iterator[Table]:
    """Counts of the corpus; the fine aspects stay with `waggle corpus stats`."""
    told = {k: v for k, v in sheet.items() if k not in ("decisions", "transitions", "settings")}
    if told:
        yield Table("Corpus", ("", ""), tuple((k, _plain(v)) for k, v in _flat(told)))
    for part in ("decisions", "transitions"):
        splits: Mapping[str, Mapping[str, Mapping[str, int]]] = sheet.get(part, {})
        keys = dict.fromkeys(
            (aspect, value)
            for counts in splits.values()
            for aspect in ("records", "source", "family", "mode", "stratum", "teacher")
            for value in counts.get(aspect, {})
        )
        rows = tuple(
            (f"{aspect}: {value}",
             *(f"{c.get(aspect, {}).get(value, 0):,}" for c in splits.values()))
            for aspect, value in keys
        )  # fmt: skip
        if rows:
            yield Table(f"Corpus: {part}", ("", *splits), rows)


def _diagnoses(law: Manifest, results: Mapping[str, Any]) -> Iterator[Table]:
    found: Mapping[str, Mapping[str, Any]] = results.get("diagnosis", {})
    if found:
        names = dict.fromkeys(key for values in found.values() for key in values)
        rows = tuple((n, *(_plain(values.get(n)) for values in found.values())) for n in names)
        note = "waggle diagnose; free greedy decoding; equivariance in both canon orders"
        yield Table(
            "Held-out diagnosis", ("measure", *found), rows, (note, *misplaced(law, results))
        )


def _run(law: Manifest, run: Mapping[str, Any]) -> Table:
    """Score and messages of every method, a line for each task family and population."""
    methods = [m for m in run["laws"] if any(c["method"] == m for c in run["cells"])]
    lines: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
    every = most(run)
    for c in run["cells"]:
        fewer = f" ({c['episodes']})" if c["episodes"] < every[c["task"], c["n"]] else ""
        shown = f"{number(c['score'])} / {number(c['messages'], 2)}{fewer}"
        lines[c["task"], c["n"]][c["method"]] = shown
    rows = tuple(
        (task, str(n), *(line.get(m, "—") for m in methods)) for (task, n), line in lines.items()
    )
    seeds = run["seeds"]
    notes = (
        f"score / delivered messages per agent, (of so many episodes) where others have more; "
        f"{run['command']}",
        f"seeds {seeds[0]} to {seeds[-1]} ({len(seeds)}), episodes that failed: {run['failed']}"
        if seeds else "no finished episode",
        *strangers(law, run),
    )  # fmt: skip
    return Table(str(run["title"]), ("task", "N", *methods), rows, notes)


def _decoding(law: Manifest, runs: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    """How this law's decodes became executable, run by run."""
    rows = []
    for run in runs:
        for method in own(law, run):
            cells = [c for c in run["cells"] if c["method"] == method]
            total = sum(c["updates"] for c in cells)
            counts = [sum(c["stages"][s] for c in cells) for s in STAGES]
            rows.append((run["title"], method, f"{total:,}", *(_share(n, total) for n in counts)))
    if rows:
        yield Table("Decoding in closed loop", ("run", "method", "updates", *STAGES), tuple(rows))


def _share(count: int, total: int) -> str:
    return f"{count / total:.2%}" if total else "—"


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "—" if value is None or value == "" else str(value)
