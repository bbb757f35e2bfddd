"""Other libraries decode the very weights, on the same prompts; a missing one is one line."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import rivals
from benchmarks.engine import generate
from benchmarks.workload import Setup, Sizes, prepare
from waggle.core.errors import ConfigError

SIZES = Sizes(batch=3, repeats=1, prefix_tokens=70, tail_tokens=64, new_tokens=6)


@pytest.fixture(scope="module")
def setup() -> Setup:
    return prepare("tiny-random", SIZES, "cpu", "float32")


@pytest.mark.parametrize("name", list(rivals.LIBRARIES))
@pytest.mark.parametrize("forced", [True, False])
def test_in_float32_answers_are_those_of_generate(
    name: str, forced: bool, setup: Setup, tmp_path: Path
) -> None:
    """With batches in a row: what is kept of one must not be seen in the next."""
    for module in rivals.LIBRARIES[name][0]:
        pytest.importorskip(module, reason="needs the extra `rivals`")
    setup.forced = forced
    wanted = [generate(setup, {}, asks, 6) for asks in (setup.work, setup.fresh)]
    found, missing = rivals.contenders([name], setup, tmp_path, fastest=False)
    assert not missing
    for contender in found:
        with contender.open() as decode:
            answers: list[Any] = [decode(asks, 6) for asks in (setup.work, setup.fresh)]
            assert {len(answer) for answer in decode(setup.warm[:3], 1)} <= {0, 1}
        if contender.title.lower().endswith(("float32", "f32")):
            assert answers == wanted, contender.title
        if forced:
            assert {len(answer) for batch in answers for answer in batch} == {6}


def test_a_missing_library_is_one_line(
    setup: Setup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variants: Any = lambda *_: [("slow", None), ("fast", None)]  # noqa: E731
    monkeypatch.setitem(rivals.LIBRARIES, "gone", (("no_such_module",), variants))
    monkeypatch.setitem(rivals.LIBRARIES, "there", (("pytest",), variants))
    found, missing = rivals.contenders(["gone", "there"], setup, tmp_path, fastest=True)
    assert [contender.title for contender in found] == ["there, fast"]
    why = "no_such_module is not installed; pip install 'waggle-swarm[rivals]'"
    assert missing == {"gone": why}


def test_rivals_are_named_and_unknown_ones_refused() -> None:
    assert rivals.chosen("") == []
    assert rivals.chosen("all") == ["openvino", "ctranslate2", "llama.cpp"]
    assert rivals.chosen(" llama.cpp, openvino,llama.cpp") == ["llama.cpp", "openvino"]
    with pytest.raises(ConfigError, match=r"'vllm' is unknown.*openvino, ctranslate2, llama\.cpp"):
        rivals.chosen("openvino,vllm")


def test_rivals_need_a_cpu_and_a_llama() -> None:
    def made(device: str, kind: str) -> Any:
        config = SimpleNamespace(model_type=kind, rope_parameters={})
        return SimpleNamespace(device=device, model=SimpleNamespace(config=config))

    rivals.require(made("cpu", "llama"))
    with pytest.raises(ConfigError, match="--device cpu"):
        rivals.require(made("cuda", "llama"))
    with pytest.raises(ConfigError, match="plain Llama"):
        rivals.require(made("cpu", "qwen3"))
