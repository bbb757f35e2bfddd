"""Build a staff from a worker's name: `native`, `slips`, `chat`, or a callable of a Python file.

    staff = hire("extract.py:extract", schedule="reuse", cache="answers.sqlite")
    play(world, law, case, staff=staff)

A class is instantiated with its options and then called; a function is the worker itself. An option
that a class lists in the tuple `files` names a file, whose content is part of the identity of a
worker. Invariant: a desk is created once per process for each code and options, so that episodes
share its knowledge of an endpoint, and a staff is created for every episode.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, get_args

import msgspec

from waggle.core.errors import ConfigError, suggest
from waggle.core.worker import Schedule
from waggle.plugin_files import FAULTS, WORKER_FILE, raised
from waggle.runtime.staff import Staff
from waggle.workers.desk import WorkerDesk

BUILT_IN: Mapping[str, str] = {
    "native": "waggle.workers.rules:native",
    "slips": "waggle.workers.rules:Slips",
    "chat": "waggle.workers.chat:ChatWorker",
}
"""Workers of this package by name."""


class WorkerTarget(NamedTuple):
    """A worker's callable and the digest of its code."""

    target: Callable[..., Any]
    code: str
    """The digest of a file's code, so that a changed file does not reuse its cached answers."""


def hire(name: str, *, schedule: str = "full", cache: str = "", **options: Any) -> Staff:
    """Return the staff of one episode.

    Args:
        name: a worker of this package, `FILE.py:callable`, or `package.module:callable`.
        schedule: `full` asks at every update; `reuse` asks at the first one, and when a delivery or
            new evidence of the node's own conditions the update.
        cache: SQLite file of answers by content; empty for none.
        options: the worker's own options.
    """
    if schedule not in get_args(Schedule):
        raise ConfigError(f"schedule {schedule!r} is unknown; use full or reuse")
    try:
        text = msgspec.json.encode(options, order="sorted").decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"options of worker {name!r} cannot be written down ({error}); use plain text and "
            "numbers"
        ) from None
    found = find(name)
    desk = _desk(name, found, cache, text, _contents(found.target, options))
    return Staff(desk, schedule)  # type: ignore[arg-type]


def worker_options(name: str) -> Mapping[str, inspect.Parameter]:
    """Return the options a worker takes, by name; a function takes none."""
    target = find(name).target
    if not inspect.isclass(target):
        return {}
    return inspect.signature(target, eval_str=True).parameters


def _contents(target: Callable[..., Any], options: Mapping[str, Any]) -> str:
    """Return the digests of the files that options name; empty if they name none."""
    listed = getattr(target, "files", ())
    if not isinstance(listed, tuple):  # `files` is something else in this class
        return ""
    named = [options[each] for each in listed if options.get(each)]
    with suppress(OSError, ValueError):  # the worker itself reports an unreadable file
        return " ".join(sha256(_path(each).read_bytes()).hexdigest() for each in named)
    return ""


@cache
def _desk(name: str, found: WorkerTarget, cache: str, options: str, contents: str) -> WorkerDesk:
    given: dict[str, Any] = msgspec.json.decode(options)
    known = worker_options(name)
    for option in given:
        if option not in known:
            takes = ", ".join(["schedule", "cache", *known])
            raise ConfigError(f"worker {name!r} has no option {option!r}; it takes {takes}")
    worker = found.target(**given) if inspect.isclass(found.target) else found.target
    if not callable(worker):
        raise ConfigError(f"worker {name!r} is not callable; give a function or __call__")
    identity = f"{name} {found.code} {options}{contents and f' {contents}'}"
    return WorkerDesk(worker, {"name": name, **given}, identity, cache)


def find(name: str) -> WorkerTarget:
    """Return the target that a worker's name refers to.

    Raises:
        ConfigError: for an unknown name, or code that cannot be used.
    """
    place, colon, attribute = BUILT_IN.get(name, name).rpartition(":")
    if not colon:
        hint = suggest(name, list(BUILT_IN))
        raise ConfigError(
            f"worker {name!r} is unknown; use {', '.join(BUILT_IN)} or FILE.py:callable{hint}"
        )
    if place.endswith(".py") and not _path(place).is_file():
        raise ConfigError(f"worker {name!r}: there is no {place}; name a file that exists")
    try:
        code = _digest(place)
        module = _loaded(place, code)
        target = getattr(module, attribute, None)
    except FAULTS as error:
        raise ConfigError(f"worker {name!r} cannot be loaded: {raised(error)}; mend it") from error
    if not callable(target):
        own = [word for word in vars(module) if not word.startswith("_")]
        hint = suggest(attribute, own)
        raise ConfigError(
            f"worker {name!r}: {place} has no callable {attribute!r}; name a function or a "
            f"class of it{hint}"
        )
    return WorkerTarget(target, code)


def _digest(place: str) -> str:
    """Return the digest of a file's code; empty for a module."""
    return sha256(_path(place).read_bytes()).hexdigest() if place.endswith(".py") else ""


def _path(place: str) -> Path:
    try:
        return Path(place).expanduser().resolve()
    except (RuntimeError, TypeError, ValueError) as error:  # such as ~name of an unknown user
        raise ConfigError(f"{place!r} is no path ({error}); name a file") from None


@cache
def _loaded(place: str, code: str) -> Any:
    """Return the module of a file, run again if its code has changed, or a module by its name."""
    if not place.endswith(".py"):
        return import_module(place)
    path = _path(place)
    module = ModuleType(f"{WORKER_FILE}{path.stem}_{code[:8]}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    # Not by a loader: it might use stale compiled code of a file that was just changed.
    exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    return module
