"""`waggle run TASK`: one episode, its scores, and its record on disk."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import msgspec
from cyclopts import Group, Parameter

from waggle import plugins
from waggle.built_in import BUILT_IN
from waggle.cli import console, options
from waggle.cli.options import AsJson, Flag, LawOptions, Size, WorkerOptions
from waggle.cli.play.episode import Summary, watching
from waggle.core.errors import ConfigError
from waggle.core.protocols import Case
from waggle.core.seeds import derive
from waggle.evaluate.rows import measure
from waggle.runtime.eventdriven import EventEngine
from waggle.runtime.perturb import Perturbation
from waggle.runtime.recorder import Memory
from waggle.runtime.records import RecordFile, record_name
from waggle.runtime.sync import Engine, native_order, native_switches

MAX_N = 1_000_000
"""More agents than this is taken for a slip of the keyboard."""


def run(
    task: str,
    /,
    *,
    n: Size = 16,
    seed: int = 0,
    law: str = "heuristic",
    law_options: LawOptions = None,
    worker: str = "",
    worker_options: WorkerOptions = None,
    rounds: int | None = None,
    engine: Literal["sync", "event"] = "sync",
    order: Literal["shuffled", "canonical"] | None = None,
    shock: Flag = False,
    out: Path = Path("runs"),
    watch: Flag = False,
    json: AsJson = False,
    **groups: Any,
) -> int:
    """Run one episode and keep its record.

    Prints scores, own metrics, traffic and the path of the record. The same command gives the same
    record.

    Examples:
    `waggle run beacon --shock --watch`

    `waggle run silo/III-26 -n 32 --silo.regime ports --law max-offer`

    `waggle run coloring --engine event --perturb.loss 0.1 --switch.decay off`

    Args:
        task: A task name of `waggle list tasks`; the part behind the slash alone works where it is
            unique.
        n: Agents in the swarm.
        seed: Names the episode. 0 to 9,999 are for training, 10,000 to 10,999 and 20,000 to 24,999
            for development, 40,000 and up for evaluation.
        law: A name of `waggle list laws` or a law's folder. Its own options follow as
            `--law.KEY VALUE`.
        worker: Who makes the private proposals, instead of the task's own rule: native, slips,
            or `FILE.py:callable`. Its options follow as `--worker.KEY VALUE`:
            schedule (full or reuse), cache (a file), and the worker's own.
        rounds: Local updates per agent; the task's own horizon if unset.
        engine: sync forms all views of a round from one state; event runs calls, deliveries and
            timers in virtual time.
        order: How a view lists its records: shuffled by the node's own stream, or in canonical
            form. The law's own order if unset; shuffled where it has none.
        shock: Inject late counterevidence, where the task knows how.
        out: Folder for the record; it is made if needed.
        watch: Draw every round.
        **groups: Dotted options of the substrates and of the runtime.
    """
    chosen = plugins.find_task(task)
    _refuse_foreign(groups, chosen.substrate)
    own = options.given(groups.get(chosen.substrate))
    case = Case(chosen.substrate, chosen.task, _count("-n", n), seed, rounds, shock, own)
    if rounds is not None:
        _count("--rounds", rounds)
    source = options.make_law(law, law_options)
    world = plugins.get_substrate(chosen.substrate).open(case)
    native = native_switches(source, world)
    order = order or native_order(source)
    settings: dict[str, Any] = {
        "order": order,
        "switches": msgspec.structs.replace(native, **options.given(groups.get("switch"))),
        "perturbation": Perturbation(**options.given(groups.get("perturb"))).on(engine),
    }
    hired = options.read_worker(worker, worker_options)
    kept = (engine, law_options, settings, hired) if hired else (engine, law_options, settings)
    path = _place(out, case, law, kept)
    if hired:
        from waggle.workers.hire import hire

        settings["staff"] = hire(**hired)
    kind = Engine if engine == "sync" else EventEngine
    theirs = [name for name in plugins.names("metric") if name not in BUILT_IN["metric"]]
    memory = [Memory()] if theirs else []
    start = time.perf_counter()
    with watching(world, watch=watch, quiet=json) as watcher, RecordFile(path) as sink:
        footer = kind(world, source, case, sinks=[sink, *memory], watch=watcher, **settings).play()
    what = {"task": chosen.name, "n": n, "seed": seed, "law": law, "engine": engine, "order": order}
    what |= {"worker": worker} if worker else {}
    seconds = time.perf_counter() - start
    metrics, faults = measure(memory[0].record(), theirs) if theirs else ({}, {})
    for name, reason in faults.items():
        console.note(f"metric {name!r} failed: {reason}")
    summary = Summary(what, footer, seconds, path, metrics)
    if json:
        console.dump(summary.plain())
    else:
        summary.print()
    return 1 if faults else 0


def _count(option: str, value: int) -> int:
    if not 1 <= value <= MAX_N:
        raise ConfigError(f"{option} must be from 1 to {MAX_N:,}, not {value}")
    return value


def _refuse_foreign(groups: dict[str, Any], substrate: str) -> None:
    """Refuse options of another substrate: they would be ignored in silence."""
    for name, model in groups.items():
        if model is not None and name not in {substrate, *options.SETTINGS}:
            raise ConfigError(f"--{name}.* belongs to {name}, this task to {substrate}; remove it")


def _place(out: Path, case: Case, law: str, settings: object) -> Path:
    """Name the record after the episode and all its settings, so that none replaces another."""
    digest = derive(0, "record", repr(msgspec.to_builtins((case, settings)))) >> 32
    task = case.task if case.task == case.substrate else f"{case.substrate}-{case.task}"
    return out / record_name(task, case.n, case.seed, f"{law}_{digest:08x}")


def command(tokens: Sequence[str]) -> Callable[..., int]:
    """Return `run` with one parameter for every group of dotted options a line is about."""

    @wraps(run)
    def with_groups(*words: Any, **options: Any) -> int:
        return run(*words, **options)

    with_groups.__signature__ = _signature(tokens)  # type: ignore[attr-defined]
    return with_groups


def _signature(tokens: Sequence[str]) -> inspect.Signature:
    fixed = inspect.signature(run, eval_str=True)
    parameters = [p for p in fixed.parameters.values() if p.kind is not p.VAR_KEYWORD]
    for name, model in options.models(tokens).items():
        title = _TITLES.get(name, f"Options of {name}")
        shown = Parameter(name=f"--{name}", group=Group(title, sort_key=9))
        kind: Any = Annotated[Optional[model], shown]  # noqa: UP045
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        )
    return fixed.replace(parameters=parameters)


_TITLES = {"perturb": "Perturbations of execution", "switch": "Ablations of the runtime"}
