"""The opening of a report: the comparison and its outcome, in words and in numbers.

A setting is one task, or all Silo tasks together, at one population; late counterevidence is one
setting for each task. For each setting it has the best law, the laws that do not differ from it,
the best floor and, if a table of the recipe needs it, the ceiling. "No difference" means that the
paired 95 % interval includes zero. With a single seed, intervals are not used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from waggle.evaluate.plan import Recipe, called
from waggle.evaluate.rows import Row
from waggle.evaluate.stats import Interval
from waggle.report import ceilings, floors
from waggle.report.provenance import seeds_of
from waggle.report.reorganization.tables import flag
from waggle.report.rows import (
    SHARES,
    Rows,
    Value,
    difference,
    grouped,
    label,
    macro,
    methods_of,
    metric,
    short,
    sizes_of,
)
from waggle.report.tables import Table, bracketed, number, prose

SUBSTRATES = {"silo": "Silo", "swarmbench": "SwarmBench", "agentsnet": "AgentsNet"}
"""Display names of the substrates in this package."""
STORED = ("silo", "swarmbench")
"""Substrates that the archive `results/primary` has rows of."""
WORDS = (
    "A law decides for every agent. A setting is one task, or all Silo tasks, with N agents (and R "
    "rounds of messages). The floor is the best of simple laws that do not know the task. No "
    "difference: the 95 % interval of the paired difference includes zero."
)
CEILING = (
    " The ceiling is a reference that knows more than a law: on Silo a good schedule of exchanges "
    "with unlimited payload, which is no bound; on SwarmBench shortest ways, or a shared clock."
)
_LATE = "recovery, "
RECOVERY = (
    " With late counterevidence, a setting here is one task at every N, and in the tables below "
    "one case of it. Recovery: the data of some agents change late, at least half of the agents "
    "that hold the refuted claim reopen it, a replacement is formed, and the new claim ends ahead "
    "of the old."
)
_NAMED = 4
"""Methods or settings that a sentence lists by name; it counts the rest."""


class Setting(NamedTuple):
    """One task at one population, with its outcome."""

    name: str
    means: dict[str, float]
    """Mean of every law that has played all cases, by label, without floors."""
    best: str
    same: tuple[str, ...]
    """Laws whose paired difference from the best includes zero."""
    floor: str
    """The best floor, empty if none was played."""
    low: float | None
    """Mean of the floor."""
    gain: Interval | None
    """Best minus floor."""
    ceiling: float | None
    digits: int
    learned: dict[str, Interval | None]
    """For each trained law, by label, its difference from the floor."""

    @property
    def judged(self) -> bool:
        """Whether there are enough seeds to compare the best law with the floor."""
        return self.gain is not None and not self.gain.single

    @property
    def verdict(self) -> str:
        """What the picture says of the best law against the floor; empty if it is above."""
        if self.gain is None or self.gain.single or self.gain.above_zero:
            return ""
        return "below the floor" if self.gain.below_zero else "no difference"

    def text(self, value: float | None) -> str:
        """Format a value as in the tables of this setting."""
        return number(value, self.digits)


class Opening(NamedTuple):
    """The contents of the first screen."""

    compared: str
    outcome: str
    settings: tuple[Setting, ...] = ()
    """The settings in the picture and in the table of settings."""

    @property
    def bound(self) -> bool:
        """Whether any setting has a ceiling."""
        return any(setting.ceiling is not None for setting in self.settings)

    @property
    def words(self) -> str:
        """Definitions of the terms used by the picture and the table of settings."""
        if not self.settings:
            return ""
        late = any(setting.name.startswith(_LATE) for setting in self.settings)
        return WORDS + (CEILING if self.bound else "") + (RECOVERY if late else "")

    def paragraphs(self) -> list[tuple[str, str]]:
        """Return the non-empty paragraphs, each with its heading."""
        parts = (("Compared", self.compared), ("Came out", self.outcome), ("Words", self.words))
        return [part for part in parts if part[1]]

    def markdown(self) -> list[str]:
        """Return the paragraphs as lines of Markdown."""
        return [
            line for name, text in self.paragraphs() for line in (f"**{name}:** {prose(text)}", "")
        ]

    def table(self) -> list[Table]:
        """Return the table of all settings, if there are any."""
        columns = ("setting", "best law", "score", "no difference from it", "floor",
                   "floor score", "best minus floor", "ceiling")  # fmt: skip
        end = len(columns) if self.bound else -1
        body = tuple(_line(setting)[:end] for setting in self.settings)
        return [Table("Every setting", columns[:end], body)] if body else []


class _Scope(NamedTuple):
    """The rows of one setting, the value to compare and its format."""

    name: str
    rows: list[Row]
    value: Value
    scale: float
    digits: int


def opening(rows: Rows, recipe: Recipe) -> Opening | None:
    """Return the opening for the rows of a run; None if no setting can be judged.

    Settings that only one method has played compare nothing and are left out.
    """
    scopes = _scopes(rows)
    shared = [scope for scope in scopes if _is_shared(scope.rows)]
    made = [_setting(scope, recipe) for scope in shared]
    settings = tuple(setting for setting in made if setting is not None)
    alone = len(scopes) - len(shared)
    if settings:
        return Opening(_compared(rows, recipe), _outcome(settings) + _left_out(alone), settings)
    return Opening(_compared(rows, recipe), _unshared(rows, recipe)) if alone else None


def _is_shared(rows: Rows) -> bool:
    """Return whether at least two methods have played all of a setting."""
    return len({row.method for row in rows} - short(rows).keys()) > 1


def _left_out(alone: int) -> str:
    return f" Left out: {plural(alone, 'setting')} that one method alone has played." * (alone > 0)


def _unshared(rows: Rows, recipe: Recipe) -> str:
    """Return sentences for a run in which no setting can be compared."""
    first, *more = methods_of(rows, recipe)
    if more:
        return "No two methods have played the same setting."
    said = f"Only {label(recipe, first)} has been played."
    if len(recipe.methods) == 1:
        return said
    call = f"waggle eval {recipe.source or 'RECIPE'}"
    if any(row.substrate in STORED for row in rows):
        return f"{said} `{call} --merge results/primary` puts the stored rows beside it."
    return f"{said} `{call}` plays the other methods."


def _scopes(rows: Rows) -> list[_Scope]:
    """Return the settings of a run: by substrate, then those with late counterevidence by task."""
    plain = [row for row in rows if not row.shock]
    found = []
    for substrate, own in sorted(grouped(plain, lambda row: row.substrate).items()):
        columns = floors.settings_of(own)
        per_cent = substrate in SHARES
        scale, digits = (100.0, 1) if per_cent else (1.0, 2)
        unit = " (%)" if per_cent else ""
        found += [
            _Scope(f"{name}{unit}", some, metric("score"), scale, digits) for name, some in columns
        ]
    late = [row for row in rows if row.shock]
    for task, own in sorted(grouped(late, lambda row: (row.substrate, row.task)).items()):
        name = f"{_LATE}{_task(*task)} (%)"
        found.append(_Scope(name, own, flag("recovery"), 100.0, 0))
    return found


def _task(substrate: str, task: str) -> str:
    return f"Silo {task}" if substrate == "silo" else floors.spoken(task)


def _setting(scope: _Scope, recipe: Recipe) -> Setting | None:
    """Evaluate one setting; None if no law has played all of it."""
    rows, value = scope.rows, scope.value
    fewer, by_method = short(rows), grouped(rows, lambda row: row.method)
    means: dict[str, float] = {}
    for name in methods_of(rows, recipe):
        own, spec = macro(by_method[name], value), recipe.methods[name]
        attacked = "byzantine" in spec.perturbation  # the tables compare it with its own law
        if own is not None and name not in fewer and not attacked and not spec.defence:
            means[name] = scope.scale * own
    low = floors.best_floor(rows, recipe, value) or _any_floor(means, recipe)
    laws = {n: m for n, m in means.items() if recipe.methods[n].law not in floors.FLOORS}
    if not laws:
        return None
    best = max(laws, key=laws.__getitem__)
    text = called(recipe, [*means, *([low] if low else [])])

    def gain(other: str, law: str = best) -> Interval | None:
        found = difference(by_method[law], by_method[other], value)
        if found is None:
            return None
        mean, low, high = (scope.scale * part for part in (found.mean, found.low, found.high))
        return found._replace(mean=mean, low=low, high=high)

    same = [n for n in laws if n != best and _includes_zero(gain(n))]
    bound = _ceiling(scope, recipe)
    return Setting(
        scope.name,
        {text[name]: value for name, value in laws.items()},
        text[best],
        tuple(text[name] for name in same),
        text[low] if low else "",
        means.get(low) if low else None,
        gain(low) if low else None,
        None if bound is None else scope.scale * bound,
        scope.digits,
        {text[n]: gain(low, n) for n in laws if low and _learned(n, recipe)},
    )


def _learned(name: str, recipe: Recipe) -> bool:
    """Return whether a method is an unchanged trained law in the unchanged runtime."""
    spec = recipe.methods[name]
    return spec.teacher != "none" and not spec.altered


def _any_floor(means: dict[str, float], recipe: Recipe) -> str | None:
    """Return the best floor that was played if `relay` was not; else no floor can do the task."""
    laws = {name: recipe.methods[name].law for name in means}
    if floors.RELAY in laws.values():
        return None
    known = [name for name, law in laws.items() if law in floors.FLOORS]
    return max(known, key=means.__getitem__, default=None)


def _includes_zero(found: Interval | None) -> bool:
    return found is not None and not found.single and found.low <= 0.0


def _ceiling(scope: _Scope, recipe: Recipe) -> float | None:
    """Return the ceiling if a table of the recipe needs ceilings, as computing may take minutes."""
    if scope.rows[0].shock or not any(map(ceilings.asked, recipe.tables)):
        return None
    return ceilings.ceiling(scope.rows)


def _compared(rows: Rows, recipe: Recipe) -> str:
    """Return a sentence on the methods, tasks, populations, seeds and episodes."""
    # The two laws of a specialist pair have one label.
    names = list(dict.fromkeys(label(recipe, name) for name in methods_of(rows, recipe)))
    played = []
    for substrate, own in sorted(grouped(rows, lambda row: row.substrate).items()):
        tasks = {row.task for row in own}
        name = SUBSTRATES.get(substrate, floors.spoken(substrate))
        played.append(name if tasks == {substrate} else f"{name} ({plural(len(tasks), 'task')})")
    *first, last = played
    where = f"{', '.join(first)} and {last}" if first else last
    sizes = ", ".join(str(n) for n in sizes_of(rows))
    late = sum(row.shock for row in rows)
    part = "all" if late == len(rows) else f"{late:,} of them"
    injected = f", {part} with late counterevidence" if late else ""
    return (
        f"{plural(len(names), 'method')} ({_listed(names)}) on {where}, N = "
        f"{sizes}, seeds {seeds_of(rows)}: {plural(len(rows), 'episode')}{injected}."
    )


def _outcome(settings: Sequence[Setting]) -> str:
    """Return sentences on how often the best law was above the floor, and which laws were best."""
    wins = Counter(name for each in settings for name in (each.best, *each.same))
    leaders = _listed((f"{name} in {n}" for name, n in wins.most_common()), "; {} others")
    count = plural(len(settings), "setting")
    best = f"Best, or no different from the best, of {count}: {leaders}."
    judged = [setting for setting in settings if setting.judged]
    if not judged:
        why = "There is one seed" if any(each.floor for each in settings) else "No floor was played"
        return f"{best} {why}, so that nothing is compared with a floor."
    above, flat, below = _sorted((setting.name, setting.gain) for setting in judged)
    text = f"The best law is above the floor in {len(above)} of {plural(len(judged), 'setting')}"
    text += f"; no difference from the floor in {_listed(flat)}" if flat else ""
    text += f"; below the floor in {_listed(below)}" if below else ""
    return f"{text}. {best}{_of_learned(judged)}"


def _sorted(found: Iterable[tuple[str, Interval | None]]) -> tuple[list[str], list[str], list[str]]:
    """Return the names whose difference is above zero, not resolved, and below zero."""
    parts: tuple[list[str], list[str], list[str]] = ([], [], [])
    for name, gain in found:
        if gain is not None and gain.above_zero:
            parts[0].append(name)
        elif gain is not None and gain.below_zero:
            parts[2].append(name)
        else:
            parts[1].append(name)
    return parts


def _of_learned(settings: Sequence[Setting]) -> str:
    """Return sentences on how often each learned law was above or below the floor."""
    names = list(dict.fromkeys(name for each in settings for name in each.learned))
    said = []
    for name in names:
        own = [(each.name, each.learned[name]) for each in settings if name in each.learned]
        above, _, below = _sorted(own)
        under = f" and below it in {len(below)} ({_listed(below)})" if below else ""
        said.append(f"{name} in {len(above)} of {len(own)}{under}")
    return f" Learned laws above the floor: {_listed(said, '; {} others')}." if names else ""


def _line(setting: Setting) -> tuple[str, ...]:
    """Return the row of one setting in the table of all settings."""
    gain = bracketed(setting.gain, f"+.{setting.digits}f") if setting.floor else number(None)
    if setting.floor and not setting.judged:
        gain += ", one seed"
    return (
        setting.name, setting.best, setting.text(setting.means[setting.best]),
        _listed(setting.same) or number(None), setting.floor or number(None),
        setting.text(setting.low), gain, setting.text(setting.ceiling),
    )  # fmt: skip


def _listed(names: Iterable[str], others: str = " and {} more") -> str:
    """Join the first few names and count the rest."""
    known = list(names)
    comma = "; " if any("," in name for name in known) else ", "
    rest = len(known) - _NAMED
    return comma.join(known) if rest < 2 else comma.join(known[:_NAMED]) + others.format(rest)


def plural(count: int, noun: str) -> str:
    """Return a number with its noun, which is in the plural unless the number is one."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
