"""Rivals are measured on the same prompts, and a missing one costs its own rows only."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import generate as bench_generate
from benchmarks import rivals_rows as bench_rivals
from benchmarks.engine import bench
from benchmarks.limits import Limits
from benchmarks.rates import Batch
from benchmarks.report import BenchReport, lines
from benchmarks.rivals import job as jobs
from benchmarks.rivals.job import Job, Rival, Variant
from benchmarks.rivals.registry import RIVALS, chosen
from benchmarks.setup import Setup, prepare
from waggle.core.errors import ConfigError

READING, STEP, ROWS, TOKENS = 0.75, 0.25, 2, 5


class Slow:
    """A library whose time is made up: so much for a batch, so much for each further token."""

    def __init__(self) -> None:
        self.now = 0.0
        self.seen: list[tuple[int, ...]] = []

    def rival(self, *kinds: str) -> Rival:
        def variants(_: Job) -> list[Variant]:
            return [
                Variant(kind, "made up", kind == "fast", partial(self._opened, kind))
                for kind in kinds
            ]

        return Rival("pytest", ("pytest",), variants)

    @contextmanager
    def _opened(self, kind: str) -> Iterator[Any]:
        if kind == "broken":
            raise RuntimeError("cannot read this model")
        pace = {"fast": 0.5, "hopeless": 4.0}.get(kind, 1.0)

        def decode(asks: Any, count: int) -> list[tuple[int, ...]]:
            self.now += pace * (READING * len(asks) / ROWS + STEP * (count - 1))
            self.seen += [ask.tail for ask in asks]
            return [(7,) * count for _ in asks]

        yield decode


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    found = Slow()
    clock = SimpleNamespace(perf_counter=lambda: found.now)
    monkeypatch.setattr(bench_rivals, "time", clock)
    return found


@pytest.fixture(scope="module")
def setup() -> Setup:
    return prepare("tiny-random", "cpu", "float32", (ROWS, 1), 32, 64, TOKENS)


def measured(
    setup: Setup, names: list[str], fastest: bool = False
) -> tuple[BenchReport, list[str]]:
    report = BenchReport("m", "cpu", "float32", 1, ROWS, 1, 32, 64, TOKENS, True, Limits(1, 1))
    answers, said = [(7,) * TOKENS, (8,) * TOKENS], []
    baseline = Batch(setup.work, answers, 3.5)
    with TemporaryDirectory() as folder:
        bench_rivals.measure(setup, names, baseline, report, fastest, Path(folder), said.append)
    report.standings = bench_rivals.standings(report, names)
    return report, said


def test_rates_and_equal_answers_are_counted(
    slow: Slow, setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RIVALS, "made-up", slow.rival("plain", "fast"))
    report, _ = measured(setup, ["made-up"])
    fast, plain = report.rivals
    prompt = sum(len(ask.prefix) + len(ask.tail) for ask in setup.fresh)
    work = sum(len(ask.prefix) + len(ask.tail) for ask in setup.work)
    assert plain.rates.prefill == pytest.approx(prompt / READING)
    reading = READING * work / prompt
    whole = READING + (TOKENS - 1) * STEP
    assert plain.rates.decode == pytest.approx(ROWS * TOKENS / (whole - reading))
    assert plain.decisions_per_s == pytest.approx(ROWS / whole)
    assert plain.speedup == pytest.approx(3.5 / whole)
    assert (plain.equal, plain.answers) == (1, 2)
    assert plain.rates.run - fast.rates.run == pytest.approx(32), "a kept prefix is not run"
    assert fast.decisions_per_s == pytest.approx(2 * plain.decisions_per_s)
    apart = {ask.tail for ask in (*setup.fresh, *setup.work)}
    assert len(apart) == 2 * ROWS and apart < set(slow.seen), "reading and decoding see others"
    assert [tail in apart for tail in slow.seen] == 2 * ([False] * 2 + [True] * 2 * ROWS)


def test_only_the_last_configuration_where_the_fastest_is_asked_for(
    slow: Slow, setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RIVALS, "made-up", slow.rival("plain", "fast"))
    report, _ = measured(setup, ["made-up"], fastest=True)
    assert [row.precision for row in report.rivals] == ["fast"]


def test_a_hopeless_configuration_is_given_up(
    slow: Slow, setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RIVALS, "made-up", slow.rival("hopeless", "plain"))
    report, said = measured(setup, ["made-up"])
    plain, hopeless = report.rivals
    assert plain.complete and not hopeless.complete
    assert hopeless.decisions_per_s == pytest.approx(ROWS / (4 * READING))
    assert hopeless.rates.prefill > 0 == hopeless.rates.decode
    assert "hopeless, made up: at most" in said[-1]
    assert sum("given up, at most this" in line for line in lines(report)) == 1


def test_a_missing_library_costs_one_line(
    slow: Slow, setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = Rival("no-such-package", ("no_such_module",), lambda _: [])
    monkeypatch.setitem(RIVALS, "gone", gone)
    monkeypatch.setitem(RIVALS, "made-up", slow.rival("plain"))
    report, said = measured(setup, ["gone", "made-up"])
    assert [line for line in said if line.startswith("gone")] == [
        "gone: not installed (no_such_module); pip install 'waggle-swarm[rivals]'"
    ]
    assert [row.rival for row in report.rivals] == ["made-up"]
    assert sum(line.startswith("gone: not installed") for line in lines(report)) == 1


def test_a_configuration_that_fails_costs_its_own_row(
    slow: Slow, setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RIVALS, "half", slow.rival("broken", "plain"))
    monkeypatch.setitem(RIVALS, "none", slow.rival("broken"))
    report, said = measured(setup, ["half", "none"])
    assert [(row.rival, row.precision) for row in report.rivals] == [("half", "plain")]
    assert sum("cannot read this model" in line for line in said) == 2
    assert list(report.missing) == ["none"]


def test_the_report_ends_with_a_line_for_each_rival(monkeypatch: pytest.MonkeyPatch) -> None:
    def variants(job: Job) -> list[Variant]:
        @contextmanager
        def opened() -> Iterator[Any]:
            yield lambda asks, count: bench_generate._generate(same, {}, asks, count)

        assert job.prefixes == (same.work[0].prefix,) and job.batch == 3
        return [Variant("float32", "generate itself", False, opened)]

    same = prepare("tiny-random", "cpu", "float32", (3, 1), 64, 64, 12)
    monkeypatch.setitem(RIVALS, "itself", Rival("pytest", ("pytest",), variants))
    report = bench("tiny-random", "cpu", "float32", 3, 64, 64, 12, 1, rivals="itself")
    (row,) = report.rivals
    assert (row.equal, row.answers) == (3, 3), "the same prompts in the same tokens"
    assert row.library.startswith("pytest ")
    cells = {cell.mode: cell for cell in report.cells}
    (free, constrained) = report.standings
    assert free.decisions == pytest.approx(cells["free"].decisions_per_s / row.decisions_per_s)
    assert constrained.prefill == pytest.approx(
        cells["constrained"].rates.prefill / row.rates.prefill
    )
    last = lines(report)[-1]
    assert last.startswith("against itself at its fastest: free ") and "; constrained " in last
    data = json.loads(json.dumps(report.as_dict()))
    assert data["rivals"][0]["rates"]["decode"] == row.rates.decode
    assert data["standings"][1]["mode"] == "constrained"


def test_rivals_are_named_and_unknown_ones_refused() -> None:
    assert chosen("") == []
    assert chosen("all") == ["openvino", "ctranslate2", "llama.cpp"]
    assert chosen(" llama.cpp, openvino,llama.cpp") == ["llama.cpp", "openvino"]
    with pytest.raises(ConfigError, match=r"'vllm' is unknown.*openvino, ctranslate2, llama\.cpp"):
        chosen("openvino,vllm")


def test_rivals_need_a_cpu_and_a_llama(setup: Setup, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--device cpu"):
        bench_rivals.chosen("all", "cuda")
    assert jobs.job(setup, tmp_path).longest == bench_generate.padded(setup)
    other = SimpleNamespace(config=SimpleNamespace(model_type="qwen3"))
    with pytest.raises(ConfigError, match="plain Llama"):
        jobs.require_llama(other)
