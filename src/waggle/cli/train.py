"""`waggle train RECIPE` and `waggle diagnose LAW`: Swarm-Consistent Distillation as commands."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from waggle.cli import console
from waggle.cli.corpus import make_corpus, player_of, telling
from waggle.core.errors import ConfigError
from waggle.core.seeds import Split
from waggle.corpus.store import Store
from waggle.runtime.sync import native_order

if TYPE_CHECKING:
    from waggle.scd.stages import Stages
    from waggle.scd.trainer import Watch

Flag = Annotated[bool, Parameter(negative="")]
_SHOWN = ("nll", "orbit.accuracy", "field", "validation.nll")


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
) -> None:
    """Train a law by a recipe: corpus, stage one, transitions, stage two, export, diagnosis.

    What is there already is not made again. A recipe with [harvest] first makes its token corpus
    with all workers; the decision corpus of stage two is built beside stage one. Stage one (the
    decision-supervised warm start) is trained once per seed and shared by the four arms;
    transitions are collected with it if the corpus has none; stage two follows. The same command
    resumes an interrupted run from its newest checkpoint, to the same trajectory. For several
    GPUs: `accelerate launch --no-python waggle train ...`.

    Args:
        recipe: A recipe file, such as recipes/tiny.toml.
        arm: `decision`, `orbit`, `field` or `scd`; `warm-start` stops after stage one; `all`
            trains and diagnoses the four arms (OUT/factorial.json).
        seed: Training seed; arms of one seed share everything but the weights of the losses.
        seeds: With `--arm all`: so many paired seeds from one warm start.
        jobs: With `--arm all`: arms trained at once, each in a process of its own.
        corpus: Folder of the corpus; by default OUT/corpus. Built and labelled if it is not there.
        out: Folder of the run.
        workers: Processes that make the corpus.
        views: Diagnose the law on so many held-out synthetic views.
        native: And on so many native views of evaluation seeds.
    """
    from waggle.scd.config import read_recipe
    from waggle.scd.stages import Stages

    settings = read_recipe(recipe)
    phases = Phases()
    folder = corpus or out / "corpus"
    with watching() as watch, telling() as tell:
        stages = Stages(settings, folder, out, seed, watch=watch, workers=workers)
        if stages.harvested:
            with phases("tokens"):
                stages.tokens(tell)
        with _corpus_beside(stages, phases), phases("stage one"):
            law = stages.warm_start()
        if arm != "warm-start":
            with phases("transitions"):
                _transitions(stages, settings.transitions.law, law)
            with phases("stage two"):
                law = stages.arm(arm) if arm != "all" else law
    if arm == "all":
        with phases("factorial"):
            _factorial(stages, range(seed, seed + seeds), jobs, views, native)
    elif views or native:
        with phases("diagnosis"):
            _diagnosed(law, stages, views, native)
    phases.show(out)
    console.say(f"law: {law}")


def _factorial(stages: Stages, seeds: range, jobs: int, views: int, native: int) -> None:
    """Train and diagnose the four arms of every seed, and write one table."""
    from waggle.scd import factorial

    out = stages.folder.parent
    planned = factorial.cells(
        stages.recipe, stages.store.path, out, seeds, views=views or 200, native=native
    )
    found = []
    for result in factorial.run_all(planned, jobs):
        found.append(result)
        console.note(f"seed {result['seed']} {result['arm']}: {len(found)}/{len(planned)}")
    rows = factorial.relative(found)
    (out / "factorial.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    shown = ("seed", "arm", "synthetic exact", "equivariance shuffled decoded", "probe eventful",
             "train head orbit_accuracy")  # fmt: skip
    table = [tuple(row.get(name, "") for name in shown) for row in rows]
    console.table("Factorial", shown, table)


class Phases:
    """How long each part of a run took."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Time a part."""
        start = time.perf_counter()
        yield
        self._seconds[name] = round(time.perf_counter() - start, 1)
        console.note(f"{name}: {self._seconds[name]} s")

    def show(self, out: Path) -> None:
        """Print the table and keep it beside the run."""
        rows = [*self._seconds.items(), ("all", round(sum(self._seconds.values()), 1))]
        console.table("Seconds per phase", ("phase", "seconds"), rows, right=1)
        (out / "phases.json").write_text(json.dumps(self._seconds, indent=1), encoding="utf-8")


@contextmanager
def _corpus_beside(stages: Stages, phases: Phases) -> Iterator[None]:
    """Make the decision corpus if there is none: beside stage one where that does not need it."""
    parts = stages.store.manifest().parts if stages.store.exists() else {}
    if parts.get("decisions"):
        yield
        return
    if not stages.harvested:
        with phases("corpus"):
            make_corpus(stages.store.path, stages.recipe.corpus, stages.workers)
        yield
        return
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        spare = max(1, stages.workers // 2)
        made = pool.submit(make_corpus, stages.store.path, stages.recipe.corpus, spare)
        yield
        with phases("corpus, after stage one"):
            made.result()


def _diagnosed(law: Path, stages: Stages, views: int, native: int) -> None:
    """Measure the law on held-out decisions and write the result beside it."""
    from waggle.scd.findings import Findings, diagnose_law

    findings = Findings(
        stages.store, views=views, native=native, seed=0,
        evaluation_seed=Split.EVALUATION.value.start,
    )  # fmt: skip
    result = diagnose_law(findings, player_of(str(law), {}), stages.recipe.order)
    (law.parent / "diagnosis.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    console.table(f"Diagnosis of {law}", ("measure", "value"), list(result.items()))


def _transitions(stages: Stages, player: str, warm_start: Path) -> None:
    """Collect transitions with the recipe's player if the corpus has none."""
    if stages.store.manifest().parts.get("transitions"):
        return
    from waggle.corpus.transitions import write

    law = player_of(str(warm_start) if player == "warm-start" else player, {})
    with telling() as tell:
        write(
            stages.store, stages.recipe.transitions, law, order=stages.recipe.order, progress=tell
        )


@contextmanager
def watching() -> Iterator[Watch]:
    """Show a bar with the latest metrics on a terminal; elsewhere a line now and then."""
    screen = console.err()
    if not screen.is_terminal:
        yield _line
        return
    columns = (
        TextColumn("updates"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[now]}"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=screen, transient=True) as bars:
        job = bars.add_task("updates", total=None, now="")

        def watch(update: int, updates: int, values: Mapping[str, float]) -> None:
            bars.update(job, completed=update + 1, total=updates, now=_now(values))

        yield watch


def _line(update: int, updates: int, values: Mapping[str, float]) -> None:
    if "validation.nll" in values:
        console.note(f"update {update + 1}/{updates}  {_now(values)}")


def _now(values: Mapping[str, float]) -> str:
    return "  ".join(f"{name} {values[name]:.4f}" for name in _SHOWN if name in values)


def diagnose(
    law: str,
    /,
    *,
    law_options: Annotated[dict[str, str] | None, Parameter(name="--law", show=False)] = None,
    corpus: Path = Path("corpus"),
    order: Literal["shuffled", "canonical"] | None = None,
    views: int = 800,
    native: int = 0,
    transitions: int = 4752,
    seed: int = 0,
    baseline: Path | None = None,
    out: Path | None = None,
    json: Flag = False,
) -> None:
    """Measure a law's decisions and structure on held-out data.

    Held-out decisions (valid JSON, schema, executable, macro-F1 of the six modes, exact match),
    deployed equivariance in both canon orders with free decoding, and for a trained folder the
    frozen-probe field loss and the training-head columns.

    Args:
        law: The folder of a trained law (`.../scd/law`), or a law's name.
        law_options: Options of the law, as `--law.KEY VALUE`.
        corpus: Folder of the corpus, for its test split and transitions.
        order: Canon order of the decisions; by default the one the law was trained in.
        views: Held-out synthetic views.
        native: Native views of evaluation seeds besides, labelled by the expert.
        transitions: At most so many transitions to fit and to evaluate the probe on.
        seed: Names the orbit elements and the probe's draws.
        baseline: Result of Decision only (a JSON file of this command); probe losses are then
            also shown relative to it.
        out: Also write the result as JSON here.
        json: Print one JSON object instead of text.
    """
    from json import dumps

    from waggle.scd.findings import Findings, diagnose_folder, diagnose_law

    if views < 1:
        raise ConfigError("--views must be at least 1")
    store, folder = Store(corpus), Path(law)
    player = player_of(law, law_options or {})
    trained = (folder / "waggle.json").exists()
    findings = Findings(store, views=views, native=native, seed=seed,
                        evaluation_seed=Split.EVALUATION.value.start)  # fmt: skip
    result: dict[str, Any] = diagnose_law(findings, player, order or native_order(player))
    if trained:
        result |= diagnose_folder(findings, folder, transitions)
    _relative(result, baseline)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(dumps(result, indent=1), encoding="utf-8")
    if json:
        console.dump(result)
        return
    rows = [(name, value) for name, value in result.items()]
    console.table(f"Diagnosis of {law}", ("measure", "value"), rows)


def _relative(result: dict[str, Any], baseline: Path | None) -> None:
    """Add probe losses divided by those of Decision only."""
    if baseline is None:
        return
    import json

    try:
        base = json.loads(baseline.read_text(encoding="utf-8"))
        for name in ("probe all", "probe eventful"):
            if name in result:
                result[f"{name}, relative"] = result[name] / base[name]
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
        raise ConfigError(
            f"{baseline} is no result of `waggle diagnose --out`; diagnose the decision arm first"
        ) from None
