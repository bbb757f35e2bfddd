"""`waggle corpus …`: build, label and describe the data that a law is trained on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError
from rich.progress import TimeRemainingColumn

from waggle.cli import console
from waggle.cli.options import Flag, LawOptions, make_law
from waggle.core.errors import ConfigError
from waggle.corpus.curriculum import Curriculum
from waggle.corpus.curriculum import Progress as Tell
from waggle.corpus.datasheet import datasheet
from waggle.corpus.settings import CorpusSettings, TransitionSettings, one_line
from waggle.corpus.store import Store


@contextmanager
def telling() -> Iterator[Tell]:
    """Show a bar per kind of work on a terminal, and nothing elsewhere."""
    with console.bars(TimeRemainingColumn()) as bars:
        jobs: dict[str, Any] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in jobs:
                jobs[what] = bars.add_task(what, total=total)
            bars.update(jobs[what], completed=done, total=total)

        yield tell


def build(
    out: Path,
    /,
    *,
    recipe: Path | None = None,
    tasks: list[str] | None = None,
    seed: int | None = None,
    scale: int | None = None,
    bundles: int | None = None,
    native: int | None = None,
    workers: int = 1,
) -> None:
    """Generate the views of a decision corpus, unlabelled.

    Synthetic bundles of eight situation classes and native views of training-seed episodes, split
    into train, validation and test before labelling. The defaults are the paper's sizes. Example:

    `waggle corpus build runs/corpus --recipe recipes/tiny.toml`

    Args:
        out: Folder of the corpus.
        recipe: Take the settings of a recipe's [corpus] table.
        tasks: Training tasks; transfer tasks are refused.
        seed: Seed of every random draw.
        scale: Multiplies the training split.
        bundles: Bundles in the training split.
        native: Native views in the training split.
        workers: Worker processes; their number does not change the corpus.
    """
    given = {"tasks": tasks, "seed": seed, "scale": scale, "bundles": bundles, "native": native}
    settings = _settings(CorpusSettings, recipe, "corpus", given)
    with telling() as tell:
        examples = Curriculum(settings, tell).examples(workers)
    Store(out).write("views", examples, settings.model_dump(mode="json"))
    sizes = ", ".join(f"{split} {len(some):,}" for split, some in examples.items())
    console.say(f"views: {sizes} in {out}; label them with `waggle corpus label {out}`")


def make_corpus(out: Path, settings: CorpusSettings, workers: int = 1) -> None:
    """Build a corpus and let the expert label it."""
    from waggle.corpus.teacher import label, make_teacher

    store = Store(out)
    if not (store.exists() and store.manifest().parts.get("views")):
        examples = Curriculum(settings).examples(workers)
        store.write("views", examples, settings.model_dump(mode="json"))
    label(store, make_teacher("expert", {}), workers=workers)


def label(
    corpus: Path,
    /,
    *,
    teacher: str = "expert",
    law_options: LawOptions = None,
    fresh: Flag = False,
    workers: int = 1,
) -> None:
    """Label every view of a corpus with a teacher's record.

    The expert is free and deterministic. `--teacher chat` calls an OpenAI-compatible endpoint at
    temperature 0.2 (`--law.KEY VALUE` sets its options) and keeps the answers, so that a second
    call asks for no answer twice. Only admissible records enter the corpus. Example:

    `waggle corpus label runs/corpus --teacher expert`

    Args:
        corpus: Folder of the corpus.
        teacher: `expert`, `chat`, or any law.
        law_options: Options of the teacher, as `--law.KEY VALUE`.
        fresh: Forget kept answers first.
        workers: Worker processes; their number does not change the labels.
    """
    from waggle.corpus.teacher import TEMPERATURE, label

    chosen = dict(law_options or {})
    if teacher == "chat":
        chosen.setdefault("temperature", str(TEMPERATURE))
    with telling() as tell:
        again = partial(make_law, teacher, chosen)
        done = label(
            Store(corpus), again(), progress=tell, fresh=fresh, workers=workers, again=again
        )
    console.say(f"labelled {done.kept:,} views with {teacher}; {done.refused:,} answers refused")


def transitions(
    corpus: Path,
    /,
    *,
    law: str = "expert",
    law_options: LawOptions = None,
    recipe: Path | None = None,
    tasks: list[str] | None = None,
    order: Literal["shuffled", "canonical"] = "shuffled",
    seed: int | None = None,
    train: int | None = None,
    rounds: int | None = None,
    workers: int = 1,
) -> None:
    """Collect transitions from complete training-seed episodes.

    Example:     `waggle corpus transitions runs/corpus --law expert`

    Args:
        corpus: Folder of the corpus.
        law: Who plays: the folder of a trained warm start (`.../warm-start/law`) or a law's name.
        law_options: Options of the law, as `--law.KEY VALUE`.
        recipe: Take the settings of a recipe's [transitions] table, and its canon order.
        tasks: Training tasks.
        order: How views list their records.
        seed: Seed of every random draw.
        train: Transitions in the training split.
        rounds: Rounds of an episode.
        workers: Worker processes; their number does not change the transitions.
    """
    from waggle.corpus.transitions import write

    given = {"tasks": tasks, "seed": seed, "train": train, "rounds": rounds}
    settings = _settings(TransitionSettings, recipe, "transitions", given)
    if recipe is not None:
        order = _recipe(recipe).order
    again = partial(make_law, law, law_options)
    with telling() as tell:
        sizes = write(
            Store(corpus), settings, again(), order=order, progress=tell, workers=workers,
            again=again,
        )  # fmt: skip
    told = ", ".join(f"{split} {size:,}" for split, size in sizes.items())
    console.say(f"transitions of {law}: {told}")


def stats(corpus: Path, /, *, json: Flag = False) -> None:
    """Print the datasheet: counts per class, mode, substrate, task and label factor.

    Args:
        corpus: Folder of the corpus.
        json: Print one JSON object instead of text.
    """
    sheet = datasheet(Store(corpus))
    if json:
        console.dump(sheet.plain())
        return
    console.table("Decisions", ("aspect", "value", *sheet.splits), sheet.rows(), right=2)
    if sheet.transitions:
        keys = sorted({key for counter in sheet.transitions.values() for key in counter})
        rows = [(a, v, *(c[a, v] for c in sheet.transitions.values())) for a, v in keys]
        console.table("Transitions", ("aspect", "value", *sheet.transitions), rows, right=2)


def tokenizer(out: Path, /) -> None:
    """Train the tokenizer of `nano` on prompts and records of the training tasks.

    The package has one already; laws trained with it cannot be run with a new one.

    Args:
        out: The JSON file to write.
    """
    from json import dumps, loads

    from waggle.corpus.harvest import tokenizer_texts
    from waggle.models.nano import train_nano_tokenizer

    made = loads(train_nano_tokenizer(tokenizer_texts()))
    text = dumps(made, ensure_ascii=False, separators=(",", ":")) + "\n"
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {out} ({error.strerror}); choose another file") from None
    console.say(f"tokenizer of {len(made['model']['vocab']):,} pieces in {out}")


def _recipe(path: Path) -> Any:
    from waggle.scd.config import read_recipe

    return read_recipe(path)


def _settings(kind: Any, recipe: Path | None, table: str, given: dict[str, Any]) -> Any:
    """Return settings from a recipe or the defaults, with what the command line changes."""
    start: BaseModel = kind() if recipe is None else getattr(_recipe(recipe), table)
    changed = {name: value for name, value in given.items() if value is not None}
    try:
        return kind.model_validate({**start.model_dump(), **changed})
    except ValidationError as error:
        raise one_line(error, "settings") from None
