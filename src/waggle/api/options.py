"""Options of the task, the law and the runtime: sort them by group and validate their values.

    sort_options({"scouts": 0.5, "perturb.loss": 0.1}, groups_of(substrate, law))

An option has one name wherever it is given: `--beacon.scouts` on the command line, `scouts=` or
`**{"beacon.scouts": ...}` in Python. The models that check values come from where the options are
defined: a substrate's pydantic model, the runtime's frozen structs, the parameters of a law.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from textwrap import dedent
from typing import Any, get_args

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from waggle.core.errors import ConfigError, suggest
from waggle.runtime.defence import Defence
from waggle.runtime.perturb import Perturbation
from waggle.runtime.switches import Switches

SETTINGS: dict[str, type[msgspec.Struct]] = {
    "perturb": Perturbation, "switch": Switches, "defend": Defence,
}  # fmt: skip
"""Option groups of the runtime itself."""
LAW, WORKER = "law", "worker"
"""The option groups of a law and of a private worker."""


def sort_options(
    options: Mapping[str, Any],
    groups: Mapping[str, Iterable[str]],
    alike: Collection[str] = (),
) -> dict[str, dict[str, Any]]:
    """Return the options by group; a name without a dot must belong to one group only.

    Args:
        options: the options as they were given.
        groups: the names that each group has.
        alike: groups that may share an option, which then goes to all of them.

    Raises:
        ConfigError: for a name that no group has, or several have.
    """
    known = {name: set(names) for name, names in groups.items()}
    found: dict[str, dict[str, Any]] = {name: {} for name in known}
    for key, value in options.items():
        group, dot, name = key.rpartition(".")
        owners = [g for g, names in known.items() if name in names and (not dot or g == group)]
        if not owners:
            every = sorted({n for names in known.values() for n in names})
            raise ConfigError(
                f"no option {key!r}; there are {', '.join(every) or 'none'}{suggest(name, every)}"
            )
        if len(owners) > 1 and not set(owners) <= set(alike):
            spelled = " or ".join(f"**{{'{owner}.{name}': ...}}" for owner in owners)
            raise ConfigError(f"option {key!r} is of {' and '.join(owners)}; say {spelled}")
        for owner in owners:
            found[owner][name] = value
    return found


def checked(group: str, model: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Validate values with the model of their group; return them as a record can hold them.

    Raises:
        ConfigError: one line that names the first bad option.
    """
    if not values:  # a substrate without options may name BaseModel itself, which has no fields
        return {}
    try:
        read = model.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in (group, *first["loc"]))
        raise ConfigError(f"{where}: {first['msg']}; got {first['input']!r:.60}") from None
    return given(read)


def given(model: BaseModel | None) -> dict[str, Any]:
    """Return the values that the user set, without defaults."""
    return {} if model is None else model.model_dump(mode="json", exclude_unset=True)


@cache
def mirror(struct: type[msgspec.Struct]) -> type[BaseModel]:
    """Return a pydantic model with the fields, defaults and attribute docstrings of a struct.

    Its numbers are counts, rounds, shares and thresholds: finite and not negative.
    """
    texts = docstrings(struct)
    fields: dict[str, Any] = {}
    for f in msgspec.structs.fields(struct):
        least = 0 if {int, float} & {f.type, *get_args(f.type)} else None
        finite = False if f.type is float else None
        about = texts.get(f.name)
        limits = Field(default=f.default, description=about, ge=least, allow_inf_nan=finite)
        fields[f.name] = (f.type, limits)
    config = ConfigDict(extra="forbid", frozen=True)
    return create_model(struct.__name__, __config__=config, __doc__=struct.__doc__, **fields)


def docstrings(cls: type) -> dict[str, str]:
    """Return the docstring of each field, parsed from the source, since Python discards it."""
    body = ast.parse(dedent(inspect.getsource(cls))).body[0]
    if not isinstance(body, ast.ClassDef):
        return {}
    texts = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            texts[field.target.id] = str(text.value.value)
    return texts
