"""The registry of the three extension points: substrates, laws and metrics.

Names map to "module:attribute" strings, so that listing them imports nothing and a heavy law is
imported only when it is used. `waggle.built_in` lists the names of this package; another package
declares an entry point in the group `waggle.substrates`, `waggle.laws` or `waggle.metrics`, and
code that is imported anyway may use the decorators instead. A single file without a package is
loaded by `load_file` of `waggle.plugin_files`. Invariant: a name refers to one object; two objects
under one name are an error that names both. Only a lent object, which is registered temporarily or
by the parent process, replaces all others of its name.
"""

from __future__ import annotations

import inspect
import os
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from waggle import plugin_files
from waggle.built_in import BUILT_IN, ELSEWHERE, Kind
from waggle.core.errors import suggest
from waggle.core.protocols import Law, LawFactory, Substrate
from waggle.plugin_files import FAULTS, Entry, raised
from waggle.plugin_files import PluginError as PluginError
from waggle.plugin_files import load_file as load_file

_Class = TypeVar("_Class", bound=type)
_Factory = TypeVar("_Factory", bound=Callable[..., Any])
_Value = TypeVar("_Value")
_Compute: TypeAlias = Callable[[Any], float | None]


@dataclass(frozen=True)
class Metric:
    """A named pure function of one episode record; it returns None where it is undefined."""

    name: str
    compute: _Compute
    better: Literal["higher", "lower"] = "higher"
    unit: str = ""

    def __call__(self, episode: Any) -> float | None:
        """Compute the metric of one episode record."""
        return self.compute(episode)


class Task(NamedTuple):
    """One task of one substrate."""

    substrate: str
    task: str

    @property
    def name(self) -> str:
        """`substrate/task`, or only the task's name if it equals the substrate's."""
        return self.task if self.task == self.substrate else f"{self.substrate}/{self.task}"


class _Decorated(NamedTuple):
    """An object that a decorator registered, and its target as in an `Entry`."""

    target: str
    value: Any

    @property
    def module(self) -> str:
        return self.target.partition(":")[0]


_decorated: dict[Kind, dict[str, _Decorated]] = {"substrate": {}, "law": {}, "metric": {}}
_lent: dict[Kind, dict[str, Any]] = {"substrate": {}, "law": {}, "metric": {}}
"""Objects that are registered temporarily; they override others of the same name."""


_DECIDING = ("request", "requests", "view", "views")
"""Names of the first argument of a function that would decide, instead of making a law."""

_FROM_A_FILE = "; add --plugin FILE.py if a file of yours defines it"


def substrate(name: str) -> Callable[[_Class], _Class]:
    """Register a Substrate class under a name."""
    _require_name("substrate", name)
    return lambda cls: _register("substrate", name, cls, cls)


def law(name: str) -> Callable[[_Factory], _Factory]:
    """Register a law: a class, or a function whose keyword arguments are the law's options."""
    _require_name("law", name)
    return lambda factory: _register("law", name, factory, factory)


def metric(
    name: str, *, better: Literal["higher", "lower"] = "higher", unit: str = ""
) -> Callable[[_Compute], Metric]:
    """Register a pure function of an episode record as a metric."""
    _require_name("metric", name)
    if better not in ("higher", "lower"):
        raise PluginError(f"metric {name!r}: better is 'higher' or 'lower', not {better!r}")

    def wrap(compute: _Compute) -> Metric:
        value = Metric(name, compute, better, unit)
        _register("metric", name, compute, value)
        return value

    return wrap


def _require_name(kind: Kind, name: object) -> None:
    """Report `@law` for `@law("NAME")`, which would lose the decorated object without a word."""
    if not isinstance(name, str) or not name:
        raise PluginError(f'@{kind} needs a name; write @{kind}("NAME")')


@contextmanager
def lent(things: Mapping[Kind, Mapping[str, Any]]) -> Iterator[None]:
    """Register objects under names temporarily: factories of laws and substrates, and metrics."""
    before = {kind: dict(known) for kind, known in _lent.items()}
    for kind, named in things.items():
        _lent[kind].update(named)
    try:
        yield
    finally:
        _lent.update(before)


def carried() -> tuple[bytes, set[tuple[Kind, str]]]:
    """Return the objects registered only in this process, pickled for `adopt`, and those left out.

    These are the objects lent or decorated here, except from plug-in files, which every process
    loads. Code of `__main__`, a script or a notebook, is left out: other processes do not run it.
    """
    left: set[tuple[Kind, str]] = set()
    moving = []
    for kind, name, value in list(_only_here()):
        try:
            data = pickle.dumps(value)
        except Exception:  # pickling may raise anything
            data = b"__main__"
        if b"__main__" in data:
            left.add((kind, name))
        else:
            moving.append((kind, name, data))
    return pickle.dumps(moving), left


def _only_here() -> Iterator[tuple[Kind, str, Any]]:
    """Yield the objects that another process does not find by itself.

    Lent ones come last: in `adopt`, as in this process, they replace others of the same name.
    """
    plugin_modules = set(plugin_files.loaded.values())
    for kind, decorated in _decorated.items():
        for name, known in decorated.items():
            if known.module not in plugin_modules and not known.target.startswith("waggle."):
                yield kind, name, known.value
    for kind, objects in _lent.items():
        for name, value in objects.items():
            yield kind, name, value


def adopt(things: bytes) -> None:
    """Lend, in a worker process, what its parent process returned from `carried`."""
    for kind, name, data in pickle.loads(things):
        _lent[kind][name] = pickle.loads(data)


def entries(kind: Kind) -> list[Entry]:
    """Return every name of a kind with its target, sorted; nothing is imported."""
    return sorted(targets[0] for targets in _index(kind).values())


def names(kind: Kind) -> list[str]:
    """Return every registered name of a kind, sorted."""
    return sorted(_index(kind))


def get_substrate(name: str) -> Substrate:
    """Return a substrate by name.

    Raises:
        PluginError: for an unknown name or one whose class is not a Substrate.
    """
    made = _create("substrate", name, _load("substrate", name), {})
    if not isinstance(made, Substrate) or not all(isinstance(t, str) for t in made.tasks):
        raise PluginError(
            f"substrate {name!r} does not fit; give its class name, tasks, options and open()"
        )
    if isinstance(made.tasks, str):
        raise PluginError(f"tasks of substrate {name!r} is a text; write ({made.tasks!r},)")
    if not hasattr(made.options, "model_fields"):
        raise PluginError(f"options of substrate {name!r} is no pydantic model; use BaseModel")
    if made.name != name:  # options and records would use one name, commands the other
        raise PluginError(f"substrate {name!r} has the name {made.name!r}; give both one name")
    return made


def get_law(name: str, **options: Any) -> Law:
    """Return a law by name, created with its options.

    Raises:
        PluginError: for an unknown name or option, or an object without `decide`.
    """
    return create_law(name, _load("law", name), options)


def create_law(name: str, factory: LawFactory, options: Mapping[str, Any]) -> Law:
    """Return the law that a factory makes with its options.

    Raises:
        PluginError: as `get_law`.
    """
    made = _create("law", name, factory, options)
    if not isinstance(made, Law):
        raise PluginError(f"law {name!r} does not fit; give it a name and decide(requests)")
    if not _takes_requests(made.decide):
        raise PluginError(
            f"law {name!r} has a `decide` that does not fit; write `def decide(self, requests)`"
        )
    return made


def _takes_requests(decide: Callable[..., Any]) -> bool:
    """Return whether a law's method takes one argument and does not have to be awaited."""
    try:
        inspect.signature(decide).bind(())
    except TypeError:
        return False
    except ValueError:  # some builtins have no signature
        return True
    return not inspect.iscoroutinefunction(decide)


def get_metric(name: str) -> Metric:
    """Return a metric by name.

    Raises:
        PluginError: for an unknown name or an object that `@metric` did not make.
    """
    made = _load("metric", name)
    if not isinstance(made, Metric):
        raise PluginError(f"metric {name!r} does not fit; decorate its function with @metric")
    return made


def law_of_file(path: str) -> str:
    """Return the name of the only law that a Python file registers; load the file if needed.

    Raises:
        PluginError: if it cannot be loaded, or registers no law or several.
    """
    file = str(Path(path).expanduser().resolve())
    if file not in plugin_files.loaded:
        load_file(path)
    module = plugin_files.loaded[file]
    own = [name for name, known in _decorated["law"].items() if known.module == module]
    if len(own) == 1:
        return own[0]
    if not own:
        raise PluginError(f"{path} registers no law; decorate one with @law('NAME')")
    raise PluginError(
        f"{path} registers the laws {', '.join(own)}; name one: --plugin {path} --law {own[0]}"
    )


def law_options(name: str) -> Mapping[str, inspect.Parameter]:
    """Return the options a law takes, by name."""
    return parameters(_load("law", name))


def law_meanings(name: str) -> dict[str, str]:
    """Return the descriptions of a law's options, from the `Args:` of its docstrings.

    If a factory function does not describe an option, the class that it returns is used.
    """
    factory = _load("law", name)
    returned = getattr(factory, "__annotations__", {}).get("return")
    made = getattr(factory, "__globals__", {}).get(returned, returned)
    found: dict[str, str] = {}
    for thing in (made, factory, *(getattr(factory, n, None) for n in ("__init__", "__call__"))):
        listed = inspect.cleandoc(getattr(thing, "__doc__", None) or "").partition("Args:\n")[2]
        block = re.split(r"^(?=\S)", listed, maxsplit=1, flags=re.M)[0]
        entry = r"^ {4}(\w+)(?: \(.*?\))?: (.*(?:\n {5,}.*)*)"
        found |= {option: " ".join(text.split()) for option, text in re.findall(entry, block, re.M)}
    return found


def parameters(factory: Any) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a factory by name, typed where their types can be resolved."""
    try:
        return inspect.signature(factory, eval_str=True).parameters
    except NameError:  # a type that is imported only for type checkers
        return inspect.signature(factory).parameters
    except ValueError:  # some builtins have no signature
        return {}


def tasks() -> list[Task]:
    """Return the tasks of every substrate that can be loaded, in order of name."""
    broken_names = broken("substrate")
    usable = [name for name in names("substrate") if name not in broken_names]
    return [Task(name, task) for name in usable for task in get_substrate(name).tasks]


def broken(kind: Kind) -> dict[str, str]:
    """Return the names that cannot be loaded, each with the reason."""
    reasons = {}
    for name in names(kind):
        try:
            get_substrate(name) if kind == "substrate" else _load(kind, name)
        except PluginError as error:
            reasons[name] = str(error)
    return reasons


def find_task(text: str) -> Task:
    """Resolve `substrate/task`, or only its last part if that is unique.

    Raises:
        PluginError: with a suggestion for a typo, or the candidates of an ambiguous name.
    """
    head, slash, tail = text.partition("/")
    if slash:
        known = get_substrate(head).tasks
        if tail in known:
            return Task(head, tail)
        full = [Task(head, task).name for task in known]
        raise PluginError(f"task {text!r} is unknown; see `waggle list tasks`{suggest(text, full)}")
    if text in names("substrate") and text in get_substrate(text).tasks:
        return Task(text, text)
    everything = tasks()
    found = [task for task in everything if task.task == text]
    if len(found) == 1:
        return found[0]
    if found:
        candidates = ", ".join(task.name for task in found)
        raise PluginError(f"task {text!r} is ambiguous; use one of {candidates}")
    own = [task.name for task in everything if task.substrate == text]
    if own:
        raise PluginError(f"{text!r} is a substrate; name one of its tasks, such as {own[0]}")
    words = [task.name for task in everything] + [task.task for task in everything]
    hint = suggest(text, words) or _FROM_A_FILE
    raise PluginError(f"task {text!r} is unknown; see `waggle list tasks`{hint}")


def _register(kind: Kind, name: str, source: Any, value: _Value) -> _Value:
    """Register a decorated object; only the same target, imported again, may replace it."""
    target = f"{source.__module__}:{source.__qualname__}"
    known = _decorated[kind].get(name)
    if known is not None and known.target != target:
        raise PluginError(f"{kind} {name!r} is {known.target} already; rename {target}")
    _decorated[kind][name] = _Decorated(target, value)
    plugin_files.decorating.add(source.__module__)
    return value


def _index(kind: Kind) -> dict[str, list[Entry]]:
    """Return every name with its distinct targets; more than one is a conflict.

    Names of this package, entry points and decorated objects have equal rights; the same target in
    two of them is no conflict. A lent object replaces all targets of its name.
    """
    for path in os.environ.get(plugin_files.FILES, "").split(os.pathsep):
        if path and path not in plugin_files.loaded:
            load_file(path)  # it fills `_decorated`
    built_in = [Entry(name, target, "waggle") for name, target in BUILT_IN[kind].items()]
    files = {module: Path(path).name for path, module in plugin_files.loaded.items()}
    decorated = [
        Entry(name, known.target, files.get(known.module, "decorator"))
        for name, known in _decorated[kind].items()
    ]
    index: dict[str, list[Entry]] = {}
    for entry in (*built_in, *plugin_files.installed(kind), *decorated):
        same_name = index.setdefault(entry.name, [])
        if entry.target not in (other.target for other in same_name):
            same_name.append(entry)
    for name in _lent[kind]:
        index[name] = [Entry(name, f"object:{name}", "object")]
    return index


def _load(kind: Kind, name: str) -> Any:
    """Return the object of a name; a lent or decorated one exists, another target is imported."""
    if name in _lent[kind]:
        return _lent[kind][name]
    entry = _only_entry(kind, name)
    if name in _decorated[kind]:
        return _decorated[kind][name].value
    return _imported(kind, entry)


def _only_entry(kind: Kind, name: str) -> Entry:
    """Return the entry of a name; report an unknown name, or two targets under one name."""
    index = _index(kind)
    if name not in index:
        hint = suggest(name, list(index))
        if kind == "law" and name in ELSEWHERE:
            hint = f"; it comes with `pip install {ELSEWHERE[name]}`"
        elif kind == "law" and "/" in name:
            hint = "; there is no such folder of a law, either"
        elif kind == "substrate":
            hint = hint or _FROM_A_FILE
        raise PluginError(f"{kind} {name!r} is unknown; see `waggle list {kind}s`{hint}")
    if len(index[name]) > 1:
        both = " and ".join(f"{entry.target} ({entry.origin})" for entry in index[name])
        raise PluginError(f"{kind} {name!r} is registered twice, by {both}; rename one")
    return index[name][0]


def _imported(kind: Kind, entry: Entry) -> Any:
    """Import a target; report an exception of its code in one line that names the plug-in."""
    module, _, attribute = entry.target.partition(":")
    try:
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except FAULTS as error:
        raise PluginError(
            f"{kind} {entry.name!r} of {entry.origin} cannot be imported from {entry.target}: "
            f"{raised(error)}; install what it needs or remove it"
        ) from error
    return found


def _create(kind: Kind, name: str, factory: Any, options: Mapping[str, Any]) -> Any:
    """Call a factory; report an unknown or missing option in one line."""
    if not callable(factory):
        raise PluginError(f"{kind} {name!r} is not callable; register its class or a function")
    takes = parameters(factory)
    open_ended = any(p.kind is p.VAR_KEYWORD for p in takes.values())
    for option in options:
        if option not in takes and not open_ended:
            known = ", ".join(takes) or "none"
            hint = suggest(option, list(takes))
            raise PluginError(f"{kind} {name!r} has no option {option!r}; options: {known}{hint}")
    missing = [p.name for p in takes.values() if _required(p) and p.name not in options]
    if missing and kind == "law" and inspect.isroutine(factory) and missing[0] in _DECIDING:
        raise PluginError(
            f"law {name!r}: a law is an object with `name` and `decide(requests)`, not a function"
        )
    if missing:
        raise PluginError(f"{kind} {name!r} needs the option {missing[0]!r}; give it a value")
    return factory(**options)


def _required(parameter: inspect.Parameter) -> bool:
    """Return whether a call without this parameter fails."""
    variadic = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    return parameter.default is parameter.empty and not variadic
