"""`waggle run TASK`: one episode, its scores, and its record on disk."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

from cyclopts import Group, Parameter
from pydantic import BaseModel

from waggle import plugins
from waggle.api.episode import place_of, summary
from waggle.api.findings import Replacements, why_look, why_no_result
from waggle.api.given import find_law
from waggle.api.options import SETTINGS, given
from waggle.api.run import count, prepare, watching
from waggle.api.watch import FPS
from waggle.built_in import BUILT_IN
from waggle.cli import console
from waggle.cli.options import (
    AsJson,
    Flag,
    LawOptions,
    Size,
    WorkerOptions,
    law_model,
    make_law,
    models,
    read_worker,
)
from waggle.cli.play.view import show_live
from waggle.compat.telemetry import spans
from waggle.core.errors import ConfigError
from waggle.core.world import WorldBase
from waggle.evaluate.rows import measure
from waggle.runtime.live import LiveFile
from waggle.runtime.recorder import Memory, Sink
from waggle.runtime.records import SUFFIX, RecordFile
from waggle.shared_folders import sweep


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
    engine: Literal["sync", "event", "ray"] = "sync",
    shards: int | None = None,
    pool: int | None = None,
    keep_every: int | None = None,
    curves: Flag = False,
    order: Literal["shuffled", "canonical"] | None = None,
    shock: Flag = False,
    out: Path = Path("runs"),
    watch: Flag = False,
    fps: float | None = None,
    step: Flag = False,
    view: Flag = False,
    otel: Flag = False,
    json: AsJson = False,
    **groups: Any,
) -> int:
    """Run one episode and save its record.

    Prints scores, metrics from plugins, traffic and the path of the record. Among the writes,
    candidates are those that laws requested; refreshed ones are repeated after the refresh
    interval. Decodes are counted by the stage of admission that made them legal; `first` means
    legal as decoded. The same command gives the same record.

    Examples:
    `waggle run beacon --shock --watch`

    `waggle run silo/III-26 -n 32 --silo.regime ports --law max-offer`

    `waggle run coloring --engine event --perturb.loss 0.1 --switch.decay off`

    `waggle run beacon -n 100000 --engine ray --shards 4 --curves`

    Args:
        task: Task name from `waggle list tasks`; the part after the slash is enough if it is
            unique.
        n: Agents in the swarm.
        seed: Seed of the episode. 0 to 9,999 are for training, 10,000 to 10,999 and 20,000 to
            24,999 for development, 40,000 and above for evaluation.
        law: Name from `waggle list laws`, a Python file that registers one law, or a law's folder.
            Pass its options as `--law.KEY VALUE`; `waggle run TASK --law NAME --help` lists them.
        worker: Worker that makes the private proposals instead of the task's own rule: native,
            slips, chat, or `FILE.py:callable`. Pass its options as `--worker.KEY VALUE`: schedule
            (full or reuse), cache (a file), and the worker's own.
        rounds: Local updates per agent. Default: the task's horizon.
        engine: Execution engine. sync forms all views of a round from one state; event runs calls,
            deliveries and timers in virtual time; ray distributes sync over Ray actors, on a
            running cluster or on this machine.
        shards: With --engine ray: number of actors among which the agents are divided. Default: 2.
        pool: With --engine ray: number of actors for a law with weights. Default: one per GPU.
        keep_every: With --engine ray: rounds between checkpoints, from which a lost actor or an
            interrupted command resumes; 0 for none. Default: 5.
        curves: With --engine ray: save scores and counts per round instead of every decision. Such
            a record is small and cannot be replayed.
        order: Order of the records in a view: shuffled by the node's own stream, or canonical.
            Default: the law's own order; shuffled if it has none.
        shock: Inject late counterevidence, on tasks that support it.
        out: Folder for the record; created if missing.
        watch: Draw every round: in place on a terminal, with each agent in the colour of its claim;
            otherwise one line per round.
        fps: Watch at no more than this many rounds per second. Default: 10.
        step: Watch round by round: any key continues, q plays to the end.
        view: Show the episode in the browser while it is played, as `waggle view` does; on a
            terminal the page stays open until Ctrl-C. Needs the extra `serve`.
        otel: Send the episode as OpenTelemetry spans to the endpoint in the OTEL_* variables.
            Default: an OTLP collector on this machine. Uses the network.
        **groups: Dotted options of the substrates and of the runtime.
    """
    _refuse_foreign(groups, plugins.find_task(task).substrate)
    count("-n", n)
    if seed < 0:
        raise ConfigError(f"--seed must be 0 or more, not {seed}")
    if rounds is not None:
        count("--rounds", rounds)
    if fps is not None and not 0 < fps <= 1000:
        raise ConfigError(f"--fps takes rounds a second, from above 0 to 1000, not {fps:g}")
    if step and not sys.stdin.isatty():
        raise ConfigError("--step waits for keys and there is no terminal; leave it out")
    law = find_law(law).name  # a file is named by the law that it registers
    hired = read_worker(worker, worker_options)
    own = {"worker": {k: v for k, v in hired.items() if k != "name"}}
    own |= {group: given(model) for group, model in groups.items()}
    setup = prepare(
        task,
        make_law(law, law_options),
        worker=worker,
        n=n,
        seed=seed,
        rounds=rounds,
        order=order,
        engine=engine,
        shock=shock,
        options={f"{group}.{key}": v for group, values in own.items() for key, v in values.items()},
    )
    if shock and getattr(type(setup.world), "shock", None) is WorldBase.shock:
        console.note(f"{task} has no late counterevidence: --shock injects nothing")
    sharding = {"shards": shards, "pool": pool, "keep_every": keep_every, "curves": curves or None}
    sharding = {name: value for name, value in sharding.items() if value is not None}
    _check_engine(engine, sharding, watch or view or step or fps is not None)
    kept = (
        engine,
        law_options,
        setup.settings(),
        *([hired] if hired else []),
        *["curves"] * curves,
    )
    path = place_of(out, setup.case, law, kept)
    sweep(out)
    growing = LiveFile(path, setup.world) if view else nullcontext()
    end = show_live(path.parent, path.name) if view else None
    theirs = [name for name in plugins.names("metric") if name not in BUILT_IN["metric"]]
    memory, replaced = [Memory()] if theirs else [], Replacements()
    start = time.perf_counter()
    with (
        spans() if otel else nullcontext() as sent,
        watching(
            setup.world, watch or step or fps is not None, quiet=json, fps=fps or FPS, step=step
        ) as watcher,
        growing as live,
        RecordFile(path) as sink,
    ):
        others = [other for other in (sent, live) if other is not None]
        sinks: list[Sink] = [sink, replaced, *memory, *others]
        if engine == "ray":
            again = replace(setup, make=partial(make_law, law, law_options))
            folder = path.with_name(path.name.removesuffix(SUFFIX) + ".shards")
            dealt = again.on_ray(folder, watcher, **{"shards": 2, **sharding})
            footer = dealt.play(sinks)
        else:
            dealt, footer = None, setup.play(sinks, watcher)
    if dealt is not None:
        dealt.clear()
    seconds = time.perf_counter() - start
    metrics, faults = measure(memory[0].record(), theirs) if theirs else ({}, {})
    for name, reason in faults.items():
        console.note(f"metric {name!r} failed: {reason}")
    refusal = None if setup.staff is None else setup.staff.refusal
    failed = why_no_result(setup.law, footer.counters, {"name": worker}, refusal)
    look = why_look(
        footer.counters, replaced, lambda at: f"waggle show {path} --round {at[0]} --agent {at[1]}"
    )
    if failed:
        console.note(f"failed: {failed}; the score is no result of this law")
    elif look:
        console.note(look)
    what = {
        "task": setup.task.name, "n": n, "seed": seed, "law": law, "engine": engine,
        "order": setup.order, **({"worker": worker} if worker else {}),
        **({"shards": str(dealt)} if dealt is not None else {}),
    }  # fmt: skip
    if json:
        console.dump(
            {
                **what,
                "rounds": footer.rounds,
                "scores": footer.scores,
                "metrics": metrics,
                "counters": footer.counters,
                "failed": failed,
                "seconds": seconds,
                "record": path,
            }
        )
    else:
        console.say("  ".join(f"{key} {value}" for key, value in what.items()))
        console.table(None, ("", ""), [*summary(footer, n, metrics), ("seconds", seconds)])
        console.say(f"record: {path}")
    if end is not None:
        end()
    return 1 if faults or failed else 0


def _refuse_foreign(groups: dict[str, Any], substrate: str) -> None:
    """Refuse options of another substrate, which would otherwise be ignored silently."""
    for name, model in groups.items():
        if model is not None and name not in {substrate, *SETTINGS}:
            raise ConfigError(f"--{name}.* belongs to {name}, this task to {substrate}; remove it")


def _check_engine(engine: str, sharding: dict[str, Any], watch: bool) -> None:
    """Refuse options of shards without the engine ray, and pictures of single agents with it."""
    if engine != "ray" and sharding:
        name = next(iter(sharding)).replace("_", "-")
        raise ConfigError(f"--{name} belongs to --engine ray; add it, or leave --{name} out")
    if engine == "ray" and watch:
        raise ConfigError(
            "--engine ray shows no agents while it plays; leave out --watch, --step, --fps and "
            "--view, and open the record afterwards with `waggle view`"
        )


def command(tokens: Sequence[str]) -> Callable[..., int]:
    """Return `run` with a parameter for every group of dotted options of the command line."""

    @wraps(run)
    def with_groups(*words: Any, **options: Any) -> int:
        return run(*words, **options)

    with_groups.__signature__ = _signature(tokens)  # type: ignore[attr-defined]
    return with_groups


def _signature(tokens: Sequence[str]) -> inspect.Signature:
    fixed = inspect.signature(run, eval_str=True)
    parameters = [p for p in fixed.parameters.values() if p.kind is not p.VAR_KEYWORD]
    own = law_model(tokens)
    if own is not None:  # a call for help, which runs nothing
        parameters = [p for p in parameters if p.name != "law_options"]
        parameters.append(
            _group("law_help", "law", f"Options of the law {own.__name__}", own, True)
        )
    for name, model in models(tokens).items():
        parameters.append(_group(name, name, _TITLES.get(name, f"Options of {name}"), model))
    return fixed.replace(parameters=parameters)


def _group(
    name: str, prefix: str, title: str, model: type[BaseModel], needed: bool = False
) -> inspect.Parameter:
    """Return a parameter whose fields are the options `--PREFIX.FIELD`.

    The help marks a required field only if the whole group is `needed`.
    """
    shown = Parameter(name=f"--{prefix}", group=Group(title, sort_key=9))
    kind: Any = Annotated[model if needed else Optional[model], shown]  # noqa: UP045
    default = inspect.Parameter.empty if needed else None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


_TITLES = {
    "perturb": "Perturbations of execution", "switch": "Ablations of the runtime",
    "defend": "Defences against Byzantine agents",
}  # fmt: skip
