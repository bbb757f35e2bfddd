"""`waggle check substrate | law | record`: the conformance kit and the record reader."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from waggle import plugins
from waggle.cli import console, options
from waggle.cli.flags import Flag, Size
from waggle.core.errors import ConfigError
from waggle.runtime.records import read

if TYPE_CHECKING:
    from waggle.testing import Report

DEVELOPMENT_SEED = 10_000


def substrate(
    name: str, /, *, task: str | None = None, n: Size = 8, seed: int = DEVELOPMENT_SEED,
    json: Flag = False,
) -> int:  # fmt: skip
    """Prove that a substrate is sound.

    Plays short episodes and checks: views are bounded and hold no forbidden key, proposals are
    legal, sensing changes nothing, a seed fixes the episode, the order of nodes does not matter,
    and a relabelled swarm gives the relabelled trajectory bit for bit on both engines, also under
    delay, loss and churn. The exit code is 1 if any check fails.

    Args:
        name: A substrate of `waggle list substrates`.
        task: One of its tasks; all of them if unset.
        n: Agents in the test episodes; choose a number that the substrate allows.
        seed: Seed of the test episodes.
        json: Print one JSON object instead of text.
    """
    from waggle.testing import check_substrate

    made = plugins.get_substrate(name)
    chosen = None if task is None else plugins.find_task(f"{name}/{task.rpartition('/')[2]}").task
    return _tell(check_substrate(made, chosen, n=_positive(n), seed=seed), json)


def law(
    name: str,
    /,
    *,
    law_options: Annotated[dict[str, str] | None, Parameter(name="--law", show=False)] = None,
    substrate: str = "beacon",
    task: str | None = None,
    n: Size = 8,
    seed: int = DEVELOPMENT_SEED,
    order: Literal["shuffled", "canonical"] | None = None,
    json: Flag = False,
) -> int:
    """Prove that a law is sound.

    Asks the law about the views of real episodes: one decode per request, the same for the same
    request whatever else is in the batch, admissible at first decode, the equivalent decision for
    every equivalent view, and relabelled trajectories for relabelled swarms. The exit code is 1 if
    any check fails. The law's own options follow as `--law.KEY VALUE`.

    Args:
        name: A law of `waggle list laws`, or a law's folder.
        law_options: The law's own options.
        substrate: Where the views come from.
        task: One of its tasks; the first if unset.
        n: Agents in the test episodes.
        seed: Seed of the test episodes.
        order: How the views list their records; the law's own order if unset.
        json: Print one JSON object instead of text.
    """
    from waggle.testing import check_law

    made = options.make_law(name, law_options or {})
    plugins.get_substrate(substrate)
    report = check_law(made, substrate, task, n=_positive(n), seed=seed, order=order)
    return _tell(report, json)


def record(path: Path, /, *, json: Flag = False) -> int:
    """Check that a record file is whole.

    Reads every entry and checks that there is one header, the rounds in order, and one footer.
    `waggle replay` goes further and recomputes it. The exit code is 2 if the file is not a record.

    Args:
        path: A record file, as `waggle run` writes it.
        json: Print one JSON object instead of text.
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


def _positive(n: int) -> int:
    if n < 1:
        raise ConfigError(f"-n must be at least 1, not {n}")
    return n


def _tell(report: Report, json: bool) -> int:
    if json:
        rows = [
            {"check": c.name, "about": c.about, "passed": c.passed, "finding": c.finding}
            for c in report.checks
        ]
        console.dump({"ok": report.passed, "subject": report.subject, "checks": rows})
    else:
        console.say(str(report))
    return 0 if report.passed else 1
