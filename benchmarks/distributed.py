"""Does training in several processes equal training in one, and does it survive a `kill -9`?

    python -m benchmarks.distributed --processes 1,2,4 --out runs/distributed

Trains a random two-layer model with `waggle train` (both stages, the complete loss) and with
`waggle learn` on `agentsnet/consensus`, each in one process and through `accelerate launch`. Prints
how far losses and weights are from those of one process. Then one of two processes is killed in the
middle, the same command is run again, and the weights are compared with those of the uninterrupted
run. Runs on the CPU; dropout is off, since every process draws its own masks.

Adam divides a gradient by its own size. Where a gradient is nearly zero in the first update,
rounding differences become visible: a few such weights end up apart by a fraction of a step.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

ROOT = Path(__file__).parents[1]
TRAIN = ("train", "OUT/recipe.toml", "--out", "OUT")
LEARN = ("learn", "agentsnet/consensus", "OUT/recipe.toml", "-n", "4", "--out", "OUT")
COMMANDS = {"train": TRAIN, "learn": LEARN}
STAGES = {"train": ("seed-0/warm-start", "seed-0/scd"), "learn": (".",)}
"""Folders of a run that contain metrics and checkpoints."""
RECIPES = {
    "train": """
name = "distributed"
backbone = "BACKBONE"
max_context = 4000
adaptation = { rank = 4, alpha = 8, dropout = 0.0 }
stage_one = { updates = 8, batch = 6, rate = 1e-3, rate_warm_up = 1 }
[run]
device = "cpu"
dtype = "float32"
evaluate_every = 4
save_every = 1
validation_records = 8
[corpus]
tasks = ["beacon"]
bundles = 2
validation = 1
test = 1
native = 4
n = [6]
rounds = 6
[transitions]
tasks = ["beacon"]
law = "expert"
train = 16
validation = 8
probe = 12
test = 12
n = [6]
rounds = 8
episodes = 4
[stage_two]
updates = 8
batch = 6
transition_batch = 6
rate = 1e-3
warm_up = 0
ramp = 0
lambda_orbit = 0.5
lambda_field = 0.5
""",
    "learn": """
start = "scratch"
backbone = "BACKBONE"
rounds = 2
grammar_updates = 4
cases = 2
replays = 4
batches = 4
trial_cases = 2
trial_every = 2
final_cases = 2
trial_mode = "constrained"
rate = 1e-3
machine = { device = "cpu", save_every = 1 }
""",
}
LOSSES = {"train": "decision", "learn": "choice.policy"}


class Compared(NamedTuple):
    """The differences to the run of one process, or of the interrupted run to the uninterrupted."""

    command: str
    stage: str
    processes: int
    killed: str
    loss: float
    """Largest difference of a loss over all updates."""
    weight: float
    """Largest difference of a weight, after the last update."""
    far: float
    """Share of weights that differ by more than a millionth."""
    step: float
    """Largest change of a weight in the last update, for comparison."""


def member(arguments: Sequence[str]) -> int:
    """Run one training process, without dropout in the head of the field loss."""
    from waggle.cli.main import main as waggle
    from waggle.scd.heads import Heads
    from waggle.scd.run import stages

    still = patch.object(stages, "Heads", partial(Heads, dropout=0.0))
    kept = patch.object(stages.Stages, "tidy")  # keep the last checkpoints for the comparison
    with still, kept:
        return waggle(list(arguments))


def prepare(kind: str, out: Path) -> None:
    """Write the recipe of a run, and the random two-layer model that it trains."""
    from waggle.models.nano import nano_tokenizer, random_llama

    backbone = out.parent / "backbone"
    if not backbone.exists():
        tokenizer = nano_tokenizer()
        model = random_llama(
            tokenizer, 3, 0.1, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=4096,
        )  # fmt: skip
        model.save_pretrained(backbone)
        tokenizer.save_pretrained(backbone)
    out.mkdir(parents=True, exist_ok=True)
    recipe = RECIPES[kind].replace("BACKBONE", str(backbone.resolve()))
    (out / "recipe.toml").write_text(recipe, encoding="utf-8")


def launch(kind: str, processes: int, out: Path) -> subprocess.Popen[bytes]:
    """Start a run in one process, or in several through `accelerate launch`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    own = ["-m", "benchmarks.distributed", "--member", kind, str(out)]
    if processes > 1:
        own = [
            "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", str(processes),
            "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no",
            "--main_process_port", port, *own,
        ]  # fmt: skip
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    with (out / "log.txt").open("ab") as log:
        return subprocess.Popen([sys.executable, *own], stdout=log, stderr=log, env=environment)


def play(kind: str, processes: int, out: Path) -> None:
    """Run training to its end.

    Raises:
        RuntimeError: with the end of its log, if it fails.
    """
    prepare(kind, out)
    code = launch(kind, processes, out).wait()
    # `waggle learn` exits with 1 if it gains nothing, as is the case after four batches.
    ended = (out / "learn.json").exists() if kind == "learn" else code == 0
    if not ended:
        raise RuntimeError((out / "log.txt").read_text(encoding="utf-8", errors="replace")[-2000:])


def interrupt(kind: str, processes: int, out: Path) -> str:
    """Kill the last process of a run once it has a checkpoint; return the newest one's name."""
    prepare(kind, out)
    running = launch(kind, processes, out)
    stage = out / STAGES[kind][-1]
    while running.poll() is None and not list((stage / "checkpoints").glob("update-[0-9]*[0-9]")):
        time.sleep(0.05)
    children = _children(running.pid)
    with suppress(ProcessLookupError, IndexError):
        os.kill(children[-1], signal.SIGKILL)
    code = running.wait()
    newest = max(path.name for path in (stage / "checkpoints").glob("update-[0-9]*[0-9]"))
    if not code or (out / "learn.json").exists():
        raise RuntimeError("it ended before it could be killed")
    return newest


def _children(process: int) -> list[int]:
    """Return the ids of the processes that a process has started, in ascending order."""
    threads = Path(f"/proc/{process}/task").iterdir()
    return sorted(int(n) for path in threads for n in (path / "children").read_text().split())


def compare(kind: str, one: Path, other: Path, processes: int, killed: str = "") -> list[Compared]:
    """Compare all stages of two runs."""
    return [
        Compared(
            kind, stage.rpartition("/")[2], processes, killed,
            max(map(_distance, _losses(kind, one / stage), _losses(kind, other / stage))),
            *_weights(one / stage, other / stage),
        )
        for stage in STAGES[kind]
    ]  # fmt: skip


def _distance(one: float, other: float) -> float:
    return abs(one - other)


def _losses(kind: str, stage: Path) -> list[float]:
    lines = (stage / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rows: list[dict[str, Any]] = list(map(json.loads, lines))
    return [row[LOSSES[kind]] for row in rows if LOSSES[kind] in row]


def _weights(one: Path, other: Path) -> tuple[float, float, float]:
    """Return the fields `weight`, `far` and `step` of `Compared` for two runs."""
    import torch

    from waggle.scd.files import read_tensors

    names = [sorted((run / "checkpoints").glob("update-[0-9]*[0-9]")) for run in (one, other)]
    *_, before, last = [read_tensors(path / "trainable.safetensors") for path in names[0]]
    theirs = read_tensors(names[1][-1] / "trainable.safetensors")
    apart = torch.cat([(last[name] - theirs[name]).abs().flatten() for name in last])
    step = max(float((last[name] - before[name]).abs().max()) for name in last)
    return float(apart.max()), float((apart > 1e-6).double().mean()), step


def measure(kinds: Sequence[str], counts: Sequence[int], out: Path) -> list[Compared]:
    """Run all commands with all numbers of processes, interrupt one run each, and compare."""
    rows: list[Compared] = []
    for kind in kinds:
        runs = {count: out / f"{kind}-{count}" for count in counts}
        for count, folder in runs.items():
            play(kind, count, folder)
        rows += [
            row
            for count in counts[1:]
            for row in compare(kind, runs[counts[0]], runs[count], count)
        ]
        several = min(count for count in counts if count > 1)
        killed = out / f"{kind}-{several}-killed"
        where = interrupt(kind, several, killed)
        play(kind, several, killed)
        rows += compare(kind, runs[several], killed, several, where)
    return rows


def main() -> int:
    """Run the measurements of the command line, or one of their processes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--member", nargs=2, metavar=("KIND", "OUT"), help=argparse.SUPPRESS)
    parser.add_argument("--processes", default="1,2,4", help="the first is compared with")
    parser.add_argument("--commands", default="train,learn")
    parser.add_argument("--out", type=Path, default=Path("runs/distributed"))
    asked = parser.parse_args()
    if asked.member:
        kind, out = asked.member
        return member([word.replace("OUT", out) for word in COMMANDS[kind]])
    counts = [int(count) for count in asked.processes.split(",")]
    for row in measure(asked.commands.split(","), counts, asked.out):
        sys.stdout.write(json.dumps(row._asdict()) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
