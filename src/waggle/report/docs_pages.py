"""The results pages of the documentation: one per archive, an index, and the table of the README.

    waggle report results --pages docs/results

A page has the title of its recipe, one sentence on what is compared, the methods and seeds, the
tables, and the commands that play the episodes and write the page. Pages are generated from rows
only, and the same rows give the same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from waggle.core.errors import ConfigError
from waggle.evaluate import anchors, plan
from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import read_rows
from waggle.report import page
from waggle.report.ceilings import schedule_success
from waggle.report.provenance import counted, labels, origins, provenance
from waggle.report.rows import (
    Rows,
    macro,
    mean,
    methods_of,
    metric,
    of,
    short,
    silo,
    sizes_of,
    swarmbench,
)
from waggle.report.tables import Table, markdown, number, percent

INDEX, SUMMARY = "index.md", "summary.md"
PRIMARY = "primary"
"""The archive from which the summary is made."""
SHOWN: Mapping[str, str] = {
    "nano": "nano, 10 million weights",
    "smollm2": "smollm2, adapter on 135 million",
    "expert": "expert, the rules that teach the laws",
    "fixedswarm": "FixedSwarm, hand-written control",
    "nativemsg": "NativeMsg, plain messages",
    "heuristic": "heuristic, five fixed rules",
    "relay": "relay, tells and follows without knowing the task: a floor",
    "nocomm": "NoComm, no messages",
    "random-legal": "random legal decisions, a floor",
}
"""Methods of the summary and their labels."""
CEILING = ("edge-coloured", "edge-coloured schedule, unlimited payload: a reference, not a bound")
"""The schedule beside the laws on Silo in the summary, and its label."""
LEGEND = (
    "Silo: mean success on thirty tasks, in per cent. SwarmBench: mean score on three tasks, "
    "divided by the expert's score at N = 8. N is the number of agents; higher is better. "
    "Intervals stand on the page [Primary matrix](primary.md)."
)
"""Explanation of the numbers in the summary."""
READING = "[Reading the results](../reading-results.md)"


def write(results: Path, target: Path) -> list[Path]:
    """Write the pages of all archives in a folder; return their paths."""
    folders = archives(results)
    if not folders:
        raise ConfigError(f"{results} holds no archive; name a folder such as `results`")
    texts = {f"{folder.name}.md": page_of(folder) for folder in folders}
    texts[INDEX] = index(folders)
    if results / PRIMARY in folders:
        head = f"# Summary\n\n{_generated(results)}\n\n{LEGEND}\n\n"
        texts[SUMMARY] = head + summary(results / PRIMARY)
    target.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (target / name).write_text(text, encoding="utf-8")
    return [target / name for name in sorted(texts)]


def archives(results: Path) -> list[Path]:
    """Return the archives in a folder, by name."""
    return sorted(path.parent for path in results.glob(f"*/{plan.RUN_RECIPE}"))


def _generated(results: Path) -> str:
    return f"<!-- Written by `waggle report {results.name} --pages docs/results`. -->"


def page_of(folder: Path) -> str:
    """Return the page of an archive; without a finished table, it gives the reason."""
    recipe = plan.load_run(folder)
    head = [f"# {recipe.title}", "", _generated(folder.parent), "", recipe.about, ""]
    try:
        report, kept = page.make(recipe, folder)
    except ConfigError as error:
        return "\n".join([*head, f"No table yet: {error}.", "", *_commands(folder, recipe)])
    known = provenance(kept.rows, recipe)
    shared = _shared_notes(report.tables, known)
    methods = labels(recipe, methods_of(kept.rows, recipe))
    facts = [*report.facts, *(note for note in known if note not in methods), *shared]
    lead = report.opening.markdown() if report.opening else []
    about = ["**Rows:**", "", *(f"* {text}" for text in facts)]
    about += [f"* {READING} explains measures and methods", ""]
    if kept.rows:
        about.append(markdown(_origins(kept.rows, recipe), level=2))
    shown = []
    for table in report.tables:
        own = (note for note in table.notes if note not in shared and note not in known)
        shown.append(markdown(table._replace(notes=tuple(own)), level=2))
    first = len(report.opening.table()) if report.opening else 0
    lines = [*head, *lead, *shown[:first], *about, *shown[first:]]
    return "\n".join([*lines, *_commands(folder, recipe)])


def _origins(rows: Rows, recipe: Recipe) -> Table:
    """Return the table of each method's teacher, backbone, canon order and engine."""
    found = origins(recipe, methods_of(rows, recipe))
    body = tuple((names, *origin) for origin, names in found.items())
    return Table("Methods", ("methods", "teacher", "backbone", "canon order", "engine"), body)


def _shared_notes(tables: Sequence[Table], known: Collection[str]) -> list[str]:
    """Return the notes that several tables share, except those that are printed anyway."""
    counts = Counter(note for table in tables for note in dict.fromkeys(table.notes))
    return [note for note, count in counts.items() if count > 1 and note not in known]


def _commands(folder: Path, recipe: Recipe) -> list[str]:
    """Return the commands that play the rows, show them, and write the pages."""
    results, name = folder.parent.name, folder.name
    return [
        "## Commands",
        "",
        "```sh",
        f"waggle eval {recipe.source}  # plays what is missing in runs/{Path(recipe.source).stem}",
        f"waggle report {results}/{name}  # these tables from stored rows, with figures",
        f"waggle report {results} --pages docs/results  # writes this page",
        "```",
        "",
    ]


def index(folders: Sequence[Path]) -> str:
    """Return the page that lists all others."""
    recipes = {folder.name: plan.load_run(folder) for folder in folders}
    names = sorted(recipes, key=lambda name: name != PRIMARY)
    start = "Start with the [summary](summary.md), one table. " if PRIMARY in recipes else ""
    table = Table(
        "All results",
        ("page", "what is compared"),
        tuple((f"[{recipes[name].title}]({name}.md)", recipes[name].about) for name in names),
    )
    return (
        f"# Results\n\n{_generated(folders[0].parent)}\n\n{start}{READING} says what the measures "
        f"mean and where the numbers say less than they seem to.\n\n{markdown(table, level=2)}"
    )


def summary(folder: Path) -> str:
    """Return the table of the README, with one row per method that has played all cases."""
    recipe = plan.load_run(folder)
    rows = counted(read_rows(folder), recipe).rows
    small, swarm = silo(rows), swarmbench(rows)
    fewer = short([*small, *swarm])
    body = []
    for name, text in SHOWN.items():
        if (own := of(rows, name)) and name not in fewer:
            shares = (percent(mean(silo(own, n), metric("score"))) for n in sizes_of(small))
            scores = (macro(swarmbench(own, n), anchors.normalized) for n in sizes_of(swarm))
            body.append((text, *shares, *map(number, scores)))
    bounds = (percent(schedule_success(CEILING[0], silo(rows, n))) for n in sizes_of(small))
    body.append((CEILING[1], *bounds, *(number(None) for _ in sizes_of(swarm))))
    columns = ["method", *(f"N = {n}" for n in (*sizes_of(small), *sizes_of(swarm)))]
    columns[1] = f"Silo {columns[1]}"
    columns[1 + len(sizes_of(small))] = f"SwarmBench {columns[1 + len(sizes_of(small))]}"
    lines = [columns, ["---"] * len(columns), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines).replace(" --- ", "---")
