"""The provenance of numbers: which rows count, and their weights, seeds, regimes and methods.

A seed of a setting counts for a method once all of its planned tasks are finished, so that an
unfinished run does not report the mean of its easy tasks only. Rows of one method may have been
played by different weights, and rows of a shipped law by earlier weights than the current ones.
None of this is an error; tables and pages state it in a note.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from waggle import shipped
from waggle.core.errors import ConfigError
from waggle.evaluate.plan import Cell, MethodSpec, Recipe
from waggle.evaluate.rows import Row, planned
from waggle.evaluate.stale import listed
from waggle.laws.digest import of_manifest
from waggle.report.rows import DAGGER, Rows, label, methods_of, options_of, short


class CountedRows(NamedTuple):
    """The rows that count, and notes on the others."""

    rows: list[Row]
    notes: list[str]
    failed: list[Row]
    """Rows of the plan whose cells failed."""
    foreign: int
    """Number of rows of other plans."""


def counted(rows: Rows, recipe: Recipe) -> CountedRows:
    """Return the planned rows whose seed is finished on all planned tasks of its setting."""
    asked = {cell.key: cell for cell in planned(recipe, rows)}
    wanted = Counter(map(_seed_of_setting, asked.values()))
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    failed: list[Row] = []
    foreign = 0
    for row in rows:
        cell = asked.get(row.key)
        if cell is None:
            foreign += 1
        elif row.error:
            failed.append(row)
        else:
            groups[_seed_of_setting(cell)].append(row)
    kept = [row for key, group in groups.items() if len(group) == wanted[key] for row in group]
    done = {key: len(group) for key, group in groups.items()}
    failing = {row.method for row in failed}
    notes = [*mixed_weights(kept, recipe), *_unfinished(recipe, wanted, done, failing)]
    notes += [f"{foreign} row{'s' * (foreign > 1)} of other plans left out"] if foreign else []
    return CountedRows(kept, notes, failed, foreign)


def _seed_of_setting(cell: Cell) -> tuple[Any, ...]:
    """Return method, setting and seed of a cell: everything but its task."""
    case = cell.case
    return (cell.method, case.substrate, options_of(case.options), case.n, case.rounds, case.shock,
            case.seed)  # fmt: skip


def _unfinished(
    recipe: Recipe,
    wanted: Mapping[tuple[Any, ...], int],
    played: Mapping[tuple[Any, ...], int],
    failing: Collection[str],
) -> list[str]:
    """Return notes on the methods whose plan is not finished; `failing` ones have failed rows."""
    partly: dict[str, list[str]] = {}
    missing: list[str] = []
    broken: list[str] = []
    for name in dict.fromkeys(method for method, *_ in wanted):
        total = sum(count for key, count in wanted.items() if key[0] == name)
        own = {key: count for key, count in played.items() if key[0] == name}
        done = {key: count for key, count in own.items() if count == wanted[key]}
        used, rest = sum(done.values()), sum(own.values()) - sum(done.values())
        if not own:
            (broken if name in failing else missing).append(label(recipe, name))
        elif used < total:
            seeds = len({key[-1] for key in done})
            left = f", {rest} of unfinished seeds left out" if rest else ""
            text = f"{used:,} of {total:,} planned episodes, {_seeds(seeds)}{left}"
            partly.setdefault(text, []).append(label(recipe, name))
    notes = [f"{'; '.join(names)}: {text}" for text, names in partly.items()]
    notes += ["not played yet: " + "; ".join(missing)] if missing else []
    return notes + (["failed in every episode: " + "; ".join(broken)] if broken else [])


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"


def failed_calls(kept: CountedRows, recipe: Recipe) -> list[str]:
    """Return a line on the methods with failed calls, in episodes that count and in others."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in (*kept.rows, *kept.failed):
        if row.counters.get("failures"):
            where = "failed" if row.error else "counted"
            counts[row.method] += Counter({where: row.counters["failures"]})
        counts[row.method]["calls"] += row.counters.get("calls", 0)
    parts = [
        f"{label(recipe, name)} {own['counted'] + own['failed']:,} of {own['calls']:,}, "
        f"{own['counted']:,} of them in episodes that count"
        for name, own in counts.items()
        if own["counted"] or own["failed"]
    ]
    rule = "calls that failed, after which a node kept its private proposal"
    return [f"{rule}: {'; '.join(parts)}"] if parts else []


def provenance(rows: Rows, recipe: Recipe) -> tuple[str, ...]:
    """Return the notes of a table: command, seeds, episodes, regime, and origin of each method."""
    if not rows:
        return ("no finished episodes yet",)
    counts = sorted(set(Counter(row.method for row in rows).values()))
    episodes = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    head = f"seeds {seeds_of(rows)}; {episodes} episode{'s' * (episodes != '1')} per method"
    made = f"waggle eval {recipe.source}" if recipe.source else recipe.title
    return (
        "; ".join([made, head, *regimes(rows)]),
        *mixed_weights(rows, recipe),
        *_on_fewer_units(rows, recipe),
        *labels(recipe, methods_of(rows, recipe)),
    )


def caption(text: str, rows: Rows, recipe: Recipe) -> str:
    """Return the caption of a figure: its description, then the provenance of its rows."""
    return ". ".join([text.removesuffix("."), *provenance(rows, recipe)])


def seeds_of(rows: Iterable[Row]) -> str:
    """Return the seeds of rows as contiguous ranges, followed by their number."""
    seeds = sorted({row.seed for row in rows})
    starts = [s for s in seeds if s - 1 not in seeds]
    ends = [s for s in seeds if s + 1 not in seeds]
    pairs = zip(starts, ends, strict=True)
    parts = [f"{first} to {last}" if first < last else str(first) for first, last in pairs]
    return f"{', '.join(parts)} ({len(seeds)})"


def regimes(rows: Rows) -> list[str]:
    """Return a description of the regime of each benchmark in the rows."""
    found = []
    if silo := [row for row in rows if row.substrate == "silo"]:
        pairs = sorted({(r.options.get("regime", "directed"), r.options.get("cap", 4096))
                        for r in silo})  # fmt: skip
        kinds = [f"{kind} {cap} bytes" if kind == "ports" else kind for kind, cap in pairs]
        rounds = sorted({row.rounds - 1 for row in silo})
        found.append(f"Silo regime {' and '.join(kinds)}, R = {', '.join(map(str, rounds))}")
    if swarm := [row for row in rows if row.substrate == "swarmbench"]:
        rounds = sorted({row.rounds for row in swarm})
        own = sorted({options_of(row.options) for row in swarm if row.options})
        maps = "; ".join(own) or "map 10 x 10 to N = 10, 24 x 24 above"
        found.append(f"SwarmBench {', '.join(map(str, rounds))} rounds, {maps}")
    if nets := [row for row in rows if row.substrate == "agentsnet"]:
        given = sorted({bool(row.options.get("priority", True)) for row in nets}, reverse=True)
        kinds = ["with priority" if priority else "without priority" for priority in given]
        found.append("AgentsNet " + " and ".join(kinds))
    return found


class Origin(NamedTuple):
    """The labels of a result: the law's teacher and backbone, canon order and engine."""

    teacher: str
    backbone: str
    order: str
    engine: str


def origins(recipe: Recipe, methods: Iterable[str]) -> dict[Origin, str]:
    """Group methods by origin, joining the names of each group into one line."""
    groups: dict[Origin, list[str]] = defaultdict(list)
    for name in methods:
        spec = recipe.methods[name]
        own = _own(name, spec)
        named = f"{label(recipe, name)} ({own})" if own else label(recipe, name)
        groups[Origin(spec.teacher, spec.backbone, spec.order, spec.engine)].append(named)
    return {origin: "; ".join(names) for origin, names in groups.items()}


def labels(recipe: Recipe, methods: Iterable[str]) -> tuple[str, ...]:
    """Return one line per origin, with the methods that share it."""
    return tuple(
        f"{names}: {', '.join(f'{key} {value}' for key, value in origin._asdict().items())}"
        for origin, names in origins(recipe, methods).items()
    )


def _own(name: str, spec: MethodSpec) -> str:
    """Return the settings that distinguish a method from others with the same law."""
    parts = [] if spec.law == name else [f"law {spec.law}"]
    parts += [f"switches {options_of(spec.switches)}"] if spec.switches else []
    parts += [f"perturbation {options_of(spec.perturbation)}"] if spec.perturbation else []
    parts += [f"defence {options_of(spec.defence)}"] if spec.defence else []
    own = {key: value for key, value in spec.worker.items() if key not in ("name", "cache")}
    parts += [f"worker {spec.worker['name']}", options_of(own)] if spec.worker else []
    return ", ".join(filter(None, parts))


def _on_fewer_units(rows: Rows, recipe: Recipe) -> tuple[str, ...]:
    """Return a note on the methods with fewer units than others, if any."""
    found = short(rows)
    parts = [
        f"{label(recipe, name)} {found[name].units:,} of {found[name].of:,} episodes "
        f"({_seeds(found[name].seeds)})"
        for name in recipe.methods
        if name in found
    ]
    text = "has fewer episodes than others of the tasks it plays and takes no mark or rank"
    return (f"{DAGGER} {text}: {'; '.join(parts)}",) if parts else ()


def _digests(rows: Iterable[Row]) -> dict[str, Counter[str]]:
    """Count each method's rows by the digest of the weights; rows without one count under ""."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        counts[row.method][row.digest] += 1
    return counts


def mixed_weights(rows: Iterable[Row], recipe: Recipe) -> tuple[str, ...]:
    """Return notes on the methods with rows of several weights, or partly of unknown weights."""
    counts = _digests(rows)
    mixed: list[str] = []
    unnamed: list[str] = []
    for name in recipe.methods:
        own = counts.get(name, Counter())
        known = [f"{count:,} by {digest}" for digest, count in own.most_common() if digest]
        rest = [f"{own['']:,} by unknown weights"] if own[""] else []
        if known and len(known) + len(rest) > 1:
            text = f"{label(recipe, name)}: episodes {', '.join([*known, *rest])}"
            (mixed if len(known) > 1 else unnamed).append(text)
    lines = {
        "MIXED LAWS, weights or code changed between episodes and no number here is of one law; "
        "play the method again with --again": mixed,
        "not all rows say which weights played them": unnamed,
    }
    return tuple(f"{text}: {'; '.join(parts)}" for text, parts in lines.items() if parts)


def mixed_worlds(rows: Iterable[Row]) -> list[str]:
    """Return notes on the worlds whose plug-in file changed between episodes."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        digest = (row.code or {}).get("substrate")
        if digest:
            counts[row.substrate][digest] += 1
    return [
        f"MIXED WORLDS, the file of {name!r} changed between episodes and differences are between "
        "other worlds; play all methods again with --again: episodes "
        + ", ".join(f"{count:,} by {digest}" for digest, count in own.most_common())
        for name, own in counts.items()
        if len(own) > 1
    ]


def weights_of_shipped_laws(rows: Iterable[Row], recipe: Recipe) -> dict[str, dict[str, int]]:
    """Count the rows of each method with a shipped law by the digest of the weights."""
    ships = shipped.names()
    ours = {name for name, spec in recipe.methods.items() if spec.law in ships}
    return {name: dict(counts) for name, counts in _digests(rows).items() if name in ours}


def of_other_weights(counts: Mapping[str, int], now: str) -> str:
    """Return a text on the number of rows played by other weights than `now`, or unknown ones.

    The text is empty if there are none, or if the law's own digest is not known.
    """
    others = sorted(digest for digest in counts if digest not in ("", now))
    kinds = {
        f"other weights ({listed(others)})": sum(counts[digest] for digest in others),
        "weights that their rows do not name": counts.get("", 0),
    }
    every = sum(counts.values())
    parts = [f"{rows:,} of {every:,} episodes by {kind}" for kind, rows in kinds.items() if rows]
    return " and ".join(parts) if now else ""


def not_of_shipped_laws(rows: Rows, recipe: Recipe) -> list[str]:
    """Return a line on the methods with shipped laws whose rows may be of earlier weights."""
    parts = []
    for name, counts in weights_of_shipped_laws(rows, recipe).items():
        law = recipe.methods[name].law
        now = _shipped_digest(law)
        if text := of_other_weights(counts, now):
            parts.append(f"{label(recipe, name)} {text} ({law} has {now} here)")
    return [f"not known to be of the laws that ship: {'; '.join(parts)}"] if parts else []


def _shipped_digest(law: str) -> str:
    """Return the digest of a shipped law; empty if its weights are not installed."""
    try:
        return of_manifest(shipped.manifest(shipped.folder(law)))
    except ConfigError:
        return ""
