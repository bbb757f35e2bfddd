"""`waggle models` and `waggle serve` as a user meets them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.laws_llm.serving import serving
from waggle.cli.main import main


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WAGGLE_CACHE", str(tmp_path))
    return tmp_path


def test_models_are_listed(capsys: pytest.CaptureFixture[str], cache: Path) -> None:
    assert main(["models", "list", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["cache"] == str(cache)
    assert shown["models"]["nano"]["ready"] is True
    assert shown["models"]["smollm2-135m-instruct"]["ready"] is False


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["models", "path", "smollm2-135m-instruct"], "waggle models fetch"),
        (["models", "fetch", "gemma-3-270m"], "--accept-terms"),
        (["models", "fetch", "smolm2-135m-instruct"], "did you mean"),
        (["serve", "--law", "heuristic", "--host", "0.0.0.0"], "--public"),
        (["serve", "--law", "heuristic", "--port", "0"], "--port"),
        (["serve", "--law", "heuristics"], "did you mean"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(
    capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    assert main(argv) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1


def test_serve_answers_a_real_client(beacon_views: Any) -> None:
    openai = pytest.importorskip("openai", reason="needs the chat extra")
    from waggle.core import prompt
    from waggle.core.decode import parse

    with (
        serving("heuristic") as url,
        openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=60) as api,
    ):
        asked = prompt.messages(beacon_views[0])
        answer = api.chat.completions.create(model="heuristic", messages=asked)
    assert parse(answer.choices[0].message.content).decision is not None
