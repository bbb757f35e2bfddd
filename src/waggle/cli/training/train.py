"""`waggle train RECIPE`: Swarm-Consistent Distillation in one command."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from waggle.api.progress import Progress
from waggle.cli import console
from waggle.cli.options import make_law
from waggle.cli.setup.recipes import bundled
from waggle.cli.training.common import FailedJobs, Phases, one_speaks, updates_on
from waggle.core.errors import ConfigError
from waggle.evaluate.factorial import SEARCH

if TYPE_CHECKING:
    from waggle.scd.config import Arm
    from waggle.scd.run.data import StageTwoData
    from waggle.scd.run.factorial import Cell
    from waggle.scd.run.stages import Stages
    from waggle.scd.run.workers import Workers


def train(
    recipe: Path,
    /,
    *,
    arm: Literal["decision", "orbit", "field", "scd", "warm-start", "all"] = "scd",
    seed: int = 0,
    seeds: int = 1,
    jobs: int = 1,
    corpus: Path | None = None,
    out: Path = Path("runs/train"),
    workers: int = 1,
    views: int = 0,
    native: int = 0,
    start: Path | None = None,
    arms: Path | None = None,
) -> int:
    """Train a law from a recipe: corpus, stage one, transitions, stage two, export, diagnosis.

    Stage one (the decision-supervised warm start) is trained once per seed and shared by the four
    arms; stage two follows. A recipe with [harvest] first builds its token corpus; the data of
    stage two is then generated during stage one. The same command resumes an interrupted run from
    its latest checkpoint, on the same trajectory; a finished run keeps only laws and selected
    weights. For several GPUs: `accelerate launch --multi_gpu -m waggle train ...`. Example, taking
    one or two minutes:

    `waggle train recipes/tiny.toml --out runs/tiny`

    Args:
        recipe: Training recipe: a file, or a name of `waggle recipes list` such as tiny.
        arm: Arm to train: `decision`, `orbit`, `field` or `scd`; `warm-start` stops after stage
            one; `all` trains and diagnoses the four arms (OUT/factorial.json).
        seed: Training seed; arms with the same seed share everything but the weights of the losses.
        seeds: With `--arm all`: number of paired seeds, trained from one warm start.
        jobs: Number of processes that play transitions with the warm start and, with `--arm all`,
            train and diagnose arms in parallel; on one GPU they share its memory.
        corpus: Folder of the corpus; built and labelled if missing. Default: OUT/corpus.
        out: Run directory.
        workers: Number of processes that build and encode the corpus.
        views: Number of held-out synthetic views to diagnose the law on; 200 if unset with `--arm
            all`.
        native: Number of native views of development seeds to diagnose the law on.
        start: Folder of a warm start of this recipe, used instead of stage one; or of a `waggle
            tune` search for it, whose warm start, corpus and chosen rate are used.
        arms: With `--arm all`: folder for ARM-SEED.json files, used by reports. Default: OUT/arms.
    """
    from waggle.scd.config import read_recipe
    from waggle.scd.files import read_json
    from waggle.scd.run import factorial
    from waggle.scd.run.data import StageTwoData
    from waggle.scd.run.stages import Stages, check_warm_start
    from waggle.scd.run.tune import taken
    from waggle.scd.run.workers import started

    settings = read_recipe(bundled(recipe))
    if arm == "all" and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError("--arm all trains arms side by side by --jobs; start it as one process")
    if start is not None:  # checked before any long work begins
        if arm == "warm-start":
            raise ConfigError("--start leaves stage one out: name another --arm")
        if (search := read_json(start / SEARCH)) is not None:
            settings, start, corpus = taken(search, start, settings, corpus)
            console.note(f"rate of stage two, as the search chose it: {settings.stage_two.rate:g}")
        check_warm_start(start, settings)
    phases = Phases()
    folder = corpus or out / "corpus"
    chosen = range(seed, seed + seeds) if arm == "all" else range(seed, seed + 1)
    planned = factorial.cells(
        settings, folder, out, chosen, views=views or 200, native=native, start=start
    )
    if arm == "warm-start":
        planned = []
    data = StageTwoData(settings, folder, planned, workers, arm == "all")
    with one_speaks(), started(planned if arm == "all" else [], jobs) as processes:
        with Progress() as tell:
            watch = updates_on(tell)
            stages = Stages(settings, folder, out, seed, watch=watch, workers=workers, start=start)
            law = _both_stages(stages, arm, data, jobs, phases, tell)
        lost = 0
        if arm == "all":
            stages.release()
            with phases("factorial"):
                lost = _factorial(planned, jobs, arms or out / "arms", processes)
    if not stages.processes.main:
        return 0
    if arm != "all" and (views or native):
        with phases("diagnosis"):
            _diagnosed(law, stages, views, native)
    stages.tidy(law)
    phases.show(out)
    console.say(f"law: {law}")
    return 1 if lost else 0


def _both_stages(
    stages: Stages, arm: str, data: StageTwoData, jobs: int, phases: Phases, tell: Progress
) -> Path:
    """Train the stages before the arms of a factorial, or one arm; return the law."""
    from waggle.scd.run.data import play_transitions

    if stages.harvested and not stages.warm:
        with phases("tokens"):
            stages.tokens(tell)
    main = stages.processes.main  # this process makes the data, and the others wait for it
    beside = stages.harvested and not stages.warm
    making = data.made_beside(beside, phases) if main else nullcontext()
    with making, phases("stage one"):
        law = stages.warm_start()
    if arm == "warm-start":
        return law
    with phases("transitions"), stages.processes.first():
        play_transitions(stages.store, stages.recipe, str(law), progress=tell, workers=jobs)
    with phases("preparation"):
        if main:
            data.encode()
    if arm == "all":
        return law
    with phases("stage two"):
        return stages.arm(cast("Arm", arm))


def _factorial(planned: list[Cell], jobs: int, arms: Path, processes: Workers | None) -> int:
    """Train and diagnose the four arms of every seed; write each result as soon as it is ready.

    Returns:
        the number of arms that could not be trained or diagnosed.
    """
    from waggle.scd.run import factorial
    from waggle.scd.run.workers import run_all

    lost = FailedJobs()
    found: list[dict[str, Any]] = []
    with Progress() as tell:
        for result in run_all(planned, jobs, lost, processes):
            factorial.write_arm(arms, result)
            found.append(result)
            _summary(planned[0].out, found)
            now = f"seed {result['seed']} {result['arm']}"
            tell("arms", len(found), len(planned), failed=len(lost), now=now, line=True)
    shown = ("seed", "arm", "nll", "synthetic exact", "equivariance shuffled decoded",
             "probe eventful", "train head orbit_accuracy")  # fmt: skip
    rows = _summary(planned[0].out, found)
    console.table("Factorial", shown, [tuple(row.get(name, "") for name in shown) for row in rows])
    for name, reason in lost.items():
        console.say(f"lost: {name}: {reason}")
    return len(lost)


def _summary(out: Path, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Write the numbers of the finished arms as one table, and return its rows."""
    from waggle.scd.diagnose.law import numbers
    from waggle.scd.run import factorial

    rows = [numbers(row) for row in factorial.relative(found)]
    (out / "factorial.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return rows


def _diagnosed(law: Path, stages: Stages, views: int, native: int) -> None:
    """Measure the law on held-out decisions and write the result beside it."""
    from waggle.scd.diagnose.law import Findings, diagnose_law, numbers

    findings = Findings(stages.store, views=views, native=native, seed=0)
    result = numbers(diagnose_law(findings, make_law(str(law)), stages.recipe.order))
    (law.parent / "diagnosis.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    console.table(f"Diagnosis of {law}", ("measure", "value"), list(result.items()))
