"""The digest of a law's weights: what enters it, what it costs, and when there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from waggle import plugins, shipped
from waggle.laws import digest as digests
from waggle.laws.digest import DIGITS, digest, look
from waggle.laws.local import LocalLaw
from waggle.laws.shipped import of_folder
from waggle.models import fetch

FILES = {
    "model.safetensors": "weights", "config.json": "{}", "tokenizer.json": "{}",
    "README.md": "card", "results.json": "{}", "waggle.json": '{"order": "canonical"}',
}  # fmt: skip


def folder_at(place: Path, **changed: str) -> Path:
    """Write a folder that looks like an exported law."""
    place.mkdir(parents=True, exist_ok=True)
    for name, text in {**FILES, **changed}.items():
        (place / name).write_text(text)
    return place


def packed(place: Path) -> Path:
    """Give a folder the description that ships."""
    (place / "waggle.json").unlink(missing_ok=True)
    stamps = {p.name: shipped.stamp_of(p) for p in place.iterdir() if p.name != shipped.LAW}
    about = {"name": "x", "kind": "full", "backbone": "none", "order": "canonical",
             "teacher": "expert", "parameters": 1, "seeds": {}, "corpus": {}, "recipe": {},
             "files": stamps}  # fmt: skip
    (place / shipped.LAW).write_bytes(msgspec.json.encode(about))
    return place


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Count the files that are hashed."""
    names: list[str] = []
    real = shipped.stamp_of

    def stamp_of(path: Path) -> Any:
        names.append(path.name)
        return real(path)

    monkeypatch.setattr(shipped, "stamp_of", stamp_of)
    return names


@pytest.mark.parametrize(
    ("file", "enters"),
    [("model.safetensors", True), ("config.json", True), ("tokenizer.json", True),
     ("README.md", False), ("results.json", False), ("waggle.json", False)],
)  # fmt: skip
def test_weights_enter_and_descriptions_do_not(tmp_path: Path, file: str, enters: bool) -> None:
    one = digest(look(str(folder_at(tmp_path / "a"))))
    two = digest(look(str(folder_at(tmp_path / "b", **{file: '{"order":"shuffled"}'}))))
    assert len(one) == DIGITS and (one != two) == enters


def test_the_place_of_a_folder_does_not_enter(tmp_path: Path) -> None:
    one, two = (digest(look(str(folder_at(tmp_path / name)))) for name in "ab")
    assert one == two != ""


def test_a_packed_folder_is_not_hashed_and_has_the_digest_of_its_files(
    tmp_path: Path, counted: list[str]
) -> None:
    place = packed(folder_at(tmp_path / "x"))
    counted.clear()
    law = of_folder(place)
    assert len(law.digest) == DIGITS and counted == []
    assert LocalLaw(str(place)).digest == law.digest and counted == [
        "config.json", "model.safetensors", "tokenizer.json",
    ]  # fmt: skip


def test_the_laws_that_ship_have_digests_of_their_own() -> None:
    names = "nano", "nano-outcome", "smollm2"
    if not all(map(shipped.present, names)):
        pytest.skip("the weights are not in this checkout")
    found = {plugins.get_law(name).digest for name in names}  # type: ignore[attr-defined]
    assert len(found) == 3 and all(len(each) == DIGITS for each in found)


def test_a_folder_is_hashed_once_until_it_changes(tmp_path: Path, counted: list[str]) -> None:
    place = folder_at(tmp_path / "x")
    first = LocalLaw(str(place)).digest
    assert LocalLaw(str(place)).digest == first and len(counted) == 3
    (place / "model.safetensors").write_text("WEIGHTS")
    os.utime(place / "model.safetensors", ns=(1, 1))
    assert LocalLaw(str(place)).digest not in ("", first)
    assert counted[3:] == ["model.safetensors"]


def revision(cache: Path, commit: str) -> None:
    """Make a commit the one that a hub cache holds of some/model."""
    place = cache / "models--some--model"
    (place / "refs").mkdir(parents=True, exist_ok=True)
    (place / "refs" / "main").write_text(commit)
    (place / "snapshots" / commit).mkdir(parents=True, exist_ok=True)
    (place / "snapshots" / commit / "config.json").write_text("{}")


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    constants = pytest.importorskip("huggingface_hub.constants", reason="needs the llm extra")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path / "hub"


def test_a_backbone_of_the_hub_counts_with_its_revision(tmp_path: Path, hub_cache: Path) -> None:
    adapter = folder_at(tmp_path / "adapter")
    (adapter / "config.json").rename(adapter / "adapter_config.json")

    def found() -> tuple[str, str]:
        put_on = LocalLaw("some/model", adapter=str(adapter))
        return LocalLaw("some/model").digest, put_on.digest

    assert found() == ("", "")  # nobody can tell which revision it would be
    commits = ["a" * 40, "b" * 40]
    seen = []
    for commit in commits:
        revision(hub_cache, commit)
        seen.append(found())
        assert fetch.path("some/model").name == commit
    assert len({each for pair in seen for each in pair}) == 4
    revision(hub_cache, commits[0])
    assert found() == seen[0]


def test_loading_keeps_to_the_revision_that_is_here(
    hub_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []

    def download(_name: str, revision: str | None, **_: object) -> str:
        asked.append(revision)
        return str(hub_cache)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    revision(hub_cache, "a" * 40)
    fetch.path("some/model")
    fetch.fetch("some/model")
    assert asked == ["a" * 40, None]


def test_an_adapter_counts_with_what_it_is_put_on(tmp_path: Path, hub_cache: Path) -> None:
    revision(hub_cache, "a" * 40)
    adapter = folder_at(tmp_path / "adapter")
    (adapter / "config.json").rename(adapter / "adapter_config.json")
    bases = [folder_at(tmp_path / "a"), folder_at(tmp_path / "b", **{"model.safetensors": "other"})]
    names = ["smollm2-135m-instruct", "gemma-3-270m", "some/model", *map(str, bases)]
    found = [LocalLaw(name, adapter=str(adapter)).digest for name in names]
    assert len({*found, LocalLaw(str(bases[0])).digest}) == 6 and "" not in found


def test_a_named_backbone_stands_for_itself_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = plugins.get_law("zero-shot").digest  # type: ignore[attr-defined]
    monkeypatch.setenv("WAGGLE_CACHE", str(tmp_path))
    assert plugins.get_law("zero-shot").digest == before != ""  # type: ignore[attr-defined]


def gone(place: Path) -> None:
    (place / "model.safetensors").unlink()


def no_law(place: Path) -> None:
    packed(place)
    (place / shipped.LAW).write_text("[1]")


@pytest.mark.parametrize("spoil", [gone, no_law])
def test_what_is_not_there_has_no_digest(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    place = folder_at(tmp_path / "x")
    spoil(place)
    assert digest(look(str(place), packed=spoil is no_law)) == ""
    assert digest(look("no-such-model")) == digest(look(str(tmp_path / "none"))) == ""


def test_the_digest_is_that_of_what_was_loaded(tmp_path: Path) -> None:
    """Files that change under a law in memory change nothing about what it plays."""
    place = folder_at(tmp_path / "x")
    for asked in (True, False):
        law = LocalLaw(str(place))
        before = law.digest if asked else ""
        law._seen = law._look()
        law._loaded = ()  # type: ignore[assignment]
        (place / "model.safetensors").write_text(f"other {asked}")
        # What had not been read before it changed can be told by nobody.
        assert law.digest == before


def test_rules_and_weights_in_memory_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not hasattr(plugins.get_law("heuristic"), "digest")
    monkeypatch.setattr(LocalLaw, "_open", lambda self, model, tokenizer: ())
    assert LocalLaw.over(None, None).digest == ""


def test_a_digest_needs_nothing_heavy() -> None:
    code = (
        "import sys; from waggle.laws.local import LocalLaw; LocalLaw().digest; "
        "sys.exit(any(m in sys.modules for m in ('torch', 'transformers', 'pyarrow')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_files_are_hashed_whole(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"x" * (1 << 20) + b"y")
    assert digests._hashed(digests._file(path)) == sha256(path.read_bytes()).hexdigest()
