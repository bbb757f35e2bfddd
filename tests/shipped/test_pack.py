"""What ships is what was trained: bfloat16, in shards, with digests, and it decides the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from safetensors.torch import load_file

from tests.shipped.conftest import Export
from waggle import plugin_files, plugins, shipped
from waggle.core.errors import ConfigError
from waggle.laws.local import LocalLaw
from waggle.laws.shipped import Shipped
from waggle.shipped import pack as packing
from waggle.shipped.pack import pack


@pytest.fixture
def many_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make files so small that the stand-in needs several."""
    monkeypatch.setattr(packing, "MAX_FILE", (256 << 10) + 4_000)


@pytest.mark.parametrize(("kind", "name"), [("full", "nano"), ("dense", "smollm2"),
                                            ("lora", "smollm2")])  # fmt: skip
def test_a_packed_law_decides_what_the_trained_one_decides(
    kind: str, name: str, exported: Export, root: Path, many_files: None, requests: Any
) -> None:
    source = exported(kind)
    made = pack(source, root / name, {})
    shards = sorted(root.joinpath(name).glob("*.safetensors"))
    assert len(shards) > 1
    assert all(t.dtype == torch.bfloat16 for path in shards for t in load_file(path).values())
    law = Shipped(name, "A law.", root / name)(dtype="float32", device="cpu")
    assert (law.name, law.order, law.teacher) == (name, "canonical", "expert")
    if kind == "full":
        twin = LocalLaw(str(_rounded(source, root)), dtype="float32", device="cpu")
    else:
        base = made.manifest.backbone
        twin = LocalLaw(base, adapter=str(_rounded(source, root)), dtype="float32", device="cpu")
    assert [d.output for d in law.decide(requests)] == [d.output for d in twin.decide(requests)]


def _rounded(source: Path, root: Path) -> Path:
    """Return a copy of an exported law with its weights rounded to bfloat16, in one file."""
    import shutil

    from safetensors.torch import save_file

    folder = root / "rounded"
    shutil.copytree(source, folder)
    for path in folder.glob("*.safetensors"):
        rounded = {k: v.to(torch.bfloat16) for k, v in load_file(path).items()}
        save_file(rounded, path, metadata={"format": "pt"})
    return folder


def test_the_manifest_says_what_is_known_and_stamps_every_file(
    exported: Export, root: Path
) -> None:
    made = pack(exported("full"), root / "nano", {"notes": ["shy"]}, "# card")
    found = shipped.verify(root / "nano")
    assert found == made.manifest
    assert (found.kind, found.order, found.teacher) == ("full", "canonical", "expert")
    assert found.seeds["training"] == 3 and found.training["selected update"] == 7
    assert set(found.files) == {p.name for p in (root / "nano").iterdir()} - {"law.json"}
    assert {"config.json", "tokenizer.json", "README.md", "results.json"} <= set(found.files)
    tensors = sum(t.numel() for p in (root / "nano").glob("*.safetensors")
                  for t in load_file(p).values())  # fmt: skip
    assert found.parameters == tensors
    assert not list(root.glob(".*partial*"))


def test_a_tokenizer_forgets_how_it_was_opened(exported: Export, root: Path) -> None:
    source = exported("full")
    path = source / "tokenizer_config.json"
    said = json.loads(path.read_text())
    path.write_text(json.dumps({**said, "is_local": True, "local_files_only": True}))
    pack(source, root / "nano", {})
    kept = json.loads((root / "nano" / "tokenizer_config.json").read_text())
    assert kept == {k: v for k, v in said.items() if k not in ("is_local", "local_files_only")}
    assert kept


@pytest.mark.parametrize("name", ["config.json", "model-00001-of-00001.safetensors"])
def test_a_changed_file_is_refused_at_the_first_decision(
    name: str, exported: Export, root: Path, requests: Any
) -> None:
    pack(exported("full"), root / "nano", {})
    path = root / "nano" / name
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(bytes(data))
    law = plugins.get_law("nano")
    with pytest.raises(ConfigError, match=f"{name} is not the file that was shipped; install"):
        law.decide(requests)


def test_the_card_may_be_edited(exported: Export, root: Path) -> None:
    pack(exported("full"), root / "nano", {}, "# card")
    (root / "nano" / "README.md").write_text("# my own words")
    shipped.verify(root / "nano")


def test_a_law_without_its_weights_says_the_fix(root: Path, requests: Any) -> None:
    law = plugins.get_law("nano")
    with pytest.raises(ConfigError, match="are not here; install") as caught:
        law.decide(requests)
    assert "\n" not in str(caught.value)


def test_a_law_that_is_not_installed_says_what_to_install(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_files, "installed", lambda kind: ())
    with pytest.raises(ConfigError, match="pip install waggle-swarm-smollm2"):
        plugins.get_law("smollm2")
    with pytest.raises(ConfigError, match="pip install waggle-swarm-smollm2"):
        shipped.folder("smollm2")
    assert not shipped.present("smollm2") and "smollm2" in shipped.names()


def test_a_manifest_cannot_lead_outside_its_folder(exported: Export, root: Path) -> None:
    made = pack(exported("full"), root / "nano", {}).manifest
    files = {**made.files, "../secret": shipped.FileDigest(1, "0" * 64)}
    evil = msgspec.structs.replace(made, files=files)
    (root / "nano" / "law.json").write_bytes(msgspec.json.encode(evil))
    with pytest.raises(ConfigError, match="outside its folder"):
        shipped.manifest(root / "nano")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"name": 3}', "x" * (shipped.MAX_LAW + 1)])
def test_a_strange_manifest_is_one_line(text: str, root: Path) -> None:
    (root / "nano").mkdir()
    (root / "nano" / "law.json").write_text(text)
    with pytest.raises(ConfigError, match="describe a law") as caught:
        shipped.manifest(root / "nano")
    assert "\n" not in str(caught.value)


def test_what_is_too_large_does_not_ship_and_leaves_nothing(
    exported: Export, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(shipped.MAX_WHOLE, "dense", 1000)
    with pytest.raises(ConfigError, match="lower the rank"):
        pack(exported("dense"), root / "smollm2", {})
    assert list(root.iterdir()) == []


def test_a_folder_that_is_no_law_is_refused(tmp_path: Path, root: Path) -> None:
    with pytest.raises(ConfigError, match="no exported law"):
        pack(tmp_path, root / "nano", {})
    (tmp_path / "waggle.json").write_text(json.dumps({"kind": "odd", "order": "canonical"}))
    with pytest.raises(ConfigError, match="no exported law"):
        pack(tmp_path, root / "nano", {})


def test_an_adapter_of_another_backbone_is_refused(
    exported: Export, root: Path, requests: Any
) -> None:
    source = exported("dense")
    law = LocalLaw("tiny-random", adapter=str(source), dtype="float32", device="cpu")
    with pytest.raises(ConfigError, match="adapts another backbone"):
        law.decide(requests)
