"""The model card of a shipped law, generated from results only.

Every number comes from `law.json` and `results.json` (diagnosis, datasheet, rows of runs). The only
text written by hand is the notes on failures, which are also stored in the results. The same two
files give the same card, so a card that does not match its law can be detected.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from waggle import shipped
from waggle.core.order import Order
from waggle.core.record import STAGES
from waggle.evaluate.plan import Recipe
from waggle.laws.digest import of_manifest
from waggle.report.provenance import counted, of_other_weights, weights_of_shipped_laws
from waggle.report.rows import Rows, family, grouped, mean, metric
from waggle.report.tables import Table, markdown, number
from waggle.scd.config import StageTwo, objective, terms
from waggle.shipped import SOURCE, Manifest

EXPERT, GOAL = "expert", 0.95
"""The reference law, and the share of its score below which a task counts as a failure."""
UNSEEN = {
    "Synchronization": "swarmbench/synchronization", "Flocking": "swarmbench/flocking",
    "Transport": "swarmbench/transport", "AgentsNet": "agentsnet",
}  # fmt: skip
"""What distillation never plays, as the card and as settings name it."""
Run: TypeAlias = Mapping[str, Any]
"""The summary of a run in a card, as returned by `run_results`."""


def run_results(recipe: Recipe, rows: Rows, command: str) -> dict[str, Any]:
    """Return the summary of a run for a card: means per method, task family and population.

    Only rows that count in tables are used: planned rows whose seed is finished on all tasks.
    """
    kept = counted(rows, recipe)
    cells = grouped(kept.rows, lambda row: (family(row), row.n, row.method))
    return {
        "title": recipe.title,
        "command": command,
        "seeds": sorted({row.seed for row in kept.rows}),
        "failed": len(kept.failed),
        "laws": {name: spec.law for name, spec in recipe.methods.items()},
        "cells": [_cell(*key, cells[key]) for key in sorted(cells)],
        "weights": weights_of_shipped_laws(kept.rows, recipe),
    }


def _cell(task: str, n: int, method: str, rows: Rows) -> dict[str, Any]:
    updates = sum(row.counters.get("updates", 0) for row in rows)
    stages = {s: sum(row.counters.get(f"stage.{s}", 0) for row in rows) for s in STAGES}
    return {
        "task": task, "n": n, "method": method, "episodes": len(rows), "updates": updates,
        "score": mean(rows, metric("score")), "messages": mean(rows, metric("messages")),
        "stages": stages,
    }  # fmt: skip


def card(law: Manifest, results: Mapping[str, Any]) -> str:
    """Return the model card as Markdown."""
    runs = results.get("runs", ())
    tables = [
        _facts(law),
        _settings("Training settings", law.recipe, law.order, law.training),
        *_earlier(law),
        *_counts(results),
        *([ranks_table(ranks)] if (ranks := results.get("ranks")) else []),
        *_datasheet(results.get("corpus", {})),
        *_diagnoses(law, results),
        *(_run(law, run) for run in runs),
        *_decoding(law, runs),
    ]
    known = "\n".join(f"* {text}" for text in failures(law, results))
    parts = [_front(law), _about(law), *map(markdown, tables), f"### Known failures\n\n{known}\n"]
    return "\n".join(parts)


def _front(law: Manifest) -> str:
    library = "transformers" if law.kind == "full" else "peft"
    base = "" if law.kind == "full" else f"base_model: {law.backbone}\n"
    return f"---\nlicense: apache-2.0\nlibrary_name: {library}\n{base}tags: [waggle, swarm]\n---\n"


def _about(law: Manifest) -> str:
    what = "a whole model" if law.kind == "full" else f"an adapter on {law.backbone}"
    called = law.name if law.name in shipped.names() else "FOLDER"
    unseen = ", ".join(_never_trained_on(law))
    return (
        f"# {law.name}, a Waggle law\n\n"
        f"One anonymous local law for self-organizing swarms, trained by {_objective(law)}. It "
        "reads one bounded local view and answers with one canonical JSON "
        f"decision. This is {what} in bfloat16; the training heads are not part of it. Use it with "
        f"`waggle run TASK --law {called}`; views are then shown in {law.order} order, which it "
        f"was trained in.\n\nNever trained on: {unseen}.\n"
    )


def _never_trained_on(law: Manifest) -> Iterator[str]:
    """Yield what neither the law nor an earlier training of it has played."""
    recipes = [law.recipe, *(each["recipe"] for each in law.earlier)]
    played = [task for recipe in recipes for task in recipe.get("tasks", ())]
    for name, task in UNSEEN.items():
        if not any(f"{one}/".startswith(f"{task}/") or f"{task}/".startswith(f"{one}/")
                   for one in played):  # fmt: skip
            yield name


def _stage_two(recipe: Mapping[str, Any]) -> StageTwo:
    """Return the settings of stage two; unknown settings of earlier versions are dropped."""
    known = recipe.get("stage_two", {})
    return StageTwo(**{name: known[name] for name in StageTwo.model_fields if name in known})


def _objective(law: Manifest) -> str:
    if _from_outcomes(law.training):
        taught = any(not _from_outcomes(each["training"]) for each in law.earlier)
        return f"learning from outcomes, {'after imitation' if taught else 'without a teacher'}"
    return objective(law.order, _stage_two(law.recipe), str(law.training.get("objective")))


def _from_outcomes(training: Mapping[str, Any]) -> bool:
    return training.get("learned from") == "outcomes"


def _facts(law: Manifest) -> Table:
    size = sum(s.bytes for name, s in law.files.items() if name.endswith(".safetensors"))
    rows = [
        ("teacher", law.teacher),
        ("backbone", law.backbone),
        ("canon order", law.order),
        ("weights", f"{law.parameters:,}"),
        ("weight files, bytes", f"{size:,}"),
        *((f"seed: {name}", str(value)) for name, value in law.seeds.items()),
        *((name, _plain(value)) for name, value in _flat(law.training)),
        ("objective", _objective(law)),
    ]
    return Table("The law", ("", ""), tuple(dict(rows).items()))


def _earlier(law: Manifest) -> Iterator[Table]:
    """Yield the results and the settings of every earlier training, the first one first."""
    for place, before in enumerate(law.earlier, 1):
        facts = tuple((name, _plain(value)) for name, value in _flat(before["training"]))
        yield Table(f"Training {place}: {before['law']}", ("", ""), facts)
        title = f"Training {place}: settings"
        yield _settings(title, before["recipe"], law.order, before["training"])


def _settings(
    title: str, recipe: Mapping[str, Any], order: Order, training: Mapping[str, Any]
) -> Table:
    """Return the settings of a training, without the weights of unused terms."""
    if _from_outcomes(training):
        facts = tuple((name, _plain(value)) for name, value in _flat(recipe))
        return Table(title, ("setting", "value"), facts)
    active = terms(order, _stage_two(recipe), str(training.get("objective")))
    unused = {f"lambda_{term}" for term in ("orbit", "field") if term not in active}
    rows = tuple(
        (f"{part}.{name}", _plain(value))
        for part, settings in recipe.items()
        if isinstance(settings, Mapping)
        for name, value in _flat(settings)
        if name not in unused
    )
    return Table(title, ("setting", "value"), rows)


def _counts(results: Mapping[str, Any]) -> Iterator[Table]:
    """Yield tables of the token corpus and of the durations of the training phases."""
    tokens, phases = results.get("tokens", {}), results.get("phases", {})
    if tokens:
        rows = tuple((split, f"{count:,}") for split, count in tokens.items())
        note = "prompts and records of stage one, doubles left out"
        yield Table("Token corpus", ("split", "sequences"), rows, (note,))
    if phases:
        every = {**phases, "all": round(sum(phases.values()), 1)}
        rows = tuple((name, number(seconds, 1)) for name, seconds in every.items())
        yield Table("Phases of training", ("phase", "seconds"), rows)


def ranks_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Tabulate how much of the trained change adapters of several ranks keep."""
    body = tuple(
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
    return Table("Size of the adapter", head, body, notes)


def _datasheet(sheet: Mapping[str, Any]) -> Iterator[Table]:
    """Yield tables of corpus counts; `waggle corpus stats` has further aspects."""
    facts = {k: v for k, v in sheet.items() if k not in ("decisions", "transitions", "settings")}
    if facts:
        yield Table("Corpus", ("", ""), tuple((k, _plain(v)) for k, v in _flat(facts)))
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
        notes = (note, *other_diagnoses(law, results))
        yield Table("Held-out diagnosis", ("measure", *found), rows, notes)


def _run(law: Manifest, run: Run) -> Table:
    """Tabulate score and messages of every method, one row per task family and population."""
    methods = [m for m in run["laws"] if any(c["method"] == m for c in run["cells"])]
    lines: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
    every = _most_episodes(run)
    for c in run["cells"]:
        fewer = f" ({c['episodes']})" if c["episodes"] < every[c["task"], c["n"]] else ""
        cell = f"{number(c['score'])} / {number(c['messages'], 2)}{fewer}"
        lines[c["task"], c["n"]][c["method"]] = cell
    rows = tuple(
        (task, str(n), *(line.get(m, "—") for m in methods)) for (task, n), line in lines.items()
    )
    seeds = run["seeds"]
    notes = (
        f"score / delivered messages per agent, (of so many episodes) where others have more; "
        f"{run['command']}",
        f"seeds {seeds[0]} to {seeds[-1]} ({len(seeds)}), episodes that failed: {run['failed']}"
        if seeds else "no finished episode",
        *other_episodes(law, run),
    )  # fmt: skip
    return Table(str(run["title"]), ("task", "N", *methods), rows, notes)


def _decoding(law: Manifest, runs: Sequence[Run]) -> Iterator[Table]:
    """Yield a table of the stages at which this law's decodes became executable, per run."""
    rows = []
    for run in runs:
        for method in _methods_of(law, run):
            cells = [c for c in run["cells"] if c["method"] == method]
            total = sum(c["updates"] for c in cells)
            counts = (sum(c["stages"][s] for c in cells) for s in STAGES)
            shares = (f"{count / total:.2%}" if total else "—" for count in counts)
            rows.append((run["title"], method, f"{total:,}", *shares))
    if rows:
        yield Table("Decoding in closed loop", ("run", "method", "updates", *STAGES), tuple(rows))


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


def _methods_of(law: Manifest, run: Run) -> list[str]:
    """Return the methods of a run that use this law."""
    return [method for method, name in run["laws"].items() if name == law.name]


def _most_episodes(run: Run) -> dict[tuple[str, int], int]:
    """Return the largest number of episodes of any method, by task family and population."""
    found: dict[tuple[str, int], int] = defaultdict(int)
    for c in run["cells"]:
        found[c["task"], c["n"]] = max(found[c["task"], c["n"]], c["episodes"])
    return found


def failures(law: Manifest, results: Mapping[str, Any]) -> list[str]:
    """Return the known failures: measured shortfalls first, then the written notes."""
    found = list(_diagnosed(results.get("diagnosis", {})))
    for run in results.get("runs", ()):
        found += [*_shortfalls(law, run), *_fewer_episodes(law, run)]
    found += [str(note) for note in results.get("notes", ())]
    return found or ["None measured yet: no diagnosis and no run is part of the results."]


def _diagnosed(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield lines on views without an executable record, then on orbit pairs that disagree."""
    for name, values in found.items():
        for kind in ("synthetic", "native"):
            share = values.get(f"{kind} executable")
            if isinstance(share, float) and share < 1:
                views = values.get(f"{kind} views")
                yield f"{name}: {1 - share:.2%} of {views} {kind} views get no executable record."
    for name, values in found.items():
        for order in ("canonical", "shuffled"):
            share = values.get(f"equivariance {order} decoded")
            if isinstance(share, float) and share < 1:
                yield f"{name}: in {order} order, {share:.2%} of orbit pairs get one record."


def _shortfalls(law: Manifest, run: Run) -> Iterator[str]:
    """Yield lines on the tasks where the law scores below the expert or another method.

    A law is compared with others only on tasks on which both have all episodes.
    """
    scores: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    every = _most_episodes(run)
    for c in run["cells"]:
        if c["score"] is not None and c["episodes"] == every[c["task"], c["n"]]:
            scores[c["task"], c["n"]][c["method"]] = c["score"]
    for (task, n), by_method in scores.items():
        for name in (method for method in _methods_of(law, run) if method in by_method):
            mine = by_method[name]
            above = {
                method: score
                for method, score in by_method.items()
                if method != name
                and mine < (GOAL * score if run["laws"].get(method) == EXPERT else score)
            }
            if above:
                digits = _digits(mine, above.values())
                others = ", ".join(f"{m} {number(score, digits)}" for m, score in above.items())
                where = f"{run['title']}, {task}, N = {n}"
                yield f"{where}: {name} {number(mine, digits)}, below {others}."


def _fewer_episodes(law: Manifest, run: Run) -> Iterator[str]:
    """Yield lines on tasks left out of the comparison because the law has fewer episodes."""
    every = _most_episodes(run)
    for name in _methods_of(law, run):
        mine = {(c["task"], c["n"]): c["episodes"] for c in run["cells"] if c["method"] == name}
        fewer = sum(mine.get(cell, 0) < episodes for cell, episodes in every.items())
        if mine and fewer:
            yield (
                f"{run['title']}: {name} has fewer episodes than others in {fewer} of {len(every)} "
                "tasks and sizes, where it is held against nobody here."
            )


def _digits(mine: float, others: Iterable[float]) -> int:
    """Return the number of digits (3 to 6) that tells a score from the nearest one above it."""
    nearest = min(others)
    return next((d for d in (3, 4, 5) if number(mine, d) != number(nearest, d)), 6)


def other_episodes(law: Manifest, run: Run) -> list[str]:
    """Return lines on the episodes under this law's name that other or unknown weights played."""
    now, counts = of_manifest(law), run.get("weights", {})
    found = {name: of_other_weights(counts.get(name, {}), now) for name in _methods_of(law, run)}
    return [f"{name}: {text}; this law has {now}" for name, text in found.items() if text]


def other_diagnoses(law: Manifest, results: Mapping[str, Any]) -> list[str]:
    """Return a line on the diagnoses that may be of other weights than this law's, if any.

    Results that were gathered before diagnoses contained a weights digest are not reported.
    """
    now = of_manifest(law)
    same = {now, results.get(SOURCE) or now}
    parts = []
    for name, values in results.get("diagnosis", {}).items():
        if (weights := values.get("weights", now)) not in same:
            kind = f"other weights ({weights})" if weights else "weights that it does not name"
            parts.append(f"{name} by {kind}")
    text = f"diagnoses not known to be of this law, which has {now}: {', '.join(parts)}"
    return [text] if now and parts else []
