"""`waggle corpus …`: build, label and describe the data that a law is trained on."""

from __future__ import annotations

import json as encoding
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from waggle.api.progress import Progress
from waggle.cli import console
from waggle.cli.options import AsJson, Flag, LawOptions, make_law
from waggle.corpus.curriculum import Curriculum
from waggle.corpus.datasheet import datasheet
from waggle.corpus.settings import CorpusSettings, TransitionSettings
from waggle.corpus.store import Store

if TYPE_CHECKING:
    from waggle.scd.config import Recipe


def build(out: Path, /, *, recipe: Path | None = None, workers: int = 1) -> None:
    """Generate the views of a decision corpus, unlabelled.

    Generates synthetic bundles of eight situation classes and native views of training-seed
    episodes, split into train, validation and test before labelling. The default sizes are the
    paper's. Example:

    `waggle corpus build runs/corpus --recipe recipes/tiny.toml`

    Args:
        out: Folder of the corpus.
        recipe: Use the settings in the [corpus] table of this recipe.
        workers: Number of worker processes; does not change the corpus.
    """
    settings = CorpusSettings() if recipe is None else _read(recipe).corpus
    with Progress() as tell:
        examples = Curriculum(settings, tell).examples(workers)
    Store(out).write("views", examples, settings.model_dump(mode="json"))
    sizes = ", ".join(f"{split} {len(some):,}" for split, some in examples.items())
    console.say(f"views: {sizes} in {out}; label them with `waggle corpus label {out}`")


def _read(recipe: Path) -> Recipe:
    from waggle.scd.config import read_recipe

    return read_recipe(recipe)


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
    temperature 0.2 (`--law.KEY VALUE` sets its options) and saves the answers, so that a second run
    repeats no request. Only admissible records enter the corpus. Example:

    `waggle corpus label runs/corpus --teacher expert`

    Args:
        corpus: Folder of the corpus.
        teacher: Teacher: `expert`, `chat`, or any law.
        fresh: Discard saved answers first.
        workers: Number of worker processes; does not change the labels.
    """
    from waggle.corpus.teacher import TEMPERATURE, label

    chosen = dict(law_options or {})
    if teacher == "chat":
        chosen.setdefault("temperature", str(TEMPERATURE))
    with Progress() as tell:
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
    workers: int = 1,
) -> None:
    """Collect transitions from complete training-seed episodes, by default the paper's number.

    Example: `waggle corpus transitions runs/corpus --law expert`

    Args:
        corpus: Folder of the corpus.
        law: Law that plays: folder of a trained warm start (`.../warm-start/law`) or a law's name.
        recipe: Use the settings in the [transitions] table of this recipe, and its canon order.
        workers: Number of worker processes; does not change the transitions.
    """
    from waggle.corpus.transitions import write

    own = None if recipe is None else _read(recipe)
    settings = TransitionSettings() if own is None else own.transitions
    again = partial(make_law, law, law_options)
    with Progress() as tell:
        sizes = write(
            Store(corpus), settings, again(), order="shuffled" if own is None else own.order,
            progress=tell, workers=workers, again=again,
        )  # fmt: skip
    counts = ", ".join(f"{split} {size:,}" for split, size in sizes.items())
    console.say(f"transitions of {law}: {counts}")


def stats(corpus: Path, /, *, json: AsJson = False) -> None:
    """Print the datasheet: counts per class, mode, substrate, task and label factor.

    Args:
        corpus: Folder of the corpus.
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


def manifest(out: Path, /) -> None:
    """Write the training manifest of the clean lineage: families, texts, exclusions, seeds.

    It states what laws of the lineage may be trained on, names the generator and contains a digest
    of everything in it; commit it before such a law plays AgentsNet. Example: `waggle corpus
    manifest recipes/lineage/manifest.json`

    Args:
        out: JSON file to write.
    """
    from waggle.corpus.problems.manifest import text

    made = text()
    out.write_text(made, encoding="utf-8")
    console.say(f"manifest {encoding.loads(made)['digest']} in {out}")


def tokenizer(out: Path, /) -> None:
    """Train the tokenizer of `nano` on prompts and records of the training tasks.

    The package already includes one; laws trained with it cannot run with a new one.

    Args:
        out: JSON file to write.
    """
    from waggle.corpus.harvest import tokenizer_texts
    from waggle.models.nano import train_nano_tokenizer

    made = encoding.loads(train_nano_tokenizer(tokenizer_texts()))
    text = encoding.dumps(made, ensure_ascii=False, separators=(",", ":"))
    out.write_text(f"{text}\n", encoding="utf-8")
    console.say(f"tokenizer of {len(made['model']['vocab']):,} pieces in {out}")
