"""The datasheet of a corpus: counts per split, class, mode, family, source and label factor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from waggle.core.canon import decode_view
from waggle.core.modes import mode
from waggle.core.summary import rho
from waggle.corpus.store import Example, Store


class Datasheet(NamedTuple):
    """Counts of one corpus, by split and then by (aspect, value)."""

    splits: Mapping[str, Counter[tuple[str, str]]]
    transitions: Mapping[str, Counter[tuple[str, str]]]
    settings: Mapping[str, Any]

    def plain(self) -> dict[str, Any]:
        """Return all counts as plain dictionaries."""
        return {
            "decisions": {split: _nested(c) for split, c in self.splits.items()},
            "transitions": {split: _nested(c) for split, c in self.transitions.items()},
            "settings": dict(self.settings),
        }

    def rows(self) -> list[tuple[str, str, *tuple[int, ...]]]:
        """Return (aspect, value, count per split ...) for a table of the decision corpus."""
        keys = dict.fromkeys(key for counter in self.splits.values() for key in sorted(counter))
        return [(a, v, *(c[a, v] for c in self.splits.values())) for a, v in sorted(keys)]


def datasheet(store: Store) -> Datasheet:
    """Count the labelled examples of a corpus, or its views if it has no labels."""
    manifest = store.manifest()
    part = "decisions" if manifest.parts.get("decisions") else "views"
    splits = {}
    for split in store.splits(part):
        counter: Counter[tuple[str, str]] = Counter()
        for example in store.examples(part, split):
            counter.update(_aspects(example))
        splits[split] = counter
    transitions = {}
    for split in manifest.parts.get("transitions", {}):
        counter = Counter()
        for t in store.transitions(split):
            counter["family", t.family] += 1
            counter["stratum", "eventful" if t.events else "ordinary"] += 1
            counter.update(("event", event) for event in t.events)
            counter["mode", mode(decode_view(bytes(t.view)), t.decision).value] += 1
        transitions[split] = counter
    return Datasheet(splits, transitions, manifest.settings)


def _aspects(example: Example) -> Iterator[tuple[str, str]]:
    view = example.read()
    yield "records", "all"
    yield "family", example.family
    yield "source", example.source
    yield "situation", example.situation or example.source
    yield "traces", str(len(view.traces))
    if example.source == "native":
        yield "native task", view.contract.task
    if example.decision is None:
        return
    yield "teacher", example.teacher or "unknown"
    yield "mode", mode(view, example.decision).value
    summary = rho(view, example.decision)
    for name, value in zip(summary._fields, summary, strict=True):
        yield f"rho {name}", value


def _nested(counter: Counter[tuple[str, str]]) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for (aspect, value), count in sorted(counter.items()):
        nested.setdefault(aspect, {})[value] = count
    return nested
