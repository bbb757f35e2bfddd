"""Write docs/recipes.md, the reference of recipe keys, from the models that read recipes.

    python docs/tools/recipes.py docs/recipes.md

The meaning of a key is the docstring of its field. The page depends on the code alone; a test
compares it with what this program writes.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from waggle.api.options import mirror
from waggle.corpus.settings import CorpusSettings, HarvestSettings, TransitionSettings
from waggle.evaluate import plan
from waggle.learn.config import Adapter, Machine, Settings
from waggle.report import catalog
from waggle.runtime.defence import Defence
from waggle.runtime.perturb import Perturbation
from waggle.runtime.switches import Switches
from waggle.scd import config

TOP = "Top level"
HEAD = """# Recipe keys

`make docs` writes this page from the models that read recipes. A recipe is a TOML file, and an
unknown key is an error. `waggle recipes list` shows the recipes of the package, and `waggle recipes
copy NAME` copies one to change it.
"""
PARTS: dict[str, tuple[str, Mapping[str, type[BaseModel]]]] = {
    "Evaluation": (
        "For `waggle eval`; see [Evaluate](how-to/evaluate.md). With `methods_from = \"FILE\"` a "
        "recipe also takes the methods of another file.",
        {
            TOP: plan.Recipe,
            "`[[blocks]]`": plan.Block,
            "`seeds` of a block, as a range": plan.Seeds,
            "`[methods.NAME]`": plan.MethodSpec,
            "`switches` of a method": mirror(Switches),
            "`perturbation` of a method": mirror(Perturbation),
            "`defence` of a method": mirror(Defence),
        },
    ),
    "Training": (
        "For `waggle train` and `waggle tune`; see [Train a law](how-to/train.md). With "
        "`extends = \"FILE\"` a recipe changes single keys of another one.",
        {
            TOP: config.Recipe,
            "`[adaptation]`": config.Adaptation,
            "`[stage_one]`": config.StageOne,
            "`[stage_two]`": config.StageTwo,
            "`[run]`": config.Run,
        },
    ),
    "Corpora": (
        "Tables of a training recipe. `waggle corpus build` reads `[corpus]`, and `waggle corpus "
        "transitions` reads `[transitions]`.",
        {
            "`[corpus]`": CorpusSettings,
            "`[harvest]`": HarvestSettings,
            "`[transitions]`": TransitionSettings,
        },
    ),
    "Learning from outcomes": (
        "For `waggle learn`; see [Train a law for your own world](how-to/learn.md).",
        {TOP: Settings, "`[adapter]`": Adapter, "`[machine]`": Machine},
    ),
}  # fmt: skip
"""The sections of the page: what reads these keys, and the model of each table."""
LARGE = 1_000_000
"""Bounds from here on only catch slips and are not shown."""


def page() -> str:
    """Return the whole page."""
    lines = [HEAD]
    for title, (use, models) in PARTS.items():
        lines += [f"## {title}\n", f"{use}\n"]
        for heading, model in models.items():
            about = (
                "" if heading == TOP else " ".join(inspect.cleandoc(model.__doc__ or "").split())
            )
            lines += [f"### {heading}\n", *([f"{about}\n"] if about else []), *table(model), ""]
        if title == "Evaluation":
            lines += [*named("tables", catalog.TABLES), *named("figures", catalog.FIGURES)]
    return "\n".join(lines)


def named(key: str, targets: Mapping[str, str]) -> Iterator[str]:
    """Yield the names that a list of tables or figures may hold, as the lines of a table."""
    yield f"### Names in `{key}`\n\n| name | what it shows |\n| --- | --- |"
    for name, target in targets.items():
        module, _, function = target.partition(":")
        made = getattr(import_module(f"waggle.report.{module}"), function)
        words = inspect.cleandoc(made.__doc__).partition("\n\n")[0].split()[1:]
        text = " ".join(words)
        yield f"| `{name}` | {text[0].upper()}{text[1:]} |"
    yield ""


def table(model: type[BaseModel]) -> Iterator[str]:
    """Yield the keys of a model as the lines of a Markdown table."""
    yield "| key | type | default | meaning |"
    yield "| --- | --- | --- | --- |"
    schema = model.model_json_schema()
    for key, found in schema["properties"].items():
        needed = key in schema.get("required", ())
        cells = (
            f"`{key}`",
            kind(found),
            "required" if needed else default(found),
            meaning(model, key),
        )
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def meaning(model: type[BaseModel], key: str) -> str:
    """Return the docstring of a field: its own, that of a base class, or that of its table."""
    for each in model.__mro__:
        field = getattr(each, "model_fields", {}).get(key)
        if field is not None and field.description:
            return " ".join(field.description.split())
    made = model.model_fields[key].annotation
    is_table = inspect.isclass(made) and issubclass(made, BaseModel)
    return " ".join(inspect.cleandoc(made.__doc__ or "").split()) if is_table else ""


def kind(found: Mapping[str, Any]) -> str:
    """Return the type of a key in the words of TOML, with its limits."""
    choices = found.get("anyOf") or found.get("oneOf")
    if choices:
        return " or ".join(kind(each) for each in choices if each.get("type") != "null")
    if "enum" in found:
        return ", ".join(f'`"{each}"`' for each in found["enum"])
    if "const" in found:
        return f'`"{found["const"]}"`'
    sort = str(found.get("type", "table" if "$ref" in found else "any"))
    sort = {"object": "table", "number": "float"}.get(sort, sort)
    if sort == "array":
        item, limits, rest = kind(found.get("items", {})).partition(" ")
        return "array" if item == "any" else f"array of {item}s{limits}{rest}"
    least = found.get("minimum", found.get("exclusiveMinimum"))
    most = found.get("maximum", LARGE)
    above = "above" if "exclusiveMinimum" in found else "from"
    low = "" if least is None else f" {above} {least:g}"
    return f"{sort}{low}{f' to {most:,}' if most < LARGE else ''}"


def default(found: Mapping[str, Any]) -> str:
    """Return the default of a key as TOML; a dash for nothing and for tables of their own."""
    value = found.get("default")
    return "—" if value in (None, "", [], {}) or "$ref" in found else f"`{toml(value)}`"


def toml(value: Any) -> str:
    """Return a value as it is written in a recipe."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {toml(each)}' for key, each in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
