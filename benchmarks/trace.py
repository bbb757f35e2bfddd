"""Which kernels the time of a batch goes to, by the profiler of torch.

Nothing is compared here: one engine, warmed up, decodes one more batch of new prompts per mode
under the profiler. For finding out why a pass takes what it takes.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from benchmarks.modes import Decode, constrained, free
from benchmarks.setup import prepare
from waggle.engine.engine import Engine

LISTED = 18
"""Kernels that are listed."""
MODES: dict[str, Decode] = {"free": free, "constrained": constrained}


def trace(model: str, device: str, dtype: str, batch: int, new_tokens: int) -> list[str]:
    """Return one table per mode, the dearest kernels first."""
    setup = prepare(model, device, dtype, (batch, 1), 400, 300, new_tokens)
    engine = Engine(setup.model, setup.tokenizer, max_rows=batch)
    found = [f"{model}, {batch} rows: {engine.backend.describe()}"]
    for mode, decode in MODES.items():
        decode(engine, setup, setup.warm)
        engine.backend.prime(32 * batch, setup.longest)
        decode(engine, setup, setup.work)
        found += [mode, _profiled(lambda decode=decode: decode(engine, setup, setup.fresh), setup)]
    return found


def _profiled(work: Any, setup: Any) -> str:
    profiler: Any = import_module("torch.profiler")
    kinds = [profiler.ProfilerActivity.CPU]
    on_gpu = setup.device.startswith("cuda")
    if on_gpu:
        kinds.append(profiler.ProfilerActivity.CUDA)
    with profiler.profile(activities=kinds) as seen:
        work()
        setup.wait()
    order = "self_cuda_time_total" if on_gpu else "self_cpu_time_total"
    table = seen.key_averages().table(sort_by=order, row_limit=LISTED, max_name_column_width=60)
    return str(table)
