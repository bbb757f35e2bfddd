r"""How many decisions per second does one large swarm make, and how busy is the GPU?

    python -m benchmarks.shards throughput --law nano --n 100000 --shards 12 --pool 4 --seconds 120

plays rounds of `beacon` for `--seconds` on one machine, with every shard and every copy of the law
in a separate process; it needs no Ray. 12 shards and 4 copies on one GPU keep 16 cores busy.
`--out FILE` writes the figures as JSON. A rehearsal on a CPU, with a tiny random law:

    python -m benchmarks.shards throughput --law zero-shot-constrained --law.model tiny-random \
        --n 400 --shards 2 --pool 1 --seconds 10

End to end means from the end of opening to the end of the last round: views, decisions, messages
and barriers. GPU utilisation is sampled with `nvidia-smi` every half second between those times.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.shards.episodes import SEED, play
from benchmarks.shards.processes import Processes
from waggle.cli import console
from waggle.cli.options import LawOptions, make_law
from waggle.core.protocols import Case

EVERY_SECONDS = 0.5
_ASK = ("--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits")


class Throughput(msgspec.Struct):
    """The measurements of one swarm."""

    law: str
    graph: str
    n: int
    shards: int
    pool: int
    """Number of copies of the law."""
    loading: float
    """Seconds until all weights were loaded and all processes were running."""
    opening: float
    """Seconds until the swarm was drawn, divided into shards and opened."""
    seconds: list[float]
    """The seconds of every round."""
    scores: list[float]
    decisions_per_s: float
    """Decisions per second over all rounds."""
    deciding: float
    """Share of the time in which a copy of the law was deciding, mean over all copies."""
    batch: float
    """Mean number of requests per batch."""
    gpu_busy: float | None
    """Share of the time in which a kernel ran; None without `nvidia-smi`."""
    gpu_memory_mb: float | None
    """Peak GPU memory in MB; None without `nvidia-smi`."""


class _Sampler:
    """A thread that samples `nvidia-smi` periodically."""

    def __init__(self) -> None:
        self.samples: list[tuple[float, float, float]] = []
        """Timestamp, GPU utilisation in per cent, and megabytes of GPU memory per sample."""
        self._over = threading.Event()
        if shutil.which("nvidia-smi"):
            threading.Thread(target=self._sample, daemon=True).start()

    def _sample(self) -> None:
        while not self._over.wait(EVERY_SECONDS):
            done = subprocess.run(("nvidia-smi", *_ASK), capture_output=True, text=True)
            numbers = done.stdout.replace(",", " ").split()
            if done.returncode or len(numbers) < 2:
                return
            self.samples.append((time.perf_counter(), float(numbers[0]), float(numbers[1])))

    def stop(self) -> None:
        """Stop sampling."""
        self._over.set()


def measure(
    law: str, options: dict[str, str] | None, case: Case, shards: int, pool: int, seconds: float
) -> Throughput:
    """Play one swarm for `seconds`, with the shards and the law in separate processes."""
    make: Callable[[], Any] = partial(make_law, law, options)
    start = time.perf_counter()
    with Processes(law, make, shards, pool) as group:
        group.loaded()
        loading = time.perf_counter() - start
        sampler = _Sampler()
        played = play(case, make(), group=group, limit=seconds)
        sampler.stop()
        work = group.work()
        until = group.began + sum(played.seconds)
        during = [sample for sample in sampler.samples if group.began <= sample[0] <= until]
    total = sum(played.seconds)
    return Throughput(
        law, case.options.get("graph", "rings"), case.n, shards, len(work), loading,
        played.opened, played.seconds, played.scores, case.n * len(played.scores) / total,
        sum(one.seconds for one in work) / len(work) / total,
        sum(one.decisions for one in work) / max(1, sum(one.batches for one in work)),
        sum(busy for _, busy, _ in during) / 100 / len(during) if during else None,
        max(taken for *_, taken in during) if during else None,
    )  # fmt: skip


def throughput(
    *, law: str = "nano", law_options: LawOptions = None, n: int = 100_000, rounds: int = 20,
    graph: str = "rings", shards: int = 12, pool: int = 4, seconds: float = 120.0,
    seed: int = SEED, out: Path | None = None,
) -> None:  # fmt: skip
    """Print decisions per second of one large swarm, end to end, and how busy the GPU is.

    Args:
        law: A law with weights; its options follow as `--law.KEY VALUE`.
        n: Number of agents.
        rounds: Maximum number of rounds.
        graph: The contact graph, see `waggle run beacon --help`.
        shards: Processes that play the agents.
        pool: Processes that hold a copy of the law.
        seconds: Time after which no further round begins.
        seed: Seed of the episode.
        out: A file for the figures, as JSON.
    """
    case = Case("beacon", "beacon", n, seed, rounds, options={"graph": graph})
    found = measure(law, law_options, case, shards, pool, seconds)
    rows = [
        (number, f"{taken:.1f}", f"{n / taken:,.0f}", f"{score:.4f}")
        for number, (taken, score) in enumerate(zip(found.seconds, found.scores, strict=True), 1)
    ]
    title = f"{law}, beacon ({graph}), N = {n:,}, {shards} shards, {found.pool} copies of the law"
    console.table(title, ("round", "seconds", "decisions/s", "score"), rows)
    busy = "no nvidia-smi" if found.gpu_busy is None else f"{found.gpu_busy:.0%}"
    console.say(
        f"{found.decisions_per_s:,.0f} decisions/s end to end; GPU busy {busy}; a copy of the law "
        f"decides {found.deciding:.0%} of the time, {found.batch:,.0f} requests a batch; loading "
        f"{found.loading:.0f} s, opening {found.opening:.0f} s"
    )
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(msgspec.json.encode(found))
