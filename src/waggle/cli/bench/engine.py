"""`waggle bench engine`: decisions per second of the LLM engine, next to other libraries."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from waggle.cli import console
from waggle.cli.bench.checkout import benchmark
from waggle.cli.flags import Flag
from waggle.core.errors import ConfigError


def engine(
    *,
    model: str = "smollm2-135m-instruct",
    adapter: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    batch: int = 16,
    prefix_tokens: int = 400,
    tail_tokens: int = 300,
    new_tokens: int = 80,
    repeats: int = 3,
    rounds: int = 1,
    views: Flag = False,
    host_only: Flag = False,
    fastest: Flag = False,
    rivals: str = "",
    turns: Path | None = None,
    json: Flag = False,
) -> None:
    """Decisions per second next to transformers.

    Free and constrained decoding against `generate` in its fastest configuration, in one run with
    the same prompts and dtype; also model steps per decision and the distance to what this
    machine's arithmetic and bandwidth allow. A law decodes views of the substrates to the end of
    its answers, drafted by its teacher as in episodes, and without; any other model decodes made-up
    prompts, or views too, to a forced length. Needs the extra `llm`.

    Args:
        model: A law that ships, its folder, a model of `waggle models list`, or a named shape with
            random weights.
        adapter: Folder of an adapter on that model.
        device: auto, cpu or cuda.
        dtype: auto, float32 or bfloat16.
        batch: Decisions per batch.
        prefix_tokens: Prompt tokens that all nodes share (a law's are those of its tasks).
        tail_tokens: Prompt tokens of one node, about.
        new_tokens: Answer tokens of free decoding; of a law, at most.
        repeats: How many batches of new prompts are decoded.
        rounds: How often everything is measured, one after the other; each row's fastest counts.
            For machines that others use too.
        views: Views of the substrates for a model that is no law, too, instead of made-up prompts.
        host_only: Measure the engine's own work alone, with a model that answers at once, and how
            much of it a made-up device would hide.
        fastest: Measure only the configuration of `generate`, and of each rival, that is known as
            the fastest.
        rivals: Other libraries to measure on the same prompts, on a CPU: `all`, or some of
            openvino, ctranslate2 and llama.cpp by comma. Needs the extra `rivals`.
        turns: A file; commands that share a machine and name the same one make themselves ready
            side by side and measure one after the other.
        json: Print one JSON object instead of text.
    """
    if min(batch, prefix_tokens, tail_tokens, new_tokens, repeats, rounds) < 1:
        raise ConfigError("batch, token counts, repeats and rounds must be at least 1")
    # `generate` is measured as it runs by itself: with threads that spin while they wait.
    os.environ.pop("OMP_WAIT_POLICY", None)
    bench_views = benchmark("views")
    sizes = (batch, repeats)
    law = bench_views.find(model, adapter) or (bench_views.untaught(model) if views else None)
    if host_only:
        _host(model, law, sizes, tail_tokens, json)
        return
    setups = benchmark("setup")
    place, prepare = setups.place, setups.prepare
    names = benchmark("rivals_rows").chosen(rivals, place(device, dtype)[0] if rivals else "")
    with _among(turns) as turn:
        if law is None:
            setup = prepare(model, device, dtype, sizes, prefix_tokens, tail_tokens, new_tokens)
        else:
            setup = bench_views.prepare(law, device, dtype, sizes, tail_tokens, new_tokens)
        kind = place(device, dtype)[1]
        report = benchmark("engine").compare(
            setup, model, kind, console.note, fastest, turn, names, rounds
        )
    if json:
        console.dump(report.as_dict())
        return
    for line in benchmark("report").lines(report):
        console.say(line)


def _host(model: str, law: Any, sizes: tuple[int, int], tail: int, json: bool) -> None:
    host = benchmark("host")
    if law is None:
        found = host.bench_host(model, sizes[0], tail, sizes[1])
    else:
        from waggle.models import weights

        tokenizer = weights.load_tokenizer(law.model)
        asks = benchmark("views").gather(tokenizer, law, (sizes[1] + 4) * sizes[0], tail)
        found = host.bench_asks(model, tokenizer, asks, sizes[0])
    if json:
        console.dump(found.as_dict())
        return
    for line in host.host_lines(found):
        console.say(line)


@contextmanager
def _among(file: Path | None) -> Iterator[Callable[[], AbstractContextManager[Any]]]:
    """Get ready beside others that name the same file; yields what opens a turn of one's own."""
    if file is None:
        yield nullcontext
        return
    import fcntl

    with file.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_SH)

        @contextmanager
        def turn() -> Iterator[None]:
            fcntl.flock(held, fcntl.LOCK_UN)
            fcntl.flock(held, fcntl.LOCK_EX)
            yield

        yield turn
