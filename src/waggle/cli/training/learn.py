"""`waggle learn TASK`: a law learns from the outcomes of any world that has a score."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from waggle.api.progress import Progress
from waggle.api.screen import note
from waggle.cli import console
from waggle.cli.options import Flag, words
from waggle.cli.setup.recipes import bundled
from waggle.cli.training.common import one_speaks

if TYPE_CHECKING:
    from waggle.learn.config import Settings
    from waggle.learn.learner import Watch

_SHOWN = (
    "reward",
    "dead",
    "executable",
    "choice.entropy",
    "choice.divergence",
    "decisions_per_second",
)


def learn(
    task: str,
    recipe: Path | None = None,
    /,
    *,
    n: Annotated[tuple[int, ...] | None, Parameter(name=("-n", "--n"))] = None,
    rounds: int | None = None,
    start: str | None = None,
    credit: Literal["auto", "group", "share", "progress", "frozen", "branch"] | None = None,
    temperature: float | None = None,
    minutes: float | None = None,
    batches: int | None = None,
    cases: int | None = None,
    replays: int | None = None,
    seed: int = 0,
    fidelity: int | None = None,
    shuffled: Flag = False,
    processes: int | None = None,
    out: Path = Path("runs/learn"),
) -> int:
    """Train a law from the score of a world alone, without a teacher or an expert.

    Compares episodes of one case that differ only in luck, and makes the decisions of better
    episodes more likely. A world can also provide `share(node)`, parts that average to its score.
    The law is exported only if it improves on the starting law, on development cases that were not
    used for selection. Training seeds are 0 to 9,999; evaluation seeds are never played. The same
    command resumes an interrupted run. For several GPUs: `python -m waggle.scd.train.launch
    --nproc-per-node 8 -m waggle learn ...`. Example, taking a few minutes on two cores:

    `waggle learn agentsnet/consensus -n 8 --minutes 5 --out runs/consensus`

    Args:
        task: Task name from `waggle list tasks`, several separated by commas, or a substrate for
            all of its tasks.
        recipe: Learning recipe: a file, or a name of `waggle recipes list` such as
            learn/agentsnet; options override its settings.
        n: Swarm sizes.
        rounds: Local updates per episode. Default: the task's horizon.
        start: Starting law: a shipped law, a law's folder, or `scratch`.
        credit: How decisions are credited for an outcome: `group`, `share`, `progress`, `frozen`,
            `branch`, or `auto`, which uses `share` if the world has it.
        temperature: Sampling temperature: high to explore, lower late in training.
        minutes: Time budget of the batches in minutes. A batch that has started is finished; the
            comparisons before the first and after the last batch take additional time.
        batches: Maximum number of batches of episodes.
        cases: Cases per batch; fewer make a batch shorter and its credit noisier.
        replays: Episodes per case.
        seed: Training seed.
        fidelity: After the run, compare the credit with closed-loop branches of this many
            decisions; 500 is enough.
        shuffled: Control: assign advantages to decisions at random; such a run must not learn.
        processes: Number of processes that play episodes.
        out: Run directory.
    """
    from waggle.learn.config import read_settings
    from waggle.learn.learner import Learner

    file = None if recipe is None else bundled(recipe)
    settings = read_settings(
        file, tasks=tuple(words(task)), n=n, rounds=rounds, start=start, credit=credit,
        temperature=temperature, minutes=minutes, batches=batches, cases=cases, replays=replays,
        fidelity=fidelity, shuffled=shuffled or None, processes=processes,
    )  # fmt: skip
    with one_speaks(), Progress() as tell:
        learner = Learner(settings, seed, out, _watching(settings, tell))
        played = "the development cases" + (" and those to rehearse" if settings.rehearse else "")
        note(f"first the start plays {played}; without a GPU that takes minutes")
        result = learner.learn()
    if not learner.processes.main:
        return 0
    _show(result.summary)
    gain = result.found.gain
    units = "1 case" if gain.units == 1 else f"{gain.units} cases"
    measured = f"{gain.mean:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}] over {units}"
    if result.law is None:
        few = ", too few for an interval (raise final_cases)" if gain.single else ""
        console.say(f"not better than {settings.start}: {measured}{few}; the start is kept")
        return 1
    console.say(f"gain over {settings.start}: {measured}")
    console.say(f"law: {result.law}; curves: waggle report {out}")
    return 0


def _watching(settings: Settings, tell: Progress) -> Watch:
    """Return a watcher that shows batches with the latest figures, and a line for each in a pipe.

    The paired gain over the start is that of the last comparison. The budget is of batches or of
    time, whichever is spent first.
    """
    gain = ""

    def watch(batch: int, values: Mapping[str, float]) -> None:
        nonlocal gain
        if not batch:
            note(f"the start scores {values['trial.score']:.3f}; the first batch is being played")
            return
        if "trial.low" in values:
            low, high = values["trial.low"], values["trial.high"]
            gain = f"gain {values['trial.gain']:+.3f} [{low:+.3f}, {high:+.3f}] at {batch}"
        parts = [
            f"{name.removeprefix('choice.')} {values[name]:.4g}"
            for name in _SHOWN
            if name in values
        ]
        minutes = values.get("minutes", 0.0)
        spent = min(1.0, max(batch / settings.batches, minutes / settings.minutes))
        total = max(batch, round(batch / spent)) if spent else settings.batches
        left = 60 * minutes * (1 - spent) / spent if spent else None
        tell("batches", batch, total, now="  ".join([*parts, gain]).rstrip(), left=left, line=True)

    return watch


def _show(summary: Mapping[str, Any]) -> None:
    """Print the last comparison, with the controls."""
    columns = {"start": summary["start"], "law": summary["law"]["means"]}
    columns["sampled"] = summary["sampled"]["means"]
    columns |= {name: found["means"] for name, found in summary["controls"].items()}
    rows = [(name, *(means[name] for means in columns.values())) for name in summary["start"]]
    console.table("Mean score, development cases", ("task", *columns), rows, right=1)
    if "kept" in summary:
        kept = summary["kept"]
        rows = [(name, kept["start"][name], kept["law"]["means"][name]) for name in kept["start"]]
        console.table("What was not learned but rehearsed", ("task", "start", "law"), rows, right=1)
    if "fidelity" in summary:
        found = summary["fidelity"]
        value = found["correlation"]
        console.say(
            f"credit {summary['settings']['credit']}: correlation with branches "
            f"{'undefined' if value is None else f'{value:.2f}'} over {found['decisions']} "
            f"decisions, of which {found['mattered']} mattered"
        )
