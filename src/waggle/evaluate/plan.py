"""Plans: a recipe file becomes cells (method x task x N x seed), each with a stable id.

A recipe is a TOML file:

    title = "Primary matrix"
    [methods.expert]
    law = "expert"
    [[blocks]]
    methods = ["expert"]
    tasks = ["silo/*", "swarmbench/pursuit"]
    n = [16, 32, 64]
    seeds = { start = 40000, count = 5 }

Recipes can share a file of methods: `methods_from = "methods.toml"`. The id of a cell is a digest
of everything that determines its episode, so a finished cell is still recognised after other parts
of the recipe have changed, and in the run of another recipe.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError

from waggle import plugins
from waggle.core.errors import ConfigError, WaggleError, first_mistake, suggest
from waggle.core.order import Order
from waggle.core.protocols import Case
from waggle.core.seeds import derive
from waggle.runtime.defence import Defence
from waggle.runtime.perturb import Perturbation
from waggle.runtime.switches import Switches
from waggle.runtime.sync import native_order

RUN_RECIPE = "recipe.json"
"""The recipe file in a run directory, with the defaults of the recipe filled in."""
MAX_CELLS = 200_000
"""A larger plan is refused as a mistake, before any cell is created."""
MAX_RECIPE = 4 << 20
"""Maximum size of a recipe file in bytes."""
Key: TypeAlias = tuple[str, str]
"""Method and id of a cell."""
Keep: TypeAlias = bool | Literal["measures"]
"""Whether records are kept: no, whole, or only the part that tables read."""
Line: TypeAlias = Annotated[str, Field(pattern=r"^[^\r\n]*$")]
"""Text of one line: in Markdown and LaTeX tables a line break would end a row."""
Name: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$", max_length=100)]
"""The name of a method; files are named after it."""
Seed: TypeAlias = Annotated[int, Field(ge=0)]
_SOME = Field(min_length=1)
_STRICT = ConfigDict(extra="forbid", use_attribute_docstrings=True, frozen=True)


class MethodSpec(BaseModel):
    """A law and the runtime settings it is measured with."""

    model_config = _STRICT

    law: str
    """A law name, as listed by `waggle list laws`."""
    options: dict[str, Any] = {}
    """Options of the law."""
    order: Order = "shuffled"
    """How views list their records; the law's own order if unset."""
    engine: Literal["sync", "event"] = "sync"
    """The engine the episodes are played on."""
    shards: Annotated[int, Field(ge=0)] = 0
    """Ray actors that the agents of one episode are distributed over; 0 plays it in one process.
    Rows do not depend on it."""
    switches: dict[str, Any] = {}
    """Ablations of the runtime."""
    perturbation: dict[str, Any] = {}
    """Execution perturbations."""
    defence: dict[str, Any] = {}
    """Defences against Byzantine nodes."""
    worker: dict[str, Any] = {}
    """Name, schedule, cache and options of the private workers; none are used if empty."""
    teacher: Line = "none"
    """The teacher of the law, by default as the law declares; printed with every table."""
    backbone: Line = "none"
    """The model the law runs on, by default as the law declares; printed with every table."""
    label: Line = ""
    """The name that tables print; the method's name if empty."""
    group: Line = ""
    """The heading under which tables list it."""
    ranked: bool = True
    """Whether tables rank and mark the method; a teacher shown for reference is not ranked."""

    @property
    def altered(self) -> bool:
        """Whether a switch, a perturbation or a defence changes the runtime."""
        return bool(self.switches or self.perturbation or self.defence)


class Seeds(BaseModel):
    """A range of consecutive seeds."""

    model_config = _STRICT

    start: Seed
    """The first seed."""
    count: Annotated[int, Field(ge=1, le=10_000)]
    """The number of seeds."""


_Run: TypeAlias = Annotated[Seeds, Tag("")]
_Listed: TypeAlias = Annotated[list[Seed], _SOME, Tag("list")]


class Block(BaseModel):
    """A full product of methods, tasks, populations and seeds."""

    model_config = _STRICT

    methods: Annotated[list[str], _SOME]
    """Names of the recipe's methods; `expert*` selects all that start with `expert`."""
    tasks: Annotated[list[str], _SOME]
    """Task names; `silo/*` selects all tasks of `silo`."""
    n: Annotated[list[Annotated[int, Field(ge=1, le=1_000_000)]], _SOME]
    """Population sizes."""
    seeds: Annotated[_Run | _Listed, Discriminator(lambda v: "list" if isinstance(v, list) else "")]
    """The seeds, as a list or a range."""
    rounds: list[Annotated[int, Field(ge=1)]] = []
    """Horizons in rounds; the tasks' default horizons if empty."""
    shock: bool = False
    """Whether late counterevidence is injected."""
    options: dict[str, dict[str, Any]] = {}
    """Options by substrate, e.g. { silo = { regime = "ports" } }."""
    vary: dict[str, dict[str, Annotated[list[Any], _SOME]]] = {}
    """Lists of option values by substrate; every combination is played."""


class Recipe(BaseModel):
    """One experiment."""

    model_config = _STRICT

    title: Line
    """The heading of the report."""
    about: Line = ""
    """One sentence on what is compared; printed on the results page."""
    methods: dict[Name, MethodSpec]
    """The compared methods, each a table `[methods.NAME]`."""
    blocks: list[Block]
    """What is played: the cells of all blocks."""
    tables: list[str] = ["scores"]
    """Tables of the report."""
    figures: list[str] = []
    """Figures of the report."""
    reference: list[str] = []
    """Reference methods of paired differences; the first one that has rows is used."""
    source: str = ""
    """The path of the recipe file as it was given; printed in the command of every table."""
    keep: Keep = False
    """Whether episode records are kept beside the rows: `true` keeps them whole, `"measures"` only
    what tables read, a tenth of the bytes. `waggle eval --keep` keeps them whole."""


class Cell(msgspec.Struct, frozen=True, dict=True):
    """One episode of a plan."""

    method: str
    law: str
    law_options: Mapping[str, Any]
    case: Case
    order: str
    engine: str
    switches: Mapping[str, Any]
    perturbation: Mapping[str, Any]
    worker: Mapping[str, Any] = {}
    defence: Mapping[str, Any] = {}
    shards: int = 0

    @property
    def key(self) -> Key:
        """The key of its row: method and id."""
        return self.method, self.id

    @cached_property
    def id(self) -> str:
        """Sixteen hex digits: a digest of everything that determines the episode."""
        named = msgspec.to_builtins(self).items()
        parts = {k: v for k, v in named if k not in ("method", "shards")}
        # The location of the answer cache does not change the answers.
        parts["worker"] = {k: v for k, v in parts["worker"].items() if k != "cache"}
        for name in ("worker", "defence"):  # left out if empty: such ids predate these fields
            if not parts[name]:
                del parts[name]
        return f"{derive(0, 'cell', msgspec.json.encode(parts, order='sorted').decode()):016x}"


def load(path: Path) -> Recipe:
    """Read a recipe file; a mistake raises a one-line error that names the field and the fix."""
    data = read_file(path)
    if "backbone" in data:
        raise ConfigError(f"{path} is a recipe of training; use `waggle train {path}`")
    if "credit" in data and "blocks" not in data:
        raise ConfigError(f"{path} is a recipe of learning; use `waggle learn TASK {path}`")
    shared = data.pop("methods_from", None)
    if shared is not None:
        theirs, own = (
            read_file(path.parent / str(shared)).get("methods", {}),
            data.get("methods", {}),
        )
        if not isinstance(theirs, dict) or not isinstance(own, dict):
            raise ConfigError(f"{path}: methods: write one table for each, [methods.NAME]")
        data["methods"] = {**theirs, **own}
    try:
        recipe = Recipe.model_validate(data)
    except ValidationError as error:
        place, wrong = first_mistake(error.errors())
        where = ".".join(str(part) for part in place if part != "")
        raise ConfigError(f"{path}: {where}: {wrong}") from None
    for name in recipe.reference:
        _method(recipe, name)
    methods = {name: settled(spec) for name, spec in recipe.methods.items()}
    blocks = [
        block.model_copy(update={"methods": _named(block.methods, list(methods))})
        for block in recipe.blocks
    ]
    own = {"methods": methods, "blocks": blocks, "source": recipe.source or str(path)}
    return recipe.model_copy(update=own)


def load_run(folder: Path) -> Recipe:
    """Read the recipe of a run directory; refuse any other folder."""
    copy = folder / RUN_RECIPE
    if not copy.exists():
        raise ConfigError(f"{folder} holds no {RUN_RECIPE}; name a run directory of `waggle eval`")
    return load(copy)


def write_run(folder: Path, recipe: Recipe) -> None:
    """Create a run directory and write the recipe into it, with its defaults filled in."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RUN_RECIPE).write_text(recipe.model_dump_json(indent=1), encoding="utf-8")


def read_file(path: Path) -> dict[str, Any]:
    """Read a recipe in TOML, or the JSON copy of it in a run directory."""
    try:
        if path.stat().st_size > MAX_RECIPE:
            raise ConfigError(f"{path} has over {MAX_RECIPE >> 20} MiB; name a recipe file")
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            return msgspec.json.decode(text, type=dict[str, Any])
        return tomllib.loads(text)
    except OSError as error:
        fix = "name a recipe file, or one of `waggle recipes list`"
        raise ConfigError(f"cannot read {path} ({error.strerror}); {fix}") from None
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{path} is no recipe ({error}); run `waggle eval` again") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not TOML ({error}); correct it") from None


def settled(spec: MethodSpec) -> MethodSpec:
    """Fill in what the recipe leaves unset from the law itself: order, teacher, backbone."""
    unset = {"order", "teacher", "backbone"} - spec.model_fields_set
    if not unset:
        return spec
    try:
        law = plugins.get_law(spec.law, **spec.options)
    except WaggleError:  # playing it reports the error; a report needs no law
        return spec
    own = {"order": native_order(law), **{k: getattr(law, k, "none") for k in unset - {"order"}}}
    return spec.model_copy(update={name: own[name] for name in unset})


def cells(recipe: Recipe, played: Sequence[plugins.Task] = ()) -> list[Cell]:
    """Return the cells of a recipe, without repeats, in a stable order.

    An unknown method, task or setting is refused. Tasks in `played` count as known, so that a
    report needs no plug-in.
    """
    found: dict[Key, Cell] = {}
    blocks = [(block, tasks_of(block.tasks, played)) for block in recipe.blocks]
    asked = sum(_count(block, tasks) for block, tasks in blocks)
    if asked > MAX_CELLS:
        raise ConfigError(f"the plan asks for {asked:,} cells, over {MAX_CELLS:,}; make it smaller")
    for block, tasks in blocks:
        _check_options(block, sorted({task.substrate for task in tasks}))
        for name in block.methods:
            spec = _method(recipe, name)
            _check_method(name, spec)
            for task in tasks:
                for case in _cases(block, task):
                    cell = _cell(name, spec, case)
                    found[cell.key] = cell
    return list(found.values())


def _count(block: Block, tasks: Sequence[plugins.Task]) -> int:
    """Return the number of cells of a block, repeats included, without creating them."""
    seeds = len(block.seeds) if isinstance(block.seeds, list) else block.seeds.count
    each = len(block.methods) * len(block.n) * max(1, len(block.rounds)) * seeds
    varied = (block.vary.get(task.substrate, {}).values() for task in tasks)
    return each * sum(prod(map(len, values)) for values in varied)


def _named(patterns: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the methods that match names and patterns; keep unknown names."""
    chosen: dict[str, None] = {}
    for pattern in patterns:
        matched = [name for name in known if fnmatchcase(name, pattern)]
        if not matched and "*" in pattern:
            raise ConfigError(f"no method of the recipe matches {pattern!r}")
        chosen.update(dict.fromkeys(matched or [pattern]))
    return list(chosen)


def called(recipe: Recipe, names: Iterable[str]) -> dict[str, str]:
    """Return display names of methods: the label, or the name where two labels are equal."""
    labels = {name: recipe.methods[name].label or name for name in names}
    counts = Counter(labels.values())
    return {name: text if counts[text] == 1 else name for name, text in labels.items()}


def _method(recipe: Recipe, name: str) -> MethodSpec:
    if name not in recipe.methods:
        hint = suggest(name, list(recipe.methods))
        raise ConfigError(f"method {name!r} is not defined in the recipe{hint}")
    return recipe.methods[name]


def tasks_of(patterns: Sequence[str], played: Sequence[plugins.Task] = ()) -> list[plugins.Task]:
    """Return the tasks that match names and patterns such as `silo/*`."""
    chosen: dict[plugins.Task, None] = {}
    here = set(plugins.names("substrate"))
    elsewhere = [task for task in dict.fromkeys(played) if task.substrate not in here]
    for pattern in patterns:
        if "*" in pattern or "?" in pattern:
            everything = (*plugins.tasks(), *elsewhere)
            matched = [t for t in everything if fnmatchcase(t.name, pattern)]
            if not matched:
                raise ConfigError(f"no task matches {pattern!r}; see `waggle list tasks`")
        else:
            matched = [t for t in elsewhere if pattern in (t.name, t.task)]
            matched = matched or [plugins.find_task(pattern)]
        chosen.update(dict.fromkeys(matched))
    return list(chosen)


def _check_options(block: Block, substrates: list[str]) -> None:
    """Refuse options of substrates that the block does not play, and those that none has."""
    for name in (*block.options, *block.vary):
        if name not in substrates:
            raise ConfigError(
                f"options for {name!r} change nothing: the block has tasks of "
                f"{', '.join(substrates)}{suggest(name, substrates)}"
            )
        if name in plugins.names("substrate"):  # a report does without the plug-in
            known = plugins.get_substrate(name).options
            given = {**block.options.get(name, {}), **block.vary.get(name, {})}
            strange = [key for key in given if key not in known.model_fields]
            if strange and known.model_config.get("extra") != "allow":
                listed = ", ".join(known.model_fields) or "none"
                hint = suggest(strange[0], list(known.model_fields))
                raise ConfigError(f"{name} has no option {strange[0]!r}; it has {listed}{hint}")


def _cases(block: Block, task: plugins.Task) -> list[Case]:
    listed = block.seeds
    seeds = listed if isinstance(listed, list) else range(listed.start, listed.start + listed.count)
    horizons: list[int | None] = [*block.rounds] or [None]
    return [
        Case(task.substrate, task.task, n, seed, rounds, block.shock, options)
        for n in block.n
        for rounds in horizons
        for options in _options(block, task.substrate)
        for seed in seeds
    ]


def _options(block: Block, substrate: str) -> Iterator[dict[str, Any]]:
    """Yield every combination of a substrate's options in a block."""
    varied = block.vary.get(substrate, {})
    for values in product(*varied.values()):
        yield {**block.options.get(substrate, {}), **dict(zip(varied, values, strict=True))}


def _check_method(name: str, spec: MethodSpec) -> None:
    """Refuse runtime settings that do not exist or that exclude one another."""
    groups: dict[str, tuple[Mapping[str, Any], type[msgspec.Struct]]] = {
        "switches": (spec.switches, Switches),
        "perturbation": (spec.perturbation, Perturbation),
        "defence": (spec.defence, Defence),
    }
    for group, (given, kind) in groups.items():
        known = list(kind.__struct_fields__)
        for key in given:
            if key not in known:
                raise ConfigError(
                    f"method {name!r}: {group} has no {key!r}; use some of {', '.join(known)}"
                    f"{suggest(key, known)}"
                )
    try:
        msgspec.convert(spec.switches, Switches)
        msgspec.convert(spec.perturbation, Perturbation).on(spec.engine)
        msgspec.convert(spec.defence, Defence)
        if spec.shards and (spec.engine != "sync" or spec.worker):
            raise ConfigError("shards need the engine `sync`, and no private workers")
        if spec.worker and not isinstance(spec.worker.get("name"), str):
            raise ConfigError('its worker has no name; write worker = { name = "native" }')
    except (msgspec.ValidationError, ConfigError) as error:
        raise ConfigError(f"method {name!r}: {error}") from None


def _cell(name: str, spec: MethodSpec, case: Case) -> Cell:
    return Cell(
        name, spec.law, spec.options, case, spec.order, spec.engine, spec.switches,
        spec.perturbation, spec.worker, spec.defence, spec.shards,
    )  # fmt: skip
