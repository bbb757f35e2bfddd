"""A law that ships is known by its name: to commands, recipes and listings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command, waggle
from tests.shipped.conftest import Export
from tests.shipped.recipes import RECIPE
from waggle import plugins
from waggle.core.errors import ConfigError
from waggle.evaluate import plan
from waggle.laws.shipped import Shipped
from waggle.shipped.pack import pack

__all__ = ["waggle"]


def test_commands_know_a_law_that_ships(waggle: Command, exported: Export, root: Path) -> None:
    pack(exported("full"), root / "nano", {})
    assert waggle("models", "path", "nano").out.strip() == str(root / "nano")
    shown = waggle("models", "list", "--json").data["laws"]
    assert shown["nano"]["ready"] == "yes" and shown["nano"]["order"] == "canonical"
    assert shown["nano"]["teacher"] == "expert" and shown["smollm2"]["ready"] == "no"
    assert "Laws that ship" in waggle("models", "list").out


def test_a_shipped_law_runs_in_its_own_order(
    waggle: Command, exported: Export, root: Path, tmp_path: Path
) -> None:
    pack(exported("full"), root / "nano", {})
    words = ("run", "beacon", "-n", 2, "--rounds", 1, "--law", "nano", "--law.mode", "constrained",
             "--law.device", "cpu", "--out", tmp_path / "r", "--json")  # fmt: skip
    assert waggle(*words).data["order"] == "canonical"
    assert waggle(*words, "--order", "shuffled").data["order"] == "shuffled"


@pytest.mark.parametrize("law", ["local", "zero-shot"])
@pytest.mark.parametrize("name", ["nano", "smollm2"])
def test_a_law_is_not_taken_for_the_untrained_model_of_its_name(law: str, name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}' is a law of its own; use --law {name}$"):
        plugins.get_law(law, model=name)


def test_a_recipe_takes_order_and_origin_from_the_law(
    exported: Export, root: Path, tmp_path: Path
) -> None:
    pack(exported("full"), root / "nano", {})
    path = tmp_path / "recipe.toml"
    told_otherwise = '[methods.told]\nlaw = "nano"\norder = "shuffled"\nteacher = "me"\n'
    path.write_text(RECIPE.replace('["expert"]', '["expert", "nano"]') + told_otherwise)
    recipe = plan.load(path)
    nano, told, expert = (recipe.methods[name] for name in ("nano", "told", "expert"))
    assert (nano.order, nano.teacher) == ("canonical", "expert")
    assert (told.order, told.teacher) == ("shuffled", "me")
    assert (expert.order, expert.teacher, expert.backbone) == ("shuffled", "none", "none")
    assert {c.order for c in plan.cells(recipe) if c.method == "nano"} == {"canonical"}


def test_the_listing_says_what_ships(exported: Export, root: Path) -> None:
    assert "not in this installation" in str(Shipped("nano", "A law.").__doc__)
    pack(exported("full"), root / "nano", {})
    said = str(Shipped("nano", "A law.").__doc__)
    assert "Teacher expert" in said and "order canonical" in said and "MB" in said
    assert "nano" in plugins.names("law")
