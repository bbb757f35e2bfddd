"""Conformance of a law: the requirements of the anonymous contract on every decision source.

    check_law(MyLaw()).require()

The law is called with views from real episodes. It must return one decode per request, the same
for the same request whatever else is in the batch, admissible at first decode, and consistent over
the view's anonymous orbit; and a relabelled swarm under it must give the relabelled trajectory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from waggle import plugins
from waggle.core import orbit, seeds
from waggle.core.admit import violations
from waggle.core.decode import parse
from waggle.core.order import Order, canonical
from waggle.core.protocols import Case, Decode, Law, Request
from waggle.core.schema import Decision, View
from waggle.runtime.replay import view_of
from waggle.runtime.sync import native_order
from waggle.testing.episodes import play, shocked, short
from waggle.testing.propositions import relabelling
from waggle.testing.report import Report

_SOURCES = ("heuristic", "random-legal")


def check_law(
    law: Law | str,
    substrate: str = "beacon",
    task: str | None = None,
    *,
    n: int = 8,
    seed: int = 10_000,
    views: int = 200,
    order: Order | None = None,
    legal: float = 1.0,
    consistent: float = 1.0,
    trajectories: bool = True,
) -> Report:
    """Check a law on the views and episodes of a substrate.

    Args:
        law: the object, or its registered name.
        substrate: the substrate of the test episodes.
        task: one of its tasks; None takes the first.
        n: population of the test episodes.
        seed: seed of the test episodes.
        views: number of views to check.
        order: presentation of the views; the law's native order if unset.
        legal: share of first decodes that must be admissible; lower it for learned laws.
        consistent: share of views whose orbit images must get the same decision.
        trajectories: whether to play the relabelled episodes too (slow for a large model).
    """
    made = plugins.get_law(law) if isinstance(law, str) else law
    order = order or native_order(made)
    case = _case(substrate, task, n, seed)
    requests = _requests(case, views)
    if order == "canonical":
        requests = [Request(canonical(r.view)[0], r.entropy) for r in requests]
    report = Report(f"law {made.name} on {case.substrate}/{case.task}")
    checks: list[tuple[str, str, Callable[[], str | None]]] = [
        ("answers", "one decode per request", lambda: _answers(made, requests)),
        ("repeatable", "the same request gets the same decode", lambda: _again(made, requests)),
        ("batch order", "the batch does not matter", lambda: _batches(made, requests)),
        ("legal", "decodes are admissible", lambda: _legal(made, requests, legal)),
        ("orbit", "equivalent views get the equivalent decision",
         lambda: _orbit(made, requests, order, consistent)),
        ("relabelling", "relabelled swarms give the relabelled trajectory",
         lambda: relabelling(plugins.get_substrate(substrate), made, case, order=order)),
    ]  # fmt: skip
    for check in checks if trajectories else checks[:-1]:
        report.run(*check)
    return report


def _case(substrate: str, task: str | None, n: int, seed: int) -> Case:
    """Return a short case, with late counterevidence if available, so that conflict occurs."""
    made = plugins.get_substrate(substrate)
    chosen = plugins.find_task(f"{substrate}/{task}").task if task else made.tasks[0]
    return short(made, shocked(made, Case(substrate, chosen, n, seed)))


def _requests(case: Case, count: int) -> list[Request]:
    """Return requests on views of real episodes, spread evenly over them."""
    substrate, found = plugins.get_substrate(case.substrate), []
    for name in _SOURCES:
        record = play(substrate, plugins.get_law(name), case)
        for entry in record.rounds:
            found += [view_of(record.header, update) for update in entry.updates]
    step = max(1, len(found) // count)
    chosen = found[::step][:count]
    return [Request(v, seeds.derive(case.seed, "request", k)) for k, v in enumerate(chosen)]


def _answers(law: Law, requests: Sequence[Request]) -> str | None:
    decodes = law.decide(requests)
    if len(decodes) != len(requests):
        return f"{len(decodes)} decodes for {len(requests)} requests"
    strange = [d for d in decodes if not isinstance(d, Decode)]
    return f"returned {type(strange[0]).__name__}, not Decode" if strange else None


def _again(law: Law, requests: Sequence[Request]) -> str | None:
    return _unequal(requests, _outputs(law, requests), _outputs(law, requests))


def _batches(law: Law, requests: Sequence[Request]) -> str | None:
    """Compare one batch with its reverse and with single calls."""
    whole = _outputs(law, requests)
    backwards = _outputs(law, requests[::-1])[::-1]
    alone = [_outputs(law, [request])[0] for request in requests]
    return _unequal(requests, whole, backwards) or _unequal(requests, whole, alone)


def _legal(law: Law, requests: Sequence[Request], share: float) -> str | None:
    """Check the share of decodes that are admissible without changes."""
    refused = []
    for request, decode in zip(requests, law.decide(requests), strict=True):
        decision, codes = _parsed(decode)
        codes = codes if decision is None else violations(request.view, decision)
        if codes:
            refused.append(codes)
    good = 1 - len(refused) / len(requests)
    return None if good >= share else f"{good:.1%} are admissible; the first other is {refused[0]}"


def _orbit(law: Law, requests: Sequence[Request], order: Order, share: float) -> str | None:
    """Compare the decisions on each view and on a random image, modulo the view's stabiliser."""
    images = [(orbit.sample(r.view, seeds.derive(r.entropy, "orbit")), r) for r in requests]
    moved = [Request(_presented(g.view(r.view), order), r.entropy) for g, r in images]
    pairs = zip(images, law.decide(requests), moved, law.decide(moved), strict=True)
    wrong = []
    for (g, request), before, image, after in pairs:
        one, two = _parsed(before)[0], _parsed(after)[0]
        if one is None or two is None:
            agree = one is two
        elif order == "canonical":
            agree = one == two
        else:
            agree = _same(image.view, g.decision(one), two)
        if not agree:
            wrong.append((request, before.output, after.output))
    good = 1 - len(wrong) / len(requests)
    if good >= share:
        return None
    return f"{good:.1%} agree; the first other: {wrong[0][1]} became {wrong[0][2]}"


def _presented(view: View, order: Order) -> View:
    return canonical(view)[0] if order == "canonical" else view


def _same(view: View, one: Decision, two: Decision) -> bool:
    """Return whether two decisions on a view are equal up to a symmetry of the view."""
    return one == two or orbit.equal_modulo_stabiliser(view, one, two)


def _outputs(law: Law, requests: Sequence[Request]) -> list[str | Decision]:
    return [decode.output for decode in law.decide(requests)]


def _parsed(decode: Decode) -> tuple[Decision | None, tuple[str, ...]]:
    if isinstance(decode.output, str):
        parsed = parse(decode.output)
        return parsed.decision, parsed.codes
    return decode.output, ()


def _unequal(
    requests: Sequence[Request], one: Sequence[object], two: Sequence[object]
) -> str | None:
    wrong = [k for k in range(len(requests)) if one[k] != two[k]]
    return f"view {wrong[0]}: {one[wrong[0]]} against {two[wrong[0]]}" if wrong else None
