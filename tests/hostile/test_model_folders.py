"""Folders of weights that mean harm: no code of theirs runs, and a refusal is one line."""

from __future__ import annotations

import io
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="models need the llm extra")

from tests.hostile.commands import one_line, waggle
from tests.hostile.tally import Tally
from waggle import shipped
from waggle.core.errors import ConfigError
from waggle.models import load, vet
from waggle.models.nano import tiny_random


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds a tiny random model."""
    place = tmp_path_factory.mktemp("sound")
    model, tokenizer = tiny_random()
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


def change(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def id_near_the_end(folder: Path) -> None:
    path = folder / "tokenizer.json"
    raw = json.loads(path.read_text())
    raw["model"]["vocab"]["bomb"] = 2**32 - 1
    path.write_text(json.dumps(raw))


def template(text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "chat_template.jinja").write_text(text)

    return write


def expression(folder: Path) -> None:
    path = folder / "tokenizer.json"
    raw = json.loads(path.read_text())
    split = {"type": "Split", "pattern": {"Regex": "(a+)+$|(a|aa)+b"}, "behavior": "Isolated",
             "invert": False}  # fmt: skip
    raw["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, raw["pre_tokenizer"]]}
    path.write_text(json.dumps(raw))


def sparse(name: str, size: int) -> Callable[[Path], None]:
    def enlarge(folder: Path) -> None:
        with (folder / name).open("ab") as file:
            os.truncate(file.fileno(), size)

    return enlarge


def settings(name: str, **changes: Any) -> Callable[[Path], None]:
    return lambda folder: change(folder / name, **changes)


LOOP = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
HARM: dict[str, Callable[[Path], None]] = {
    "vocabulary id near 2^32": id_near_the_end,
    "template that loops": template(LOOP),
    "template that raises": template("{{ raise_exception('no') }}"),
    "template that writes a gigabyte": template("{{ 'a' * 1000000000 }}"),
    "template that writes far too much": template("{{ 'a' * 1000000 }}"),
    "expression that backtracks": expression,
    "tokenizer of a gigabyte": sparse("tokenizer.json", 1 << 30),
    "configuration of a gigabyte": sparse("config.json", 1 << 30),
    "template of a gigabyte": sparse("chat_template.jinja", 1 << 30),
    "vocabulary of 2^40": settings("config.json", vocab_size=1 << 40),
    "no layers": settings("config.json", num_hidden_layers=0),
    "weights that are not there": settings("config.json", hidden_size=65536, vocab_size=1 << 20),
    "attention by code of the hub": settings(
        "config.json", attn_implementation={"": "evil/kernel"}
    ),
    "end token 10^9": settings("generation_config.json", eos_token_id=10**9),
}
ADAPTERS: dict[str, dict[str, Any]] = {
    "rank 0": {"r": 0},
    "rank 10^9": {"r": 10**9},
    "rank of a pattern": {"r": 4, "rank_pattern": {"q_proj": 10**9}},
    "alpha that is no number": {"r": 4, "lora_alpha": float("nan")},
    "pattern that backtracks": {"r": 4, "target_modules": r"(.+)+(.+)+(.+)+(.+)+!"},
}


def copy(source: Path, target: Path) -> Path:
    target.mkdir()
    for path in source.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    return target


def adapter(place: Path, **said: Any) -> Path:
    place.mkdir()
    about = {"peft_type": "LORA", "lora_alpha": 8, **said}
    (place / "adapter_config.json").write_text(json.dumps(about))
    return place


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vet, "SECONDS", 1)


@pytest.mark.parametrize("harm", HARM)
def test_a_folder_that_means_harm_is_refused(
    harm: str, sound: Path, tmp_path: Path, hurried: None, tally: Tally
) -> None:
    folder = copy(sound, tmp_path / "model")
    vet.require_sound(folder)
    HARM[harm](folder)
    with pytest.raises(ConfigError, match="again") as caught:
        vet.require_sound(folder)
    assert "\n" not in str(caught.value)
    tally.note(f"Model folder: {harm}", "refused in one line")


@pytest.mark.parametrize("harm", ADAPTERS)
def test_an_adapter_that_means_harm_is_refused(
    harm: str, sound: Path, tmp_path: Path, hurried: None, tally: Tally
) -> None:
    place = adapter(tmp_path / "adapter", **ADAPTERS[harm])
    with pytest.raises(ConfigError, match="again"):
        vet.require_sound(sound, place)
    vet.require_sound(sound, adapter(tmp_path / "sound", r=4, target_modules=".*q_proj"))
    tally.note(f"Adapter: {harm}", "refused in one line")


@pytest.mark.slow
@pytest.mark.parametrize("harm", HARM)
def test_a_command_refuses_it_in_one_line(
    harm: str, sound: Path, tmp_path: Path, tally: Tally
) -> None:
    folder = copy(sound, tmp_path / "model")
    HARM[harm](folder)
    ended = waggle(run(tmp_path, folder))
    one_line(ended, "again")
    tally.note(f"Model folder: {harm}", "refused in one line", peak=ended.peak)


@pytest.mark.slow
@pytest.mark.parametrize("harm", ADAPTERS)
def test_a_command_refuses_an_adapter_in_one_line(
    harm: str, sound: Path, tmp_path: Path, tally: Tally
) -> None:
    place = adapter(tmp_path / "adapter", **ADAPTERS[harm])
    ended = waggle([*run(tmp_path, sound), "--law.adapter", str(place)])
    one_line(ended, "again")
    tally.note(f"Adapter: {harm}", "refused in one line", peak=ended.peak)


def run(place: Path, folder: Path) -> list[str]:
    return ["run", "silo/I-01", "-n", "4", "--law", "local", "--law.model", str(folder),
            "--law.device", "cpu", "--out", str(place / "records")]  # fmt: skip


def with_code(sound: Path, place: Path) -> tuple[Path, Path]:
    """Return a folder with code of its own, and the file that the code would make."""
    folder, mark = copy(sound, place / "model"), place / "mark"
    (folder / "evil.py").write_text(f"open({str(mark)!r}, 'w').close()\nclass Evil: pass\n")
    names = {"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.Evil"}
    change(folder / "config.json", model_type="evil", auto_map=names)
    change(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.Evil", None]})
    return folder, mark


OWN_CODE = "Model folder: code of its own, `yes` on standard input"


def test_code_of_a_folder_is_never_run(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    folder, mark = with_code(sound, tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 100))
    with pytest.raises(ConfigError, match="again"):
        load.load(str(folder), "cpu", "float32")
    assert not mark.exists()
    tally.note(OWN_CODE, "refused in one line")


@pytest.mark.slow
def test_a_command_does_not_run_code_of_a_folder(sound: Path, tmp_path: Path, tally: Tally) -> None:
    folder, mark = with_code(sound, tmp_path)
    ended = waggle(run(tmp_path, folder), stdin=b"y\n" * 100)
    assert not mark.exists()
    one_line(ended, "again")
    tally.note(OWN_CODE, "refused in one line", peak=ended.peak)


def test_a_pickle_is_not_opened(sound: Path, tmp_path: Path, tally: Tally) -> None:
    folder = copy(sound, tmp_path / "model")
    mark = tmp_path / "mark"
    (folder / "model.safetensors").unlink()

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return open, (str(mark), "w")

    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"model.norm.weight": Evil()}))
    with pytest.raises(ConfigError, match="again"):
        load.load(str(folder), "cpu", "float32")
    assert not mark.exists()
    tally.note("Model folder: pickled weights", "refused in one line")


@pytest.mark.parametrize("harm", ["empty list", "a file that is not listed"])
def test_a_law_that_lists_too_little_does_not_verify(
    harm: str, sound: Path, tmp_path: Path, tally: Tally
) -> None:
    folder = copy(sound, tmp_path / "law")
    about: dict[str, Any] = {
        "name": "evil", "kind": "full", "backbone": "none", "order": "shuffled",
        "teacher": "none", "parameters": 1, "seeds": {}, "corpus": {}, "recipe": {},
    }  # fmt: skip
    stamps = {path.name: shipped.stamp_of(path) for path in folder.iterdir()}
    listed = {name: {"bytes": s.bytes, "sha256": s.sha256} for name, s in stamps.items() if s}
    (folder / "law.json").write_text(json.dumps({**about, "files": listed}))
    shipped.verify(folder)
    if harm == "empty list":
        (folder / "law.json").write_text(json.dumps({**about, "files": {}}))
    else:
        (folder / "chat_template.txt").write_text("{{ messages }}")
    with pytest.raises(ConfigError, match="list"):
        shipped.verify(folder)
    tally.note(f"law.json: {harm}", "refused in one line")
