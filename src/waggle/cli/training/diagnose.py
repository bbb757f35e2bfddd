"""`waggle diagnose LAW`: measure decisions and structure of a law on held-out data."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from waggle.cli import console
from waggle.cli.options import AsJson, LawOptions, at_least_one, make_law
from waggle.corpus.store import Store
from waggle.evaluate.sessions import command_line
from waggle.runtime.sync import native_order


def diagnose(
    law: str,
    /,
    *,
    law_options: LawOptions = None,
    corpus: Path = Path("corpus"),
    order: Literal["shuffled", "canonical"] | None = None,
    views: int = 800,
    native: int = 0,
    transitions: int = 4752,
    seed: int = 0,
    out: Path | None = None,
    json: AsJson = False,
) -> None:
    """Measure a law's decisions and structure on held-out data.

    Measures held-out decisions (valid JSON, schema, executable, macro-F1 of the six modes, exact
    match), deployed equivariance in both canon orders with free decoding, and for a trained folder
    the held-out token loss, the frozen-probe field loss and the training-head columns. The result
    contains the digest of the weights. Files and JSON also contain one value per view and
    transition, for paired comparisons. Example:

    `waggle diagnose runs/tiny/seed-0/scd/law --corpus runs/tiny/corpus --views 16`

    Args:
        law: Folder of a trained law (`.../scd/law`), or a law's name. Pass its options as
            `--law.KEY VALUE`.
        corpus: Folder of the corpus, for its test split and transitions.
        order: Canon order of the decisions. Default: the order in which the law was trained.
        views: Number of held-out synthetic views.
        native: Number of native views of development seeds, labelled by the expert.
        transitions: For a trained folder: maximum number of transitions to fit the probe on, and to
            evaluate it on.
        seed: Seed of the orbit elements and the probe.
        out: Also write the result to this JSON file.
    """
    from json import dumps

    from waggle.scd.diagnose.law import Findings, diagnose_folder, diagnose_law, joined, numbers

    at_least_one(views=views)
    store, folder = Store(corpus), Path(law)
    player = make_law(law, law_options)
    trained = (folder / "waggle.json").exists()
    findings = Findings(store, views=views, native=native, seed=seed)
    result: dict[str, Any] = diagnose_law(findings, player, order or native_order(player))
    if trained:
        result = joined(result, diagnose_folder(findings, folder, transitions))
    shown = numbers(result)
    result |= {
        "teacher": str(getattr(player, "teacher", "none")),
        "backbone": str(getattr(player, "backbone", "none")),
        "command": command_line(),
    }
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(dumps(result), encoding="utf-8")
    if json:
        console.dump(result)
        return
    console.table(f"Diagnosis of {law}", ("measure", "value"), list(shown.items()))
