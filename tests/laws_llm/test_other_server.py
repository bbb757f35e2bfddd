"""The law `chat` against a server that is not ours: `transformers serve` with SmolLM2."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx2", reason="needs the chat extra")
pytest.importorskip("fastapi", reason="transformers serve needs FastAPI")

from tests.laws_llm.serving import wait_for
from waggle import plugins
from waggle.cli.main import main
from waggle.core.errors import WaggleError
from waggle.core.protocols import Request
from waggle.laws.chat import ChatLaw
from waggle.models.fetch import path as model_path
from waggle.models.load import load

pytestmark = pytest.mark.slow
BACKBONE = "smollm2-135m-instruct"
WORDS = ["run", "beacon", "-n", "2", "--rounds", "1", "--law", "chat", "--law.max-tokens", "16"]


def backbone() -> Path:
    try:
        return model_path(BACKBONE)
    except WaggleError as error:
        pytest.skip(str(error))


@contextmanager
def transformers_serve(model: str) -> Iterator[str]:
    """Start the server of a model; yield its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = str(Path(sys.executable).with_name("transformers"))
    command = [program, "serve", model, "--port", str(port), "--device", "cpu"]
    with subprocess.Popen(
        [*command, "--dtype", "float32"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    ) as server:
        try:
            wait_for(f"http://localhost:{port}/health", server)
            yield f"http://localhost:{port}/v1"
        finally:
            server.kill()


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, str]]:
    """Start the server; yield its address and the name of its model."""
    model = str(backbone())
    with transformers_serve(model) as url:
        yield url, model


def test_an_episode_is_played_and_its_tokens_are_counted(
    served: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, model = served
    where = ["--law.base-url", url, "--law.model", model, "--out", str(tmp_path), "--json"]
    assert main([*WORDS, *where, "--law.concurrency", "1", "--law.timeout", "600"]) == 0
    count = json.loads(capsys.readouterr().out)["counters"]
    assert count["calls"] >= 2 and "failures" not in count
    assert count["tokens.input"] > 400 * count["calls"]
    assert 0 < count["tokens.output"] <= 16 * count["calls"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--law.extra", '{"best_of_none": 3}'], "Unexpected fields in the request"),
        (["--law.model", "nobody/nothing"], "Server is pinned to"),
    ],
)
def test_a_refusal_is_told_in_its_own_words(
    served: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    sentence: str,
) -> None:
    url, model = served
    own = [] if "--law.model" in options else ["--law.model", model]
    assert main([*WORDS, "--law.base-url", url, *own, *options, "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def exported(folder: Path) -> Path:
    """Export an adapter that changes what its backbone says."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("peft")
    from waggle.scd.config import Adaptation, Recipe, Run
    from waggle.scd.model import Student
    from waggle.scd.ship.export import export

    run = Run(device="cpu", dtype="float32")
    recipe = Recipe(name="served", backbone=BACKBONE, adaptation=Adaptation(rank=8), run=run)
    student = Student(recipe, 0)
    with torch.no_grad():
        for name, weight in student.trainable().items():
            if "lora_B" in name:
                weight.normal_(std=0.01, generator=torch.Generator().manual_seed(len(name)))
    return export(student, folder, {})


def test_an_exported_adapter_is_served_as_it_is_decided_with_here(
    tmp_path: Path, beacon_views: Any
) -> None:
    """Another server's chat template and weights are those that the law decides with here."""
    backbone()
    law = exported(tmp_path / "law")
    asked = [Request(view) for view in beacon_views[:3]]
    alone, adapted = (
        plugins.get_law(
            "local", model=BACKBONE, adapter=adapter, max_new_tokens=12, dtype="float32"
        )
        for adapter in (None, str(law))
    )
    want = [decode.output for decode in adapted.decide(asked)]
    assert want != [decode.output for decode in alone.decide(asked)], "the adapter matters"

    merged, tokenizer = load(BACKBONE, "cpu", "float32", str(law))  # this server takes no adapters
    merged.save_pretrained(tmp_path / "merged")
    tokenizer.save_pretrained(tmp_path / "merged")
    with transformers_serve(str(tmp_path / "merged")) as url:
        model = str(tmp_path / "merged")
        chat = ChatLaw(url, model, max_tokens=12, response_format="off", concurrency=1, timeout=600)
        assert [decode.output for decode in chat.decide(asked)] == want
