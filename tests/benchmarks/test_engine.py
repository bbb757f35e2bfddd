"""The comparison compares equal work, counts what it says, and survives what fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import engine, shapes, workload
from benchmarks.engine import Row, compare, generate, measure
from benchmarks.workload import Contender, Setup, Sizes, prepare
from tests.core.grammars import max_length
from waggle import shipped
from waggle.core.errors import ConfigError
from waggle.engine.engine import Engine
from waggle.models import load
from waggle.models.nano import byte_tokenizer

SIZES = Sizes(batch=3, repeats=1, prefix_tokens=64, tail_tokens=64, new_tokens=12)


@pytest.fixture(scope="module")
def setup() -> Setup:
    return prepare("tiny-random", SIZES, "cpu", "float32")


def test_the_engine_and_generate_do_equal_work(setup: Setup) -> None:
    @contextmanager
    def itself() -> Iterator[Any]:
        yield partial(generate, setup, {})

    @contextmanager
    def broken() -> Iterator[Any]:
        raise RuntimeError("cannot read this model")
        yield

    said: list[str] = []
    others = [Contender("itself", itself), Contender("broken", broken)]
    report = compare(setup, others, say=said.append)
    rows = {row.title: row for row in report.rows}
    assert list(rows) == [
        "generate, dynamic cache", "free, no drafts", "free", "constrained", "itself",
    ]  # fmt: skip
    assert rows["generate, dynamic cache"].speedup == 1
    for title in ("free, no drafts", "free", "itself"):
        assert rows[title].note.endswith("equals generate in 3 of 3"), "in float32"
    assert rows["constrained"].note.endswith("3 of 3 answers in the grammar")
    assert rows["constrained"].steps < rows["constrained"].tokens
    assert rows["free, no drafts"].steps == 12
    assert all(row.decisions_per_s > 0 for row in report.rows)  # a busy clock may say 0 for a part
    assert sum("cannot read this model" in line for line in said) == 1, "a failure costs its row"
    lines = report.lines()
    assert "rounds 1" in lines[0] and "threads" in lines[0]
    assert "answers" not in json.loads(json.dumps(report.as_dict()))["rows"][0]


def test_rates_are_of_reading_and_of_everything_else(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that takes 0.75 s for a batch of prompts and 0.25 s for each further token."""
    seen: list[tuple[int, ...]] = []
    clock = [0.0]
    made_up = SimpleNamespace(perf_counter=lambda: clock[0])
    monkeypatch.setattr("benchmarks.engine.time", made_up)

    @contextmanager
    def opened() -> Iterator[Any]:
        def decode(asks: Any, count: int) -> list[tuple[int, ...]]:
            clock[0] += 0.75 + 0.25 * (count - 1)
            seen.extend(ask.tail for ask in asks)
            return [(7,) * count for _ in asks]

        yield decode

    row = measure(setup, Contender("made up", opened))
    prompt = sum(len(ask.prefix) + len(ask.tail) for ask in setup.fresh)
    work = sum(len(ask.prefix) + len(ask.tail) for ask in setup.work)
    assert row.prefill == pytest.approx(prompt / 0.75)
    assert row.decode == pytest.approx(3 * 12 / (0.75 + 11 * 0.25 - 0.75 * work / prompt))
    assert row.decisions_per_s == pytest.approx(3 / 3.5)
    assert len(seen) == len(set(seen)) == 7, "one warms up, and no prompt comes twice"


def test_drafts_behind_prompts_are_decode(setup: Setup) -> None:
    """The prompt pass counts as prefill by its share of prompt tokens."""
    made = Engine(setup.model, setup.tokenizer, max_rows=3)
    free, constrained = engine.MODES[0], engine.MODES[2]
    free.decode(made, setup, setup.warm)
    assert engine._engine_rates(setup, made, free)[0] > 0
    done = constrained.decode(made, setup, setup.fresh)
    assert sum(d.usage.drafted_tokens for d in done) > 0


def test_the_fastest_round_counts_with_the_best_rates() -> None:
    slow, fast = Row("free", 4.0, 1, 1, 20.0, 5.0), Row("free", 2.0, 2, 1, 10.0, 9.0)
    assert engine._better(slow, fast) == replace(fast, prefill=20.0, decode=9.0)


def test_a_law_decodes_views_to_the_end_of_its_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "TASKS", {"silo": ("II-16",), "swarmbench": ("pursuit",)})
    tokenizer: Any = load.load_tokenizer(str(shipped.folder("nano")))
    asks = workload.views_of_episodes(tokenizer, "canonical", 24, 180)
    assert len({(ask.prefix, ask.tail) for ask in asks}) == 24
    assert all(abs(len(ask.tail) - 180) < 60 for ask in asks)
    monkeypatch.setattr(workload, "SPARE", 1.0)
    monkeypatch.setattr(load, "load", lambda *_: (None, tokenizer))
    sizes = Sizes(batch=2, repeats=1, tail_tokens=180)
    assert not prepare("nano", sizes, "cpu").forced
    assert prepare("tiny-random", sizes, "cpu", views=True).forced
    monkeypatch.setattr(workload, "EPISODES", 1)
    with pytest.raises(ConfigError, match="lower --batch"):
        workload.views_of_episodes(tokenizer, "canonical", 10**6, 180)


def test_laws_are_found_by_name_and_by_folder() -> None:
    named = workload.find_law("smollm2")
    assert named == workload.find_law(str(shipped.folder("smollm2")))
    assert named is not None and named.model == "smollm2-135m-instruct"
    assert named.adapter == str(shipped.folder("smollm2"))
    whole = workload.find_law("nano")
    assert whole is not None and whole.adapter is None and whole.order == "canonical"
    assert workload.find_law("tiny-random") is None
    assert workload.find_law("smollm2-135m-shape") is None


def test_made_up_prompts_are_seeded_and_fit() -> None:
    tokenizer: Any = byte_tokenizer(workload.texts(60), 1024)
    assert [t.tail for t in workload.tasks(4, 5)] == [t.tail for t in workload.tasks(4, 5)]
    records = workload.fit_records(tokenizer, 300)
    forms = [workload.decision_grammar(t.handles, t.claims) for t in workload.tasks(20, 3)]
    assert max(max_length(form) for form in forms) <= workload.LONGEST
    lengths = [len(workload.encode(tokenizer, t.tail)) for t in workload.tasks(20, records)]
    assert 240 < sum(lengths) / len(lengths) < 360


@pytest.mark.parametrize("family", ["Llama", "Qwen3"])
def test_shapes_decode_like_any_other_model(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {
        "vocab_size": 2100, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    }  # fmt: skip
    monkeypatch.setitem(shapes.SHAPES, "small-shape", (family, small))
    setup = prepare("small-shape", replace(SIZES, batch=2), "cpu", "float32")
    made = Engine(setup.model, setup.tokenizer, max_rows=2)
    done = engine.MODES[1].decode(made, setup, setup.work)
    assert [d.tokens for d in done] == generate(setup, {}, setup.work, SIZES.new_tokens)


def test_nonsense_sizes_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        Sizes(batch=0)
    with pytest.raises(ConfigError, match="rounds must be at least 1"):
        engine.bench("tiny-random", rounds=0)
