"""The commands of `waggle bench`: their options, and how results are printed."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from waggle.cli import console
from waggle.cli.options import AsJson, Chosen, Flag, Size, at_least_one, words
from waggle.core.errors import ConfigError


def runtime(*, repeats: int = 3, largest: int = 10_000, json: AsJson = False) -> None:
    """Cost of the runtime per local update.

    Measures everything but the law (view, canon, admission, transport, expiry, record) on `beacon`
    with the heuristic law, in processor time of one core: at N = 64 with decisions as objects and
    as text, and at N = 100, 1,000 and 10,000. The slope is the exponent of total cost against N; 1
    is linear.

    Args:
        repeats: How often N = 64 is measured; other sizes at most twice; the best counts.
        largest: The largest swarm; the limit is set for 10,000.
    """
    from benchmarks.runtime import LIMIT_RATIO, LIMIT_US, bench_runtime

    if repeats < 1 or largest < 200:
        raise ConfigError("--repeats must be at least 1 and --largest at least 200")
    costs = bench_runtime(repeats=repeats, large=largest)
    cells = [*costs.reference, *costs.growth]
    if json:
        rows = [asdict(cost) for cost in cells]
        console.dump({"costs": rows, "ratio": costs.ratio, "slope": costs.slope})
        return
    table = [
        (c.n, "text" if c.text else "in shape", c.updates, c.microseconds, c.wall) for c in cells
    ]
    columns = ("N", "decodes", "local updates", "µs per update", "wall µs")
    console.table("Everything but the law", columns, table, right=2)
    worst = max(c.microseconds for c in costs.reference)
    console.say(
        f"N = 64: {worst:.0f} µs at most; limit {LIMIT_US:.0f}: {_verdict(worst, LIMIT_US)}"
    )
    small, large = costs.growth[0].n, costs.growth[-1].n
    console.say(
        f"N = {large:,} over N = {small:,}: {costs.ratio:.2f} per update; "
        f"limit {LIMIT_RATIO}: {_verdict(costs.ratio, LIMIT_RATIO)}"
    )
    console.say(f"slope: total cost grows as N^{costs.slope:.3f}")


def silo(
    *tasks: str, law: str = "heuristic", n: Size = 64, repeats: int = 1, json: AsJson = False
) -> None:
    """Seconds of a whole Silo episode.

    Processor time of one core for nine rounds of each task, opening and scoring included.

    Args:
        tasks: Silo tasks such as III-26; all thirty if unset.
        law: The law that plays.
        n: Agents in the swarm.
        repeats: How often each task is played; the best counts.
    """
    from benchmarks.silo import LIMIT_SECONDS, silo_speed
    from waggle import plugins

    at_least_one(repeats=repeats, n=n)
    named = [plugins.find_task(f"silo/{t.removeprefix('silo/')}").task for t in tasks]
    chosen = named or list(plugins.get_substrate("silo").tasks)
    speed = silo_speed(law, n, chosen, repeats)
    if json:
        console.dump({**asdict(speed), "mean": speed.mean})
        return
    console.table(f"Silo, N = {n}, law {law}", ("task", "seconds"), speed.seconds.items())
    limited = (n, law) == (64, "heuristic")
    limit = f"; limit {LIMIT_SECONDS}: {_verdict(speed.mean, LIMIT_SECONDS)}" if limited else ""
    console.say(f"mean of {len(chosen)}: {speed.mean:.3f} s{limit}")


def swarmbench(*, seconds: float = 1.0, json: AsJson = False) -> None:
    """Rounds per second of the five SwarmBench worlds.

    Random actions on one core, world step and scoring. Also prints the rate when every agent's view
    is built, the rate of the official environment, and the ratio. The limit at N = 64 is a ratio of
    200 (Flocking 100).

    Args:
        seconds: Processor time spent on each figure.
    """
    import msgspec

    from benchmarks.swarmbench import measure

    if not 0 < seconds <= 60:
        raise ConfigError("--seconds must be above 0 and at most 60")
    rows = measure(seconds=seconds)
    if json:
        console.dump({"speeds": [{**msgspec.to_builtins(r), "ratio": r.ratio} for r in rows]})
        return
    verdicts = {True: "met", False: "MISSED", None: ""}
    table = [
        (r.task, r.n, f"{r.side}x{r.side}", r.rate, r.viewed, r.official, r.ratio, verdicts[r.met])
        for r in rows
    ]
    columns = ("task", "N", "map", "rounds/s", "with views", "official", "ratio", "limit")
    console.table("SwarmBench world, one core", columns, table)


def engine(
    *,
    model: str = "smollm2-135m-instruct",
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
    rivals: Chosen = "",
    json: AsJson = False,
) -> None:
    """Decisions per second of the LLM engine next to transformers' `generate`.

    Free and constrained decoding in one run with the same prompts, weights and dtype; also tokens
    per second of prefill and decode, and how many free answers equal those of `generate`. A law
    decodes views of the substrates until its answers end; any other model decodes synthetic prompts
    to a forced length. Needs the extra `llm`. Example:

    `waggle bench engine --model smollm2 --batch 64 --fastest`

    Args:
        model: A law that ships, its folder, a model of `waggle models list`, or a named shape with
            random weights.
        device: auto, cpu or cuda.
        dtype: auto, float32 or bfloat16.
        batch: Decisions per batch.
        prefix_tokens: Prompt tokens that all nodes share; for a law, its tasks determine them.
        tail_tokens: Approximate number of prompt tokens of one node.
        new_tokens: Answer tokens of free decoding; for a law, the maximum.
        repeats: Batches of new prompts that are timed.
        rounds: How often everything is measured; the fastest of each row counts. Useful on shared
            machines.
        views: Let a model that is not a law decode views of the substrates, not synthetic prompts.
        host_only: Measure the engine's own work alone, with a backend that answers immediately.
        fastest: Measure `generate`, and every rival, in the fastest configuration only.
        rivals: Other libraries on the same prompts, on a CPU: `all`, or a comma-separated list of
            openvino, ctranslate2 and llama.cpp. Needs the extra `rivals`.
    """
    # `generate` is measured with its default setting: threads that spin while they wait.
    os.environ.pop("OMP_WAIT_POLICY", None)
    from benchmarks.workload import Sizes

    sizes = Sizes(batch, repeats, prefix_tokens, tail_tokens, new_tokens)
    if host_only:
        from benchmarks.host import bench_host

        rows = bench_host(model, sizes, views=views)
        _show("Host work alone", [row._asdict() for row in rows], json)
        return
    from benchmarks.engine import bench

    report = bench(
        model, sizes, device, dtype, views=views, fastest=fastest, rivals=rivals, rounds=rounds,
        say=console.note,
    )  # fmt: skip
    if json:
        console.dump(report.as_dict())
        return
    for line in report.lines():
        console.say(line)


def play(
    *,
    law: str = "nano",
    tasks: Chosen = "",
    n: Size = 16,
    seeds: int = 4,
    processes: int = 1,
    width: int | None = None,
    json: AsJson = False,
) -> None:
    """Decisions per second of whole episodes, as `waggle eval` and `waggle demo` play them.

    Loading the law is measured as well, since users wait for it, and printed separately. Example:

    `waggle bench play --law nano --tasks silo/III-26,swarmbench/pursuit --seeds 8 --processes 2`

    Args:
        law: A name listed by `waggle list laws`.
        tasks: Tasks of the episodes, comma-separated; one of each benchmark if unset.
        n: Agents in the swarm.
        seeds: Episodes of each task.
        processes: Processes for a law that decides in large batches, as in `waggle eval`.
        width: Requests per batch, as in `waggle eval`.
    """
    from benchmarks.play import bench_play

    rows = bench_play(law, words(tasks), n=n, seeds=seeds, processes=processes, width=width)
    _show(f"Episodes of {law}, N = {n}", [row._asdict() for row in rows], json)


def train(
    recipe: Path,
    /,
    *,
    backbone: str | None = None,
    corpus: Path = Path("corpus"),
    updates: int = 20,
    warm_up: int = 8,
    tokens_per_pass: int | None = None,
    first: Flag = False,
    capture: bool | None = None,
    law: Path | None = None,
    json: AsJson = False,
) -> None:
    """Seconds and tokens per second of a training update.

    Runs the real updates of stage two (or one) on a real corpus. `--backbone qwen3-4b-shape`,
    `llama-3.1-8b-shape` and `smollm2-135m-shape` have random weights of that shape, for machines
    without the weights. Needs the extra `llm`. Example:

    `waggle bench train recipes/lineage/far.toml --corpus runs/lineage/far/corpus`

    Args:
        recipe: A recipe file.
        backbone: A backbone that replaces the recipe's.
        corpus: Folder of a labelled corpus with transitions.
        updates: Updates that are timed.
        warm_up: Updates before them, which are not timed.
        tokens_per_pass: Tokens of one forward pass.
        first: Measure stage one, on the decision records of the corpus.
        capture: Whether to replay updates as CUDA graphs; overrides the recipe.
        law: Export the resulting weights as a law into this folder, to rehearse a training run.
    """
    from benchmarks.train import bench_train
    from waggle.scd.config import Recipe, read_recipe

    at_least_one(updates=updates)
    if warm_up < 0:
        raise ConfigError(f"--warm-up must not be negative, not {warm_up}")
    data = read_recipe(recipe).model_dump()
    data["backbone"] = backbone or data["backbone"]
    run = {"tokens_per_pass": tokens_per_pass, "capture": capture}
    data["run"] |= {name: value for name, value in run.items() if value is not None}
    chosen = Recipe.model_validate(data)
    stage: Literal[1, 2] = 1 if first else 2
    found = bench_train(chosen, corpus, updates, stage=stage, law=law, warm_up=warm_up)
    if json:
        console.dump(found._asdict())
        return
    title = "Stage one" if first else "Stage two"
    console.table(title, ("measure", "value"), list(found._asdict().items()))


def _show(title: str, rows: list[dict[str, Any]], json: bool) -> None:
    if json:
        console.dump({"rows": rows})
        return
    columns = [name.replace("_", " ") for name in rows[0]]
    console.table(title, columns, [list(row.values()) for row in rows])


def _verdict(value: float, limit: float) -> str:
    return "met" if value <= limit else "MISSED"
