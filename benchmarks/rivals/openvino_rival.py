"""OpenVINO GenAI: continuous batching with and without its prefix cache.

Weights in float32 (computed in bfloat16, too, where the CPU has it) or in int8. Its pipeline for
padded batches is left out: with the model as it is exported here it reads several times slower.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.rivals.job import Answers, Decode, Job, Rival, Variant
from benchmarks.setup import Ask

AT_ONCE = 4096
"""Tokens that continuous batching may run in one pass."""
PRECISE = {"KV_CACHE_PRECISION": "f32"}
"""The library keeps keys and values in eight bits otherwise, which changes answers."""


def variants(job: Job) -> list[Variant]:
    """Return the configurations, the one known as the fastest last."""
    ov: Any = import_module("openvino")
    able = ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    kinds = [("int8 weights", "f32"), ("float32", "f32")]
    if "BF16" in able:
        kinds = [("float32", "f32"), ("int8 weights", "bf16"), ("bfloat16", "bf16")]
    found = []
    for kind, hint in kinds:
        opened = partial(_opened, job, kind, hint)
        found += [
            Variant(kind, "continuous batching", False, partial(opened, False)),
            Variant(kind, "continuous batching, prefix cache", True, partial(opened, True)),
        ]
    return sorted(found, key=lambda variant: variant.shares)


RIVAL = Rival(
    "openvino-genai", ("openvino", "openvino_genai", "openvino_tokenizers", "nncf"), variants
)


def _converted(job: Job, kind: str) -> Path:
    """Return the folder of the converted weights, made once."""
    from benchmarks.rivals import openvino_model

    whole, small = job.folder / "openvino", job.folder / "openvino-int8"
    if not whole.is_dir():
        openvino_model.export(job.model, job.tokenizer, whole)
    if not kind.startswith("int8"):
        return whole
    return small if small.is_dir() else openvino_model.compress(whole, small)


def _properties(job: Job, kind: str, hint: str) -> dict[str, Any]:
    found = {"INFERENCE_NUM_THREADS": job.threads, "INFERENCE_PRECISION_HINT": hint}
    return {**found, **PRECISE} if kind == "float32" else found


def _wish(job: Job, count: int) -> Any:
    genai: Any = import_module("openvino_genai")
    wish = genai.GenerationConfig()
    wish.max_new_tokens = count
    wish.do_sample = False
    wish.apply_chat_template = False
    wish.stop_token_ids = set(job.ends)
    wish.set_eos_token_id(min(job.ends))
    if job.forced:
        wish.min_new_tokens = count
    return wish


@contextmanager
def _opened(job: Job, kind: str, hint: str, shares: bool) -> Iterator[Decode]:
    genai: Any = import_module("openvino_genai")
    plan = genai.SchedulerConfig()
    plan.cache_size = _gigabytes(job)
    plan.max_num_seqs = job.batch
    plan.max_num_batched_tokens = AT_ONCE
    plan.enable_prefix_caching = shares
    folder, said = str(_converted(job, kind)), _properties(job, kind, hint)
    pipe = genai.ContinuousBatchingPipeline(folder, plan, "CPU", said)
    yield partial(_decode, job, pipe)


def _gigabytes(job: Job) -> int:
    """Return a size in which the cache of two batches fits."""
    config = job.model.config
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    token: int = 8 * config.num_hidden_layers * config.num_key_value_heads * width
    return 1 + (2 * job.batch * (job.longest + job.new_tokens) * token >> 30)


def _decode(job: Job, pipe: Any, asks: Sequence[Ask], count: int) -> Answers:
    ov: Any = import_module("openvino")
    np: Any = import_module("numpy")
    rows = [ov.Tensor(np.array([[*ask.prefix, *ask.tail]], np.int64)) for ask in asks]
    done = pipe.generate(rows, [_wish(job, count)] * len(rows))
    return [job.cut(found.m_generation_ids[0]) for found in done]
