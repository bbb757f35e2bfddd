"""The report of runs of `waggle learn`: curves, paired gains, controls, retention, settings.

    waggle learn agentsnet/consensus --seed 0 --out runs/consensus/0
    waggle learn agentsnet/consensus --seed 1 --out runs/consensus/1
    waggle report runs/consensus

Runs that differ only in their training seed form one arm: its curves are means over seeds with the
range of the seeds, or with the paired interval if there is one seed. A run with shuffled advantages
is the control of the arm with otherwise equal settings; it may be shorter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from waggle.core.errors import ConfigError
from waggle.evaluate.stats import Interval, hierarchical
from waggle.learn import runs
from waggle.learn.config import BUDGET
from waggle.learn.runs import Gain, Run
from waggle.report import page
from waggle.report.figure import (
    PALETTE,
    Figure,
    MissingLibrary,
    both,
    canvas,
    finish,
    legend,
    styled,
)
from waggle.report.tables import Table, bracketed, number, percent
from waggle.report.web.opening import Opening, plural

Numbers: TypeAlias = NDArray[np.float64]
NOT_AN_ARM = {"name", "machine", "shuffled", "fidelity"}
"""Settings that may differ between the runs of one arm."""
LABEL = 40
"""Longest label of an arm in characters."""
POINTS = 60
"""Largest number of points of a curve; batches in between are averaged."""
PANELS = (
    ("trial.gain", "held-out cases, greedy", "paired gain over the start"),
    ("reward", "training cases, sampled", "reward"),
    ("trial.executable", "held-out cases, greedy", "executable share"),
    ("choice.entropy", "sampled choices", "entropy (nats)"),
    ("choice.divergence", "from the start", "divergence (nats)"),
    ("dead", "cases whose episodes end alike", "dead groups"),
)
"""Metric, title and y axis of each panel; a metric that no run has gets none."""


Pick: TypeAlias = Callable[[Run], Gain | None]
"""Selects one comparison of a run."""


class Arm(NamedTuple):
    """Runs with the same settings and different training seeds, and their shuffled controls."""

    label: str
    runs: list[Run]
    shuffled: list[Run]


def write(folder: Path) -> page.ReportFiles:
    """Write the report of a run, or of a folder of runs.

    Raises:
        ConfigError: if no run is finished, or a file is invalid.
    """
    arms = _arms([runs.read(path) for path in runs.find(folder)])
    if not arms:
        raise ConfigError(f"{folder} holds no finished run of `waggle learn`, nor of `waggle eval`")
    facts = [_fact(arm) for arm in arms] + _unfinished(folder)
    drawn: list[Figure] = []
    try:
        drawn = [both(styled(curves), arms)]
    except MissingLibrary as error:
        facts.append(f"figures left out: {error}")
    made = [gains(arms)]
    for arm in arms:
        made += [scores(arm), *kept(arm)]
    tables = [*made, settings(arms)]
    report = page.Report(_title(arms), facts, tables, [], opening=opening_of(arms))
    return page.write_files(report, drawn, folder)


def opening_of(arms: Sequence[Arm]) -> Opening:
    """Return the opening: the settings that were learned, and in how many the law improved."""
    pooled = [_pooled(arm.runs, lambda run: run.summary.law) for arm in arms]
    above = sum(found is not None and found.above_zero for found in pooled)
    seeds = sum(len(arm.runs) for arm in arms)
    return Opening(
        f"{plural(len(arms), 'setting')} of learning from outcomes, {plural(seeds, 'run')}, each "
        "with the law that it started from, on cases that neither training nor selection has seen.",
        f"The learned law is above its start in {above} of {plural(len(arms), 'setting')}.",
    )


def _title(arms: Sequence[Arm]) -> str:
    tasks = dict.fromkeys(task for arm in arms for run in arm.runs for task in run.settings.tasks)
    return f"Learning from outcomes: {', '.join(map(_plain, tasks))[:200]}"


def _unfinished(folder: Path) -> list[str]:
    """Return a line that lists the runs with curves but no result yet, if any."""
    found = [p.parent for p in folder.glob(f"*/{runs.METRICS}")]
    names = sorted(path.name for path in found if not (path / runs.SUMMARY).exists())
    return [f"left out, not finished: {', '.join(map(_plain, names))[:400]}"] if names else []


def _arms(found: Sequence[Run]) -> list[Arm]:
    """Group runs into arms; raise an error for two runs of one seed, which are one sample."""
    sorted_runs: dict[str, tuple[list[Run], list[Run]]] = {}
    longer = {_key(run, *BUDGET): _key(run) for run in found if not run.settings.shuffled}
    for run in sorted(found, key=lambda run: run.settings.shuffled):
        key = _key(run)
        if run.settings.shuffled and key not in sorted_runs:
            key = longer.get(_key(run, *BUDGET), key)
        own, shuffled = sorted_runs.setdefault(key, ([], []))
        same = shuffled if run.settings.shuffled else own
        for other in (*own, *shuffled):
            if _tasks(other) != _tasks(run):
                raise ConfigError(
                    f"{other.name} and {run.name} have the same settings and other tasks; move one "
                    "of them away"
                )
        for other in same:
            if other.summary.seed == run.summary.seed:
                raise ConfigError(
                    f"{other.name} and {run.name} are runs of the same settings and training seed; "
                    "move one of them away"
                )
        same.append(run)
    pairs = [(own or shuffled, shuffled if own else []) for own, shuffled in sorted_runs.values()]
    labels = _labels([own[0] for own, _ in pairs]) if pairs else []
    return [Arm(label, *pair) for label, pair in zip(labels, pairs, strict=True)]


def _tasks(run: Run) -> tuple[set[str], set[str]]:
    """Return the tasks on which a run was compared: those it learned and those it rehearsed."""
    kept = run.summary.kept
    return set(run.summary.start), set(kept.start if kept else ())


def _key(run: Run, *but: str) -> str:
    return run.settings.model_dump_json(exclude={*NOT_AN_ARM, *but})


def _labels(firsts: Sequence[Run]) -> list[str]:
    """Label arms by the settings that differ, or by folder if long; a single arm by its name."""
    if len(firsts) == 1:
        return [_plain(firsts[0].settings.name)[:LABEL]]
    dumps = [run.settings.model_dump(mode="json", exclude=NOT_AN_ARM) for run in firsts]
    varied = [key for key in dumps[0] if any(dump[key] != dumps[0][key] for dump in dumps)]
    labels = [", ".join(f"{key} {_plain(dump[key])}" for key in varied) for dump in dumps]
    short = all(len(text) <= LABEL for text in labels)
    return labels if short else [_plain(run.name)[:LABEL] for run in firsts]


def _plain(value: object) -> str:
    """Return a setting as text without control characters."""
    text = json.dumps(value)
    return text[1:-1] if isinstance(value, str) else text


def _fact(arm: Arm) -> str:
    """Describe an arm: its starting law, that law's teacher, and how it learned."""
    first = arm.runs[0]
    chosen, origin = first.settings, first.summary.origin
    seeds = ", ".join(str(run.summary.seed) for run in arm.runs)
    regime = ", ".join(f"{_plain(key)} {_plain(value)}" for key, value in chosen.options.items())
    return (
        f"{arm.label}: start {_plain(chosen.start)}, teacher {origin.get('teacher', '—')}, "
        f"backbone {origin.get('backbone', '—')}, credit {chosen.credit}"
        f"{' (shuffled)' if chosen.shuffled else ''}, sampled {chosen.mode} at temperature "
        f"{chosen.temperature:g}, regime {regime or 'default'}, N = "
        f"{', '.join(map(str, chosen.n))}; training seeds {seeds}"
    )[:600]


# Tables.


def gains(arms: Sequence[Arm]) -> Table:
    """Tabulate the paired gain of every run over its start, and of every arm over its seeds."""
    body = []
    for arm in arms:
        for runs_, note in ((arm.runs, ""), (arm.shuffled, ", shuffled")):
            body += [(f"{arm.label}{note}", *_line(run)) for run in runs_]
            if len(runs_) > 1:
                pooled = _pooled(runs_, lambda run: run.summary.law)
                cases = str(pooled.units) if pooled else "—"
                body.append(
                    (f"{arm.label}{note}", "all", "—", "—", "—", bracketed(pooled, "+.3f"), cases,
                     number(_mean(runs_, lambda run: run.summary.law.executable)), "—")
                )  # fmt: skip
    modes = dict.fromkeys(run.settings.trial_mode for arm in arms for run in arm.runs)
    columns = ("run", "training seed", "batches", "selected", "minutes", "gain over the start",
               "cases", "executable", "credit fidelity")  # fmt: skip
    notes = (
        f"greedy, decoded {' or '.join(modes)}; development cases that neither training nor "
        "selection has seen; "
        "95 % paired bootstrap over cases within tasks and sizes, which weigh alike; over several "
        "training seeds these are drawn first",
        "credit fidelity: correlation of the credit with closed-loop branches (decisions tried)",
        "shuffled: the control, its credits dealt to decisions at random; it must gain nothing",
    )[: 3 if any(arm.shuffled for arm in arms) else 2]
    return Table("Gain over the starting law", columns, tuple(body), notes)


def _line(run: Run) -> tuple[str, ...]:
    summary, fidelity = run.summary, run.summary.fidelity
    known = fidelity is not None and fidelity.correlation is not None
    faith = f"{fidelity.correlation:.2f} ({fidelity.decisions:,})" if fidelity and known else "—"
    return (
        str(summary.seed), str(summary.batches), str(summary.selected), f"{summary.minutes:.1f}",
        bracketed(_interval(summary.law), "+.3f"), str(summary.law.cases),
        number(summary.law.executable), faith,
    )  # fmt: skip


def _interval(found: Gain) -> Interval:
    return Interval(found.gain, found.low, found.high, found.cases)


def _pooled(some: Sequence[Run], pick: Pick) -> Interval | None:
    """Return a gain over training seeds and cases; None if early files lack per-case gains."""
    found = [pick(run) for run in some]
    known = [each for each in found if each is not None]
    if not known or len(known) < len(found):
        return None
    if len(known) == 1:
        return _interval(known[0])
    if not all(each.gains for each in known):
        return None
    return hierarchical({name: [each.gains[name] for each in known] for name in known[0].gains})


def _mean(some: Sequence[Run], value: Callable[[Run], float | None]) -> float | None:
    """Return the mean over runs; None without runs, or if the value of any run is missing."""
    found = [value(run) for run in some]
    known = [each for each in found if each is not None]
    return fmean(known) if known and len(known) == len(found) else None


def scores(arm: Arm) -> Table:
    """Tabulate the mean scores of start, law and controls, by task and size."""
    columns: dict[str, tuple[Sequence[Run], Pick]] = {
        "law": (arm.runs, lambda run: run.summary.law),
        "law, sampled": (arm.runs, lambda run: run.summary.sampled),
        "silent": (arm.runs, lambda run: run.summary.controls.get("silent")),
        "constant": (arm.runs, lambda run: run.summary.controls.get("constant")),
        "shuffled": (arm.shuffled, lambda run: run.summary.law),
    }
    tasks = list(arm.runs[0].summary.start)
    body = []
    for task in tasks:
        start = number(fmean(run.summary.start[task] for run in arm.runs))
        cells = (number(_mean(some, _of_task(pick, task))) for some, pick in columns.values())
        body.append((task, start, *cells))
    lasts = (bracketed(_pooled(some, pick), "+.3f") for some, pick in columns.values())
    body.append(("gain over the start", "—", *lasts))
    notes = (
        "development cases, means over training seeds; greedy, decoded "
        f"{arm.runs[0].settings.trial_mode}, but `sampled` as episodes of training are",
        "silent: the law's deposits are dropped; constant: its most frequent action always, naming "
        "one contact; shuffled: trained with advantages dealt at random, which must gain nothing",
    )
    title = f"Scores and controls: {arm.label}"
    return Table(title, ("task", "start", *columns), tuple(body), notes)


def _of_task(pick: Pick, task: str) -> Callable[[Run], float | None]:
    def value(run: Run) -> float | None:
        found = pick(run)
        return None if found is None else found.means[task]

    return value


def kept(arm: Arm) -> list[Table]:
    """Tabulate how much of its score the law kept on rehearsed tasks, if there are any."""
    some = [run for run in arm.runs if run.summary.kept is not None]
    if not some:
        return []
    found = [run.summary.kept for run in some if run.summary.kept is not None]
    body = []
    for task in found[0].start:
        before = fmean(each.start[task] for each in found)
        after = fmean(each.law.means[task] for each in found)
        body.append(
            (task, number(before), number(after), percent(after / before if before else None))
        )
    gain = _pooled(some, lambda run: run.summary.kept.law if run.summary.kept else None)
    body.append(("gain over the start", "—", bracketed(gain, "+.3f"), "—"))
    columns = ("task", "start", "law", "kept (%)")
    notes = ("tasks that were rehearsed, not learned; development cases, means over seeds",)
    return [Table(f"What was kept: {arm.label}", columns, tuple(body), notes)]


def settings(arms: Sequence[Arm]) -> Table:
    """Tabulate all settings of the arms."""
    dumps = [arm.runs[0].settings.model_dump(mode="json") for arm in arms]
    rows = tuple((key, *(_plain(dump[key])[:200] for dump in dumps)) for key in dumps[0])
    return Table("Settings", ("setting", *(arm.label for arm in arms)), rows)


# Curves.


def curves(arms: Sequence[Arm]) -> Figure:
    """Draw the metrics against batches, by arm, with the shuffled control dashed."""
    axes = canvas(2, 3, width=3.0, height=2.2)
    panels = [panel for panel in PANELS if any(_points(arm.runs, panel[0]) for arm in arms)]
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    for axis, (metric, title, unit) in zip(axes, panels, strict=False):
        for place, arm in enumerate(arms):
            color = PALETTE[place % len(PALETTE)]
            _draw(axis, arm.runs, metric, color, "-", arm.label)
            _draw(axis, arm.shuffled, metric, color, "--", f"{arm.label}, shuffled")
        axis.set(title=title, ylabel=unit, xlabel="batch")
        if metric == "trial.gain":
            axis.axhline(0.0, color="#111111", linewidth=0.8)
        elif metric == "trial.executable":
            axis.set_ylim(min(0.9, axis.get_ylim()[0]), 1.0)
    if len(arms) > 1 or arms[0].shuffled:
        legend(axes, "outside lower center", 4)
    seeds = max(len(arm.runs) for arm in arms)
    note = (
        "Means over training seeds, to the last batch that all of them have; bands: their range, "
        "and for the gain of a single seed its paired 95 % interval over cases"
        if seeds > 1
        else "One training seed. Band: paired 95 % interval over cases"
    )
    return finish(axes, "learning", "Learning curves", f"{note}. Batches are averaged to at most "
                  f"{POINTS} points.")  # fmt: skip


def _draw(axis: Any, some: Sequence[Run], metric: str, color: str, line: str, label: str) -> None:
    """Draw the mean of several runs and the band around it."""
    found = _points(some, metric)
    if found is None:
        return
    batches, values = found
    axis.plot(batches, values.mean(axis=0), line, color=color, label=label)
    low, high = values.min(axis=0), values.max(axis=0)
    if len(some) == 1 and metric == "trial.gain":
        edges = _points(some, "trial.low"), _points(some, "trial.high")
        if edges[0] is None or edges[1] is None or edges[0][0].shape != edges[1][0].shape:
            return
        batches, low, high = edges[0][0], edges[0][1][0], edges[1][1][0]
    axis.fill_between(batches, low, high, color=color, alpha=0.18, linewidth=0)


def _points(some: Sequence[Run], metric: str) -> tuple[Numbers, Numbers] | None:
    """Return the batches that all runs have and each run's values there; None if there are none."""
    known = [run.metrics.get(metric, {}) for run in some]
    shared = sorted(set(known[0]).intersection(*known)) if known else []
    if not shared:
        return None
    parts = np.array_split(np.arange(len(shared)), min(POINTS, len(shared)))
    values = np.array([[one[batch] for batch in shared] for one in known])
    batches = np.array(shared, np.float64)
    means = np.stack([values[:, part].mean(axis=1) for part in parts], axis=1)
    return np.array([batches[part].mean() for part in parts]), means
