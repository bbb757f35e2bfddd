"""A trained folder says in which order its law was trained, and every user of it listens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.shipped.conftest import Export
from waggle import plugins
from waggle.core.errors import ConfigError
from waggle.laws.origin import MAX_BYTES, Origin, origin
from waggle.runtime.sync import native_order


@pytest.mark.parametrize("kind", ["full", "dense"])
def test_a_law_of_a_trained_folder_has_its_order_and_teacher(
    kind: str, exported: Export, backbone: Path
) -> None:
    folder = exported(kind)
    said = origin(str(folder))
    assert said == Origin("canonical", "expert", str(backbone))
    if kind == "full":
        law = plugins.get_law("local", model=str(folder))
    else:
        law = plugins.get_law("adapted", adapter=str(folder), model=str(backbone))
    assert native_order(law) == "canonical"
    assert (law.teacher, law.backbone) == ("expert", str(backbone))  # type: ignore[attr-defined]


def test_a_law_that_says_nothing_is_shown_the_papers_order() -> None:
    assert native_order(plugins.get_law("heuristic")) == "shuffled"
    assert native_order(plugins.get_law("zero-shot")) == "shuffled"
    assert origin(None) == origin("smollm2-135m-instruct") == Origin()


@pytest.mark.parametrize(
    "text",
    ["", "[1]", '{"order": "sorted"}', '{"order": 3}', "x" * (MAX_BYTES + 1),
     '{"teacher": "\xff"}', '{"x":' + "[" * 100_000 + "]" * 100_000 + "}"],
)  # fmt: skip
def test_a_folder_that_says_nonsense_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "waggle.json").write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError, match=r"waggle\.json") as caught:
        plugins.get_law("local", model=str(tmp_path))
    assert "\n" not in str(caught.value)


def test_the_shipped_description_comes_first(tmp_path: Path) -> None:
    (tmp_path / "waggle.json").write_text(json.dumps({"order": "shuffled"}))
    (tmp_path / "law.json").write_text(json.dumps({"order": "canonical", "teacher": "chat"}))
    assert origin(str(tmp_path)) == Origin("canonical", "chat", "none")
