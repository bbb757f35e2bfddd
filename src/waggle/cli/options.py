"""Options of commands: types that many share, and dotted groups that are determined at run time.

`--silo.regime`, `--perturb.loss` and `--law.model` come from where the option is defined: a
substrate's pydantic model, the runtime's frozen structs, the parameters of a law's factory. A new
option there needs no new flag here.
"""

from __future__ import annotations

import inspect
import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, get_args, get_origin

from cyclopts import Parameter
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, create_model

from waggle import plugins
from waggle.api.given import find_law
from waggle.api.options import SETTINGS, mirror
from waggle.cli.errors import invalid
from waggle.core.errors import ConfigError, suggest
from waggle.core.protocols import Law
from waggle.laws.local import LocalLaw
from waggle.runtime import watchdog

Flag: TypeAlias = Annotated[bool, Parameter(negative="", show_default=False)]
"""Off unless it is given."""
AsJson: TypeAlias = Annotated[
    bool, Parameter(negative="", show_default=False, help="Print one JSON object instead of text.")
]
"""Whether to print JSON."""
Size: TypeAlias = Annotated[int, Parameter(name=("-n", "--n"))]
"""Number of agents."""
Sizes: TypeAlias = Annotated[
    tuple[int, ...],
    Parameter(name=("-n", "--n"), show_default=lambda sizes: ", ".join(map(str, sizes))),
]
"""Numbers of agents, for several swarms."""
Chosen: TypeAlias = Annotated[str, Parameter(show_default=False)]
"""A comma-separated selection; everything if unset."""
ChosenSizes: TypeAlias = Annotated[str, Parameter(name=("-n", "--n"), show_default=False)]
"""A comma-separated selection of swarm sizes."""
LawOptions: TypeAlias = Annotated[dict[str, str] | None, Parameter(name="--law", show=False)]
"""The law's own options, as `--law.KEY VALUE`."""

WorkerOptions: TypeAlias = Annotated[dict[str, str] | None, Parameter(name="--worker", show=False)]
"""Schedule, cache and own options of a private worker, as `--worker.KEY VALUE`."""
_WORDS = {
    "on": "true", "yes": "true", "true": "true",
    "off": "false", "no": "false", "false": "false",
}  # fmt: skip


def words(text: str) -> list[str]:
    """Return the parts of a comma-separated choice."""
    return [word.strip() for word in text.split(",") if word.strip()]


def at_least_one(**values: int) -> None:
    """Refuse numbers below 1, naming all of them as options."""
    if min(values.values()) < 1:
        named = [f"-{name}" if len(name) == 1 else f"--{name}" for name in values]
        listed = " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))
        raise ConfigError(f"{listed} must be at least 1")


def take_common(tokens: Sequence[str]) -> list[str]:
    """Apply the options that every command takes; return the other tokens.

    They are read before the rest of a command line, since a plug-in may define names in it.
    """
    others: list[str] = []
    rest = list(tokens)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name not in COMMON:
            others.append(name + equals + value)
        elif equals or rest:
            COMMON[name](value if equals else rest.pop(0))
        else:
            raise ConfigError(f"{name} needs a value; see `waggle --help`")
    return others


def _watch(seconds: str) -> None:
    watchdog.limit(seconds)
    os.environ[watchdog.SECONDS] = seconds


COMMON: dict[str, Callable[[str], None]] = {"--plugin": plugins.load_file, "--watchdog": _watch}
"""Options that every command takes; child processes inherit them through the environment."""


# Dotted groups of substrates and of the runtime.


def models(tokens: Sequence[str]) -> dict[str, type[BaseModel]]:
    """Return the option models for a command line: of the runtime and of substrates.

    A substrate is loaded if a token names it; with `--help`, all of them are. One that cannot be
    loaded has no options here; the error is raised when it is run.
    """
    everything = not {"--help", "-h"}.isdisjoint(tokens)
    named = {re.split(r"[./=]", token.lstrip("-"), maxsplit=1)[0] for token in tokens}
    found = {name: mirror(struct) for name, struct in SETTINGS.items()}
    for name in plugins.names("substrate"):
        if everything or name in named:
            with suppress(plugins.PluginError):
                found[name] = plugins.get_substrate(name).options
    return found


def spell_out(tokens: Sequence[str]) -> list[str]:
    """Return the tokens with `--x.flag off` and `--x.flag=off` written `--x.flag=false`.

    The parser treats a dotted yes/no option as a flag and would take the word after it for another
    argument. Only words after actual yes/no options are changed.
    """
    if not any(t.startswith("--") and "." in t for t in tokens):
        return list(tokens)
    flags = {
        f"--{group}.{name.replace('_', '-')}"
        for group, model in models(tokens).items()
        for name, field in model.model_fields.items()
        if field.annotation is bool
    }
    spelled: list[str] = []
    rest = list(tokens)
    while rest:
        token = rest.pop(0)
        name, equals, value = token.partition("=")
        word = value if equals else (rest[0] if rest else "")
        if name.replace("_", "-") in flags and word.lower() in _WORDS:
            spelled.append(f"{name}={_WORDS[word.lower()]}")
            if not equals:
                rest.pop(0)
        else:
            spelled.append(token)
    return spelled


# Laws and their options.


def make_law(name: str, options: Mapping[str, str] | None = None) -> Law:
    """Create a law by its name, or from its folder if it is a trained or packed one.

    Its `--law.KEY VALUE` options are converted to the parameter types of its factory.
    """
    found = find_law(name)
    return found.make(**_converted("law", name, options or {}, found.options))


def read_law(name: str, options: Mapping[str, str] | None = None) -> tuple[str, dict[str, Any]]:
    """Return a law and its options as a recipe names them; a folder is one of law `local`."""
    found = find_law(name)
    given = _converted("law", name, options or {}, found.options)
    if not found.own:
        return found.name, given
    law = found.make(**given)
    assert isinstance(law, LocalLaw)
    model, adapter = law.weights
    return "local", {"model": model, **({"adapter": adapter} if adapter else {}), **given}


class LawOption(NamedTuple):
    """An option of a law, as text."""

    option: str
    default: str
    meaning: str


def described(name: str) -> list[LawOption]:
    """Return the options of a law with their meaning."""
    meanings = plugins.law_meanings(name)
    return [
        LawOption(
            f"--law.{key.replace('_', '-')}",
            "" if parameter.default in (None, "", parameter.empty) else str(parameter.default),
            meanings.get(key, ""),
        )
        for key, parameter in plugins.law_options(name).items()
    ]


def law_model(tokens: Sequence[str]) -> type[BaseModel] | None:
    """Return the options of the law named in a call for help, as a model that help can show."""
    line = [part for token in tokens for part in token.split("=", 1)]
    name = line[line.index("--law") + 1] if "--law" in line[:-1] else ""
    if {"--help", "-h"}.isdisjoint(line):
        return None
    name = plugins.law_of_file(name) if name.endswith(".py") else name
    if name not in plugins.names("law"):
        return None
    fields: dict[str, Any] = {
        key: (_shown_kind(parameter), Field(_shown_default(parameter), description=each.meaning))
        for (key, parameter), each in zip(
            plugins.law_options(name).items(), described(name), strict=True
        )
    }
    return create_model(name, **fields) if fields else None


def _shown_kind(parameter: inspect.Parameter) -> Any:
    """Return the type that help shows for an option, which is text on the command line."""
    kind = _kind(parameter)
    plain = {each for each in get_args(kind) or (kind,) if each is not type(None)}
    if plain == {bool}:
        return Literal["on", "off"] | None
    return kind if plain in ({int}, {float}) or get_origin(kind) is Literal else str | None


def _shown_default(parameter: inspect.Parameter) -> Any:
    """Return the default that help shows for an option; `...` if the option is required."""
    if parameter.default is parameter.empty:
        return ...
    if isinstance(parameter.default, bool):
        return "on" if parameter.default else "off"
    return parameter.default or None if isinstance(parameter.default, str) else parameter.default


def _converted(
    kind: str,
    name: str,
    options: Mapping[str, str],
    wanted: Mapping[str, inspect.Parameter],
) -> dict[str, Any]:
    """Convert `--law.KEY VALUE` or `--worker.KEY VALUE` to the parameter types of a factory."""
    values: dict[str, Any] = {}
    for key, text in options.items():
        parameter = key.replace("-", "_")
        if parameter not in wanted:
            known = [f"--{kind}.{k.replace('_', '-')}" for k in wanted]
            takes = f"it takes {', '.join(known)}" if known else "it takes no options"
            hint = suggest(f"--{kind}.{key}", known)
            raise ConfigError(f"{kind} {name!r} has no option --{kind}.{key}; {takes}{hint}")
        values[parameter] = _convert(f"--{kind}.{key}", text, wanted[parameter])
    return values


def read_worker(name: str, options: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a worker's name and options as `waggle.workers.hire` takes them; {} for no worker."""
    if not name:
        if options:
            raise ConfigError("--worker.* belongs to a worker; name one with --worker")
        return {}
    from waggle.workers.hire import hire, worker_options

    common = inspect.signature(hire, eval_str=True).parameters
    wanted = {key: common[key] for key in ("schedule", "cache")} | dict(worker_options(name))
    return {"name": name, **_converted("worker", name, options or {}, wanted)}


def _kind(parameter: inspect.Parameter) -> Any:
    """Return the annotated type of a parameter; without one, its default's or str."""
    kind = parameter.annotation
    if kind is parameter.empty or isinstance(kind, str):
        kind = type(parameter.default) if isinstance(parameter.default, bool | int | float) else str
    return kind


def _convert(option: str, text: str, parameter: inspect.Parameter) -> Any:
    """Convert text to the type of a parameter."""
    try:
        return TypeAdapter(_kind(parameter)).validate_python(text)
    except ValidationError as error:
        raise ConfigError(invalid(error, option)) from None


def require_port(port: int) -> None:
    """Raise ConfigError if the number is not a valid port."""
    if not 1 <= port <= 65_535:
        raise ConfigError(f"--port must be 1 to 65535, not {port}")


def require_free(host: str, port: int) -> None:
    """Raise ConfigError if the address cannot be bound, for example because it is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {host}:{port} ({error.strerror}); choose another --port"
            ) from None
