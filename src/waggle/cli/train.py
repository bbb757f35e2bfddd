"""`waggle train RECIPE` and `waggle diagnose LAW`: Swarm-Consistent Distillation as commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from waggle.cli import console
from waggle.cli.corpus import player_of, telling
from waggle.core.errors import ConfigError
from waggle.core.seeds import Split
from waggle.corpus.store import Store

if TYPE_CHECKING:
    from waggle.scd.stages import Stages
    from waggle.scd.trainer import Watch

Flag = Annotated[bool, Parameter(negative="")]
_SHOWN = ("nll", "orbit.accuracy", "field", "validation.nll")


def train(
    recipe: Path,
    /,
    *,
    arm: Literal["decision", "orbit", "field", "scd", "warm-start"] = "scd",
    seed: int = 0,
    corpus: Path = Path("corpus"),
    out: Path = Path("runs/train"),
) -> None:
    """Train a law by a recipe.

    Stage one (the decision-supervised warm start) is trained once per seed and shared by the four
    arms; transitions are collected with it if the corpus has none; stage two follows. The same
    command resumes an interrupted run from its newest checkpoint, to the same trajectory. For
    several GPUs: `accelerate launch --no-python waggle train ...`.

    Args:
        recipe: A recipe file, such as recipes/tiny.toml.
        arm: `decision`, `orbit`, `field` or `scd`; `warm-start` stops after stage one.
        seed: Training seed; arms of one seed share everything but the weights of the losses.
        corpus: Folder of the corpus, labelled.
        out: Folder of the run.
    """
    from waggle.scd.config import read_recipe
    from waggle.scd.stages import Stages

    settings = read_recipe(recipe)
    with watching() as watch:
        stages = Stages(settings, corpus, out, seed, watch=watch)
        law = stages.warm_start()
        if arm != "warm-start":
            _transitions(stages, settings.transitions.law, law)
            law = stages.arm(arm)
    console.say(f"law: {law}")


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
    result: dict[str, Any] = diagnose_law(findings, player, order or _order(folder))
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


def _order(folder: Path) -> Any:
    import json

    path = folder / "waggle.json"
    if not path.exists():
        return "shuffled"
    return json.loads(path.read_text(encoding="utf-8")).get("order", "shuffled")


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
