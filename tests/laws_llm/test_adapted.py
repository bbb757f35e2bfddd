"""laws/local: an adapter is put on the backbone it names, unless another is given."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the llm extra")

import torch

from tests.backbones import save_backbone
from waggle import plugins
from waggle.core.errors import ConfigError
from waggle.core.protocols import Request
from waggle.laws.local import DEFAULT, LocalLaw
from waggle.laws.origin import MAX_BYTES
from waggle.models import adapters
from waggle.models.nano import nano_tokenizer
from waggle.scd.config import Adaptation
from waggle.scd.ship import low_rank

OPTIONS = {"device": "cpu", "dtype": "float32"}


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return save_backbone(tmp_path_factory.mktemp("backbone"), nano_tokenizer())


def adapter(folder: Path, base: object, said: Mapping[str, Any] | None = None) -> Path:
    """Write an adapter of one matrix that says which backbone it is for, in one or two files."""
    folder.mkdir()
    draw = torch.Generator().manual_seed(5)
    pair = torch.randn(2, 32, generator=draw), torch.randn(32, 2, generator=draw)
    name = "model.layers.0.self_attn.q_proj.weight"
    low_rank.write(folder, {name: pair}, str(base), Adaptation(rank=2, targets=("q_proj",)))
    config = folder / adapters.CONFIG
    told = json.loads(config.read_text()) | {"base_model_name_or_path": base}
    config.write_text(json.dumps(told))
    if said is not None:
        (folder / "waggle.json").write_text(json.dumps(said))
    return folder


def made(name: str, **options: Any) -> LocalLaw:
    law = plugins.get_law(name, **options, **OPTIONS)
    assert isinstance(law, LocalLaw)
    return law


@pytest.mark.parametrize("name", ["adapted", "local"])
def test_an_adapter_decides_on_the_backbone_it_names(
    name: str, backbone: Path, beacon_views: Any, tmp_path: Path
) -> None:
    place = adapter(tmp_path / "peft", str(backbone))
    requests = [Request(view) for view in beacon_views[:2]]
    law, given = (
        made(name, adapter=str(place), mode="constrained", **more)
        for more in ({}, {"model": str(backbone)})
    )
    assert law.backbone == str(backbone) and law.digest == given.digest != ""
    found = [d.output for d in law.decide(requests)]
    assert found == [d.output for d in given.decide(requests)]


def test_a_trained_folder_speaks_before_peft_and_a_given_model_before_both(
    backbone: Path, tmp_path: Path
) -> None:
    said = {"backbone": str(backbone), "order": "canonical", "card": {"teacher": "expert"}}
    place = str(adapter(tmp_path / "law", "gemma-3-270m", said))
    law = made("adapted", adapter=place)
    assert (law.backbone, law.order, law.teacher) == (str(backbone), "canonical", "expert")
    other = tmp_path / "other"
    shutil.copytree(backbone, other)
    (other / "config.json").write_text((other / "config.json").read_text() + "\n")
    given = made("adapted", adapter=place, model=str(other))
    assert given.backbone == str(other) and given.digest not in ("", law.digest)
    assert made("adapted", adapter=str(adapter(tmp_path / "b", "an/id"))).backbone == "an/id"


@pytest.mark.parametrize("base", [None, ""])
def test_an_adapter_that_names_none_is_put_on_the_default(base: object, tmp_path: Path) -> None:
    assert made("adapted", adapter=str(adapter(tmp_path / "peft", base))).backbone == DEFAULT


@pytest.mark.parametrize("base", ["smolm2", "/no/such/folder", "a/b/c", "two\nlines"])
def test_an_unknown_backbone_is_one_line_that_says_what_to_give(base: str, tmp_path: Path) -> None:
    place = str(adapter(tmp_path / "peft", base))
    with pytest.raises(ConfigError, match=r"peft names the backbone .*--law\.model") as caught:
        made("adapted", adapter=place)
    assert repr(base) in str(caught.value) and "\n" not in str(caught.value)
    assert made("adapted", adapter=place, model="tiny-random").backbone == "tiny-random"


@pytest.mark.parametrize(
    "text", ["", "[]", '{"base_model_name_or_path": 3}', "x" * (MAX_BYTES + 1)]
)
def test_a_damaged_description_is_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / adapters.CONFIG).write_text(text)
    with pytest.raises(ConfigError, match=r"adapter_config\.json") as caught:
        made("adapted", adapter=str(tmp_path))
    assert "\n" not in str(caught.value)
