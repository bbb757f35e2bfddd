"""Canonical labelling of a small graph with coloured vertices and labelled edges.

The exact part of canonical order: colour refinement, then a search that branches only inside one
connected component without distinguished vertices. Components are labelled separately and sorted,
so interchangeable handles or many disjoint pairs cost nothing; a view has at most twelve edges, so
the search has a few dozen leaves. Isomorphic graphs get the same form, whatever their vertex order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

Colours: TypeAlias = dict[int, int]
Neighbours: TypeAlias = Sequence[Sequence[tuple[int, int]]]
"""The (edge label, other vertex) pairs of each vertex."""
Form: TypeAlias = tuple[Any, ...]


class Labelling(NamedTuple):
    """Ranks of the vertices in the canonical order, and whether the graph has a symmetry."""

    rank: list[int]
    symmetric: bool
    """Whether some exchange of vertices maps the graph to itself, so that ranks are not unique."""


class _CanonicalForm(NamedTuple):
    form: Form
    order: list[int]
    symmetric: bool


def label(keys: Sequence[Any], edges: Sequence[tuple[int, int, Any]]) -> Labelling:
    """Label a graph: vertices are sorted by key, then by graph structure.

    Args:
        keys: one comparable key per vertex.
        edges: (vertex, vertex, comparable label); parallel edges are listed separately.
    """
    colours = _ranked(dict(enumerate(keys)))
    count = Counter(colours.values())
    if len(count) == len(keys):
        return Labelling(list(colours.values()), False)
    touched = {v for a, b, _ in edges for v in (a, b)}
    if all(count[colours[v]] == 1 for v in touched):
        # Only vertices without edges share a colour, so they are interchangeable.
        order = sorted(colours, key=colours.__getitem__)
        places = {v: i for i, v in enumerate(order)}
        return Labelling([places[v] for v in colours], True)
    names = {name: i for i, name in enumerate(sorted({name for _, _, name in edges}))}
    near: list[list[tuple[int, int]]] = [[] for _ in keys]
    for a, b, name in edges:
        near[a].append((names[name], b))
        near[b].append((names[name], a))
    refined = _refine(colours, near)
    found = _arrange(refined, near)
    place = {v: i for i, v in enumerate(found.order)}
    rank = [0] * len(keys)
    for i, v in enumerate(sorted(refined, key=lambda v: (refined[v], place[v]))):
        rank[v] = i
    return Labelling(rank, found.symmetric)


def _ranked(keys: dict[int, Any]) -> Colours:
    """Replace comparable keys by their dense ranks."""
    order = {key: i for i, key in enumerate(sorted(set(keys.values())))}
    return {v: order[key] for v, key in keys.items()}


def _refine(colours: Colours, near: Neighbours) -> Colours:
    """Split colours by the colours of neighbours until no colour splits any more."""
    count = len(set(colours.values()))
    while count < len(colours):
        keys = {
            v: (c, tuple(sorted((e, colours[u]) for e, u in near[v] if u in colours)))
            for v, c in colours.items()
        }
        finer = _ranked(keys)
        refined = len(set(finer.values()))
        if refined == count:
            break
        colours, count = finer, refined
    return colours


def _cells(colours: Colours) -> list[list[int]]:
    cells: dict[int, list[int]] = {}
    for v, c in colours.items():
        cells.setdefault(c, []).append(v)
    return [cells[c] for c in sorted(cells)]


def _components(vertices: Sequence[int], near: Neighbours) -> list[list[int]]:
    left, found = set(vertices), []
    for start in vertices:
        if start not in left:
            continue
        left.discard(start)
        part = [start]
        for v in part:
            for _, u in near[v]:
                if u in left:
                    left.discard(u)
                    part.append(u)
        found.append(part)
    return found


def _arrange(colours: Colours, near: Neighbours) -> _CanonicalForm:
    """Order a refined part: vertices of a unique colour first, then its components by form."""
    cells = _cells(colours)
    order = [cell[0] for cell in cells if len(cell) == 1]
    rest = [v for cell in cells if len(cell) > 1 for v in cell]
    parts = _components(rest, near)
    symmetric = False
    if parts:
        whole = not order and len(parts) == 1
        found = sorted(
            (
                _branch(colours, near)
                if whole and len(part) > 1
                else _part({v: colours[v] for v in part}, near)
                for part in parts
            ),
            key=lambda f: f.form,
        )
        # Parts of equal form are interchangeable: their colours encode their outside neighbours.
        symmetric = any(f.symmetric for f in found) or any(
            f.form == g.form for f, g in pairwise(found)
        )
        order += [v for f in found for v in f.order]
    return _CanonicalForm(_form(order, colours, near), order, symmetric)


def _part(colours: Colours, near: Neighbours) -> _CanonicalForm:
    """Order one component; its form keeps the colours from before its own refinement."""
    if len(colours) == 1:
        return _CanonicalForm((tuple(colours.values()), ()), list(colours), False)
    found = _arrange(_refine(colours, near), near)
    return _CanonicalForm(_form(found.order, colours, near), found.order, found.symmetric)


def _branch(colours: Colours, near: Neighbours) -> _CanonicalForm:
    """Distinguish each vertex of the smallest cell in turn and keep the smallest form."""
    cell = min(_cells(colours), key=len)
    best: _CanonicalForm | None = None
    for v in cell:
        marked = {u: 2 * c + (u != v) for u, c in colours.items()}
        found = _arrange(_refine(marked, near), near)
        form = _form(found.order, colours, near)
        if best is None or form < best.form:
            best = _CanonicalForm(form, found.order, found.symmetric)
        elif form == best.form:
            best = _CanonicalForm(form, best.order, True)
    assert best is not None
    return best


def _form(order: Sequence[int], colours: Colours, near: Neighbours) -> Form:
    """Return the form of an ordered part: its colours by position, then its edges."""
    place = {v: i for i, v in enumerate(order)}
    edges = sorted((place[v], place[u], e) for v in order for e, u in near[v] if u in place)
    return (tuple(colours[v] for v in order), tuple(edges))
