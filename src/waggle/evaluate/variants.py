"""Recipes as the command line changes them: with other private workers, or with one more law."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waggle.core.errors import ConfigError
from waggle.evaluate.plan import MethodSpec, Recipe, settled

ADDED = "Your law"
"""The heading in tables of the laws that `--law` adds; a run directory knows them by it."""


def with_worker(recipe: Recipe, hired: Mapping[str, Any]) -> Recipe:
    """Return the recipe with its private workers replaced; worker schedules are kept.

    Methods that differed only in their workers are played once, under the name of the first.
    """
    if not any(spec.worker for spec in recipe.methods.values()):
        raise ConfigError("--worker: no method of the recipe has private workers; leave it out")
    group = f"Worker: {' '.join(str(hired[key]) for key in ('name', 'model') if key in hired)}"
    methods: dict[str, MethodSpec] = {}
    for name, spec in recipe.methods.items():
        if spec.worker:
            worker = {"schedule": spec.worker.get("schedule", "full"), **hired}
            spec = spec.model_copy(update={"worker": worker, "group": group})
        if not any(_same_play(spec, other) for other in methods.values()):
            methods[name] = spec
    blocks = [
        block.model_copy(update={"methods": own})
        for block in recipe.blocks
        if (own := [name for name in block.methods if name in methods])
    ]
    return recipe.model_copy(update={"methods": methods, "blocks": blocks})


def with_law(recipe: Recipe, name: str, spec: MethodSpec) -> Recipe:
    """Return the recipe with one more method, which plays in every block."""
    if name in recipe.methods:
        raise ConfigError(f"the recipe has a method {name!r}; play it with --methods {name}")
    blocks = [
        block.model_copy(update={"methods": [*block.methods, name]}) for block in recipe.blocks
    ]
    own = settled(spec.model_copy(update={"group": ADDED}))
    methods = {**recipe.methods, name: own}
    return recipe.model_copy(update={"methods": methods, "blocks": blocks})


def added_laws(recipe: Recipe) -> dict[str, MethodSpec]:
    """Return the laws of the recipe in a run directory that `--law` added."""
    return {name: spec for name, spec in recipe.methods.items() if spec.group == ADDED}


def _same_play(one: MethodSpec, two: MethodSpec) -> bool:
    """Return whether two methods with workers differ only in what tables print."""
    printed = {"label", "group", "ranked"}
    return bool(one.worker) and one.model_dump(exclude=printed) == two.model_dump(exclude=printed)
