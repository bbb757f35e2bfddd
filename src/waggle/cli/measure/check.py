"""`waggle check …`: check a substrate, a law, a record, a run or a set of recorded vectors.

The exit code of every check is 1 if a problem was found.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from waggle import plugins
from waggle.cli import checkout, console
from waggle.cli.options import AsJson, Chosen, LawOptions, Size, at_least_one, make_law, words
from waggle.core.errors import ConfigError, suggest
from waggle.core.seeds import Split
from waggle.runtime.records import read

if TYPE_CHECKING:
    from waggle.testing import Report

SHOWN = 20
"""Maximum number of differing episodes that are listed; all of them are counted."""
VECTORS = {name: f"conformance.{name}" for name in ("agentsnet", "silo", "swarmbench")}
"""Substrate -> the module of a checkout whose `check_vectors` compares recorded files."""


def substrate(
    name: str, /, *, task: str | None = None, n: Size = 8,
    seed: int = Split.DEVELOPMENT.start, json: AsJson = False,
) -> int:  # fmt: skip
    """Check the invariants of a substrate.

    Plays short episodes and checks that views are bounded and contain no forbidden key, proposals
    are legal, sensing changes nothing, a seed determines the episode, the order of nodes does not
    matter, shares average to their score, a relabelled swarm gives the relabelled trajectory bit
    for bit on both engines, also under delay, loss and churn, messages contain only what the
    writer's view shows, and an action that a law chooses is executed whatever was received or is
    held. The exit code is 1 if any check fails. Example:

    `waggle check substrate silo --task III-26`

    Args:
        name: Substrate name from `waggle list substrates`.
        task: Task of the substrate. Default: all of them.
        n: Agents in the test episodes; the substrate must allow this number.
        seed: Seed of the test episodes.
    """
    from waggle.testing import check_substrate

    at_least_one(n=n)
    made = plugins.get_substrate(name)
    chosen = None if task is None else plugins.find_task(f"{name}/{task.rpartition('/')[2]}").task
    return _show(check_substrate(made, chosen, n=n, seed=seed), json)


def law(
    name: str,
    /,
    *,
    law_options: LawOptions = None,
    substrate: str = "beacon",
    task: str | None = None,
    n: Size = 8,
    seed: int = Split.DEVELOPMENT.start,
    order: Literal["shuffled", "canonical"] | None = None,
    json: AsJson = False,
) -> int:
    """Check the invariants of a law.

    Gives the law views of real episodes and checks: one decode per request, the same for the same
    request whatever else is in the batch, admissible at first decode, equivalent decisions for
    equivalent views, and relabelled trajectories for relabelled swarms. The exit code is 1 if any
    check fails. Pass the law's options as `--law.KEY VALUE`. Example:

    `waggle check law nano --substrate silo --task III-26`

    Args:
        name: Name from `waggle list laws`, or a law's folder.
        substrate: Substrate that provides the views.
        task: Task of the substrate. Default: the first.
        n: Agents in the test episodes.
        seed: Seed of the test episodes.
        order: Order of the records in the views. Default: the law's own order.
    """
    from waggle.testing import check_law

    at_least_one(n=n)
    made = make_law(name, law_options)
    plugins.get_substrate(substrate)
    found = check_law(made, substrate, task, n=n, seed=seed, order=order)
    if not found.passed:
        console.note(f"the views are of {substrate}; a law of another world needs --substrate")
    return _show(found, json)


def _show(report: Report, json: bool) -> int:
    if json:
        rows = [
            {"check": c.name, "about": c.about, "passed": c.passed, "finding": c.finding}
            for c in report.checks
        ]
        console.dump({"ok": report.passed, "subject": report.subject, "checks": rows})
    else:
        console.say(str(report))
    return 0 if report.passed else 1


def record(path: Path, /, *, json: AsJson = False) -> int:
    """Check that a record file is complete.

    Reads every entry and checks that there is one header, the rounds in order, and one footer.
    `waggle replay` also recomputes the episode. The exit code is 2 if the file is not a complete
    record.

    Args:
        path: Record file written by `waggle run`.
    """
    episode = read(path)
    case, rounds = episode.header.case, len(episode.rounds)
    updates = sum(len(r.updates) for r in episode.rounds)
    task = plugins.Task(case.substrate, case.task).name
    if json:
        counts = {"rounds": rounds, "updates": updates, "scores": dict(episode.footer.scores)}
        console.dump({"ok": True, "record": str(path), "task": task, "n": case.n, **counts})
    else:
        console.say(
            f"whole: {task}, n {case.n}, seed {case.seed}, law {episode.header.law}, "
            f"{rounds} rounds, {updates:,} local updates"
        )
    return 0


def rows(
    folder: Path, /, *, methods: Chosen = "", cells: int = 50, workers: int | None = None,
    json: AsJson = False,
) -> int:  # fmt: skip
    """Play sampled episodes of a run or an archive again and compare them with their rows.

    Finds rows that the current code no longer reproduces. Plays cells of laws without weights,
    sampled evenly over methods, substrates and populations, and compares every score, metric and
    counter. The exit code is 1 if any differs: play that method again (`waggle eval RECIPE
    --methods METHOD --again`). Example:

    `waggle check rows results/anchors --cells 20`

    Args:
        folder: Run directory of `waggle eval`, or an archive of one.
        methods: Check only these methods, e.g. `expert,nocomm`.
        cells: Number of episodes to play.
        workers: Number of worker processes. Default: one per core.
    """
    from waggle.evaluate import executors, plan
    from waggle.evaluate.row_check import check_rows, drawn, rules
    from waggle.evaluate.rows import succeeded
    from waggle.evaluate.selection import select

    at_least_one(cells=cells)
    planned = plan.cells(plan.load_run(folder))
    here = succeeded(folder)
    if not any((cell.method, cell.id) in here for cell in planned):
        raise ConfigError(f"{folder} has no row of its own recipe; play it with `waggle eval`")
    chosen = drawn(rules(select(planned, methods=words(methods)), here), cells)
    if not chosen:
        raise ConfigError(f"{folder} has no row of a law without weights; name other --methods")
    played = list(check_rows(chosen, here, executors.make("process", workers)))
    differing = [(cell, differs) for cell, differs in played if differs]
    if json:
        found = [
            {"cell": cell.id, "method": cell.method, "differs": differs}
            for cell, differs in differing
        ]
        console.dump({"ok": not differing, "played": len(played), "differing": found})
        return 1 if differing else 0
    for cell, differs in differing[:SHOWN]:
        case = cell.case
        name = f"{cell.method} {case.substrate}/{case.task} N={case.n} seed {case.seed}"
        more = f" and {len(differs) - 1} more" if len(differs) > 1 else ""
        console.say(f"differs: {name}: {differs[0]}{more}")
    same = len(played) - len(differing)
    console.say(f"{same} of {len(played)} episodes of {folder} came out as their rows say")
    return 1 if differing else 0


def vectors(
    substrate: str, folder: Path, /, *, graphs: Path | None = None, json: AsJson = False
) -> int:
    """Replay the recorded vectors of a folder and compare.

    Prints the numbers of passed and failed vectors and the first difference. The exit code is 0
    only if at least one vector was found and none failed. Example:

    `waggle check vectors silo tests/golden/silo`

    Args:
        substrate: Substrate: swarmbench, silo or agentsnet.
        folder: Folder with the recorded vectors.
        graphs: For agentsnet: folder in which graph ids are looked up. Default: `graphs` beside
            FOLDER.
    """
    if substrate not in VECTORS:
        known, hint = ", ".join(VECTORS), suggest(substrate, list(VECTORS))
        raise ConfigError(f"no vectors are known for {substrate!r}; use one of {known}{hint}")
    if graphs is not None and substrate != "agentsnet":
        raise ConfigError("--graphs belongs to agentsnet; leave it out here")
    more = () if graphs is None else (_folder(graphs),)
    report = checkout.load(VECTORS[substrate]).check_vectors(_folder(folder), *more)
    return _show_vectors(f"{substrate} vectors", folder, report, json)


def graphs(folder: Path, /, *, json: AsJson = False) -> int:
    """Check the AgentsNet graph files of a folder.

    Each graph must be connected and simple, with the recorded diameter, maximum degree and names.
    The exit code is 0 only if at least one graph was found and none failed.

    Args:
        folder: Folder with graph JSON files.
    """
    report = checkout.load(VECTORS["agentsnet"]).check_graphs(_folder(folder))
    return _show_vectors("graphs", folder, report, json)


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise ConfigError(f"{str(path)!r} is not a folder; give the folder that holds the files")
    return path


def _show_vectors(what: str, folder: Path, report: Any, json: bool) -> int:
    counts = {"passed": report.passed, "failed": report.failed, "skipped": report.skipped}
    if json:
        found = {"ok": report.ok, **counts, "first_difference": report.first_difference}
        console.dump({"check": what, "folder": folder, **found})
        return 0 if report.ok else 1
    console.say(f"{what}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    if report.passed + report.failed == 0:
        console.say(f"nothing to check was found in {folder}")
    if report.first_difference:
        console.say(f"first difference: {report.first_difference}")
    return 0 if report.ok else 1
