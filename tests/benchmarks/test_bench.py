"""The measurement measures: same outputs, honest counts, a runnable command."""

import json
import subprocess
import sys
from typing import Any

import pytest

from benchmarks import workload
from benchmarks.engine import bench
from benchmarks.host import bench_host, host_lines
from benchmarks.report import lines
from waggle.core.errors import ConfigError
from waggle.engine.constraint.form_making import measured
from waggle.models.nano import byte_tokenizer


def test_the_bench_compares_equal_work() -> None:
    report = bench("tiny-random", "cpu", "float32", 3, 64, 64, 12, 1)
    for mode in ("free", "free, no drafts"):
        assert report.equal[mode] == "3 of 3 answers", "free decoding is generate's in float32"
    modes = {cell.mode: cell for cell in report.cells}
    assert modes["generate, dynamic cache"].speedup == pytest.approx(1.0)
    assert "3 of 3 answers" in modes["constrained"].note
    assert modes["constrained"].steps < modes["constrained"].tokens
    assert modes["free, no drafts"].steps == 12
    assert all(cell.decisions_per_s > 0 for cell in report.cells)
    assert report.prefix_tokens == 64
    text = "\n".join(lines(report))
    assert "64 shared" in text and "12.0 steps" in text
    assert text.count("% of arithmetic") == text.count("% of bandwidth") == len(report.cells)
    assert "no drafts" in modes["free, no drafts"].note
    assert modes["constrained"].note.startswith("drafts of grammar and earlier answers: ")
    json.dumps(report.as_dict())


def test_the_host_alone_is_measured_without_a_model() -> None:
    report = bench_host("tiny-random", batch=4, tail_tokens=200, repeats=1)
    cells = {cell.mode: cell for cell in report.cells}
    assert all(cell.microseconds > 0 for cell in cells.values())
    assert cells["free, answers are noise"].steps > cells["constrained"].steps
    assert "µs per decision" in "\n".join(host_lines(report))


def test_kernels_are_listed() -> None:
    from benchmarks.trace import trace

    shown = trace("tiny-random", "cpu", "float32", 2, 4)
    assert shown[1::2] == ["free", "constrained"]
    assert all("aten::" in table for table in shown[2::2])


def test_nonsense_sizes_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        bench("tiny-random", batch=0)


def test_the_workload_is_seeded_and_fits() -> None:
    tokenizer: Any = byte_tokenizer(workload.texts(60), 1024)
    assert [t.tail for t in workload.tasks(4, 5)] == [t.tail for t in workload.tasks(4, 5)]
    records = workload.fit_records(tokenizer, 300)
    forms = [workload.decision_grammar(t.handles, t.claims) for t in workload.tasks(20, 3)]
    assert max(measured(form, {}) for form in forms) <= workload.LONGEST
    lengths = [len(workload.encode(tokenizer, t.tail)) for t in workload.tasks(20, records)]
    assert 240 < sum(lengths) / len(lengths) < 360


def test_the_bench_runs_without_the_rest_of_waggle() -> None:
    """On a bare GPU machine only torch and transformers are there."""
    blocked = "import sys\nfor name in ('msgspec', 'pydantic', 'cyclopts', 'rich', 'networkx'):\n"
    blocked += "    sys.modules[name] = None\nimport benchmarks.engine\n"
    blocked += "import waggle.models.shapes, waggle.models.weights\n"
    done = subprocess.run([sys.executable, "-c", blocked], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-500:]


@pytest.mark.parametrize("family", ["Llama", "Qwen3"])
def test_shaped_models_run_like_any_other(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from waggle.engine.engine import Engine
    from waggle.engine.request import Prompt
    from waggle.models import shapes

    sizes = {
        "vocab_size": 2100, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    }  # fmt: skip
    monkeypatch.setitem(shapes.SHAPES, "small-shape", (family, sizes))
    tokenizer = byte_tokenizer(workload.texts(), 2048)
    model = shapes.shaped("small-shape", "cpu", torch.float32, tokenizer)
    tails = [workload.encode(tokenizer, task.tail) for task in workload.tasks(3, 2)]
    done = Engine(model, tokenizer, max_rows=2).generate(
        [Prompt(tail, max_new_tokens=10, ignore_end=True) for tail in tails]
    )
    for tail, completion in zip(tails, done, strict=True):
        ids = torch.tensor([list(tail)])
        found = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=10, min_new_tokens=10,
            do_sample=False,
        )  # fmt: skip
        assert tuple(found[0, len(tail) :].tolist()) == completion.tokens
