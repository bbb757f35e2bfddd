"""Export of a trained law: selected weights without heads, in PEFT format, with a model card.

`lora` exports the adapter, `dense` a low-rank factorisation of the weight change, `full` all
weights. Invariant: an exported law contains nothing of the training heads.
"""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import torch

from waggle.laws.origin import UNNAMED, origin, trainings
from waggle.models import adapters, load
from waggle.scd.config import ARMS, Recipe, Stage, objective
from waggle.scd.files import ABOUT, new_folder
from waggle.scd.forward import attention
from waggle.scd.model import Student
from waggle.scd.ship import low_rank

SHARD = "14MB"
"""Maximum file size of a law that is exported as full weights."""


def export(
    student: Student, target: Path, card: Mapping[str, Any],
    learning: Mapping[str, Any] | None = None, start: str | None = None,
) -> Path:  # fmt: skip
    """Write the deployable law of a student into a folder.

    Args:
        student: the trained model.
        target: the folder to make.
        card: what the card says of this training.
        learning: the settings of learning from outcomes; without them the law was distilled.
        start: folder of the law that the training began with. Default: the recipe's backbone.
    """
    recipe = student.recipe
    earlier = trainings(start or recipe.backbone)
    if earlier:
        card = {**card, "goes on from": earlier[-1].law}
    with new_folder(target) as folder:
        if recipe.adaptation.kind == "lora":
            student.model.peft_config["default"].base_model_name_or_path = recipe.backbone
            with warnings.catch_warnings():
                # PEFT looks for the backbone's vocabulary online; it was not changed.
                warnings.simplefilter("ignore")
                student.model.save_pretrained(str(folder), save_embedding_layers=False)
            _fix_order(folder / adapters.CONFIG)
        elif recipe.adaptation.kind == "dense":
            _write_factors(student, folder)
        else:
            _write_weights(student, folder)
        said = {
            "backbone": _backbone(recipe), "order": recipe.order, "kind": recipe.adaptation.kind,
            "card": dict(card), "recipe": recipe.model_dump(mode="json"),
        }  # fmt: skip
        said |= {"learning": dict(learning)} if learning else {}
        said |= {"earlier": msgspec.to_builtins(earlier)} if earlier else {}
        (folder / ABOUT).write_text(json.dumps(said, indent=1), encoding="utf-8")
        text = model_card(
            recipe, card, learning is not None, any("credit" in each.recipe for each in earlier)
        )
        (folder / "README.md").write_text(text, encoding="utf-8")
    return target


def _fix_order(path: Path) -> None:
    """Sort the lists that PEFT writes from sets, so that equal laws have one digest."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    found = {k: sorted(v, key=str) if isinstance(v, list) else v for k, v in raw.items()}
    path.write_text(json.dumps(found, indent=1, sort_keys=True), encoding="utf-8")


def _backbone(recipe: Recipe) -> str:
    """Return the backbone; full weights that were trained from a law keep that of the law."""
    first = origin(recipe.backbone).backbone
    return recipe.backbone if recipe.adaptation.kind != "full" or first == UNNAMED else first


def _write_weights(student: Student, folder: Path) -> None:
    """Write all weights in bfloat16, in files small enough to be stored anywhere."""
    model = _plain(student.model).to("cpu", torch.bfloat16)
    attention.uninstall(model)
    import_module("transformers").utils.logging.disable_progress_bar()
    model.save_pretrained(str(folder), max_shard_size=SHARD)
    student.tokenizer.save_pretrained(str(folder))


def _plain(model: Any) -> Any:
    """Rebuild a model without the changes made for training: compiled layers, fused norms."""
    with torch.device("meta"):
        plain = type(model)(copy.deepcopy(model.config))
    plain = plain.to_empty(device="cpu")
    plain.load_state_dict({k.replace("._orig_mod", ""): v for k, v in model.state_dict().items()})
    plain.tie_weights()
    return plain


def _write_factors(student: Student, folder: Path) -> None:
    """Write the change of every target matrix as a LoRA adapter of the recipe's rank."""
    adaptation = student.recipe.adaptation
    base, _ = load.load(student.recipe.backbone, "cpu", "float32")
    before = dict(base.named_parameters())
    pairs = {}
    for name, parameter in student.trainable().items():
        change = parameter.detach().float() - before[name].detach().to(parameter.device)
        made = low_rank.exact if adaptation.rank >= min(change.shape) else low_rank.low_rank
        pairs[name] = made(change, adaptation.rank)
    low_rank.write(folder, pairs, student.recipe.backbone, adaptation)


def model_card(
    recipe: Recipe, card: Mapping[str, Any], learned: bool = False, learned_before: bool = False
) -> str:
    """Return the README of an exported law: how it was trained and what was measured.

    Args:
        recipe: the recipe of this training.
        card: what the card says of it.
        learned: whether it learned from outcomes.
        learned_before: whether an earlier training did, so that unseen tasks are not known.
    """
    rows = "\n".join(f"| {name} | {value} |" for name, value in card.items())
    return f"""---
base_model: {_backbone(recipe)}
library_name: {"transformers" if recipe.adaptation.kind == "full" else "peft"}
tags: [waggle, swarm]
---
# A Waggle law: {recipe.name}

One anonymous local law for self-organizing swarms, trained {_how(recipe, card, learned)}.
It reads one bounded local view and answers with one canonical JSON decision. The training heads
are not part of it.

| | |
|---|---|
| backbone | {_backbone(recipe)} |
| canon order | {recipe.order} |
{_settings(recipe, card, learned, learned_before)}
{rows}

Scores on tasks belong to the command that measured them and are not repeated here unless they stand
in the table above.
"""


def _how(recipe: Recipe, card: Mapping[str, Any], learned: bool) -> str:
    if learned:
        return "from the outcomes of episodes"
    return f"by {objective(recipe.order, recipe.stage_two, str(card.get('objective')))}"


def _length(stage: Stage) -> str:
    """Describe the length limit of a stage; the card lists the updates done."""
    if stage.seconds is None:
        return f"{stage.updates} updates"
    return f"{stage.seconds:g} seconds, at most {stage.updates} updates"


def _settings(recipe: Recipe, card: Mapping[str, Any], learned: bool, learned_before: bool) -> str:
    """Return card rows with the settings used in training, without stages that were not reached."""
    adaptation, one, two = recipe.adaptation, recipe.stage_one, recipe.stage_two
    trained = f"| adaptation | {adaptation.kind}"
    if adaptation.kind != "full":
        trained += f", rank {adaptation.rank}, alpha {adaptation.alpha}"
    if learned:
        return f"{trained} |"
    stage = f"stage one | {_length(one)} of {one.batch} records"
    read, tokens = f"corpus | {recipe.source()}", recipe.harvested()
    if card.get("objective") in ARMS:
        stage = f"stage two | {_length(two)} of {two.batch} records"
        stage += f" and {two.transition_batch} transitions"
    elif tokens:
        read = f"tokens | of {tokens} at most"
    unseen = "\n| never trained on | Synchronization, Flocking, Transport, AgentsNet |"
    return f"""{trained} |
| {stage} |
| {read} |{"" if learned_before else unseen}"""
