"""The law `chat` against a server that is not ours: `transformers serve` with SmolLM2."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("httpx2", reason="needs the chat extra")
pytest.importorskip("fastapi", reason="transformers serve needs FastAPI")

from tests.laws_llm.serving import wait_for
from waggle.cli.main import main
from waggle.core.errors import WaggleError
from waggle.models.fetch import path as model_path

pytestmark = pytest.mark.slow
WORDS = ["run", "beacon", "-n", "2", "--rounds", "1", "--law", "chat", "--law.max-tokens", "16"]


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, str]]:
    """Start the server; yield its address and the name of its model."""
    try:
        model = str(model_path("smollm2-135m-instruct"))
    except WaggleError as error:
        pytest.skip(str(error))
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
            wait_for(f"http://localhost:{port}/health")
            yield f"http://localhost:{port}/v1", model
        finally:
            server.kill()


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
