"""Right answers of a law on fresh views of made-up tasks on graphs, by what an answer hangs on.

    python lab/graph_views.py nano --views 400
    python lab/graph_views.py runs/nano_fourth/seed-0/scd/law --kinds eased,relays,agreed

Free greedy decoding on the machine at hand; the salt is that of no harvest. One line per kind and
shape: views, actions as the teacher's, deposits, whole records.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from pathlib import Path

from waggle import plugins
from waggle.core.decode import parse
from waggle.core.order import canonical
from waggle.core.protocols import Law, Request
from waggle.core.schema import Decision, View, plain_actions
from waggle.corpus.views import graph_kinds
from waggle.laws import shipped
from waggle.laws.expert import generic as expert_generic
from waggle.laws.expert import stances
from waggle.models.load import pick_device

BATCH = 64
APART = 5
"""Views in a row share a task: every fifth is taken."""


def load(name: str) -> Law:
    """Return a law by its name or folder."""
    device = pick_device("auto")
    if shipped.is_folder(name):
        return shipped.of_folder(Path(name), device=device)
    return plugins.get_law(name, device=device)


def shape(view: View, label: Decision) -> str:
    """Say what the answer to a view hangs on."""
    shown = stances.find(view)
    if stances.common_answer(view.contract) is not None:
        return "alike"
    if shown is None:
        return "no stances"
    if any(shown.key in row.facts for row in view.private.claims):
        own = {evidence.claim for evidence in view.private.evidence}
        passes = any(deposit.claim not in own for deposit in label.deposits)
        return "goes first" if shown.own == 0 else "passes on" if passes else "tells own"
    count = len(plain_actions(view.contract))
    return {0: "names", 1: "names", 2: "two actions"}.get(count, "more actions")


def measure(law: Law, kind: str, salt: int, count: int) -> dict[str, Counter[str]]:
    """Count right answers to views of one kind."""
    views = [canonical(view)[0] for view in graph_kinds.views(kind, salt, APART * count)][::APART]
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for first in range(0, len(views), BATCH):
        some = views[first : first + BATCH]
        for view, decode in zip(some, law.decide([Request(view) for view in some]), strict=True):
            label, said = expert_generic.decide(view), decode.output
            decision = parse(said).decision if isinstance(said, str) else said
            counts = found[shape(view, label)]
            counts["views"] += 1
            if decision is not None:
                counts["action"] += decision.task_action == label.task_action
                counts["deposits"] += decision.deposits == label.deposits
                counts["record"] += decision == label
    return found


def main() -> None:
    """Measure a law on every kind that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("law")
    parser.add_argument("--views", type=int, default=120, help="of each kind")
    parser.add_argument("--salt", type=int, default=990001)
    parser.add_argument("--kinds", default="crowded,poised,eased,relays,agreed")
    chosen = parser.parse_args()
    law = load(chosen.law)
    for kind in chosen.kinds.split(","):
        for name, counts in measure(law, kind, chosen.salt, chosen.views).items():
            shown = (f"{key} {counts[key]}" for key in ("views", "action", "deposits", "record"))
            print(f"{kind}, {name}:", *shown)  # noqa: T201


if __name__ == "__main__":
    main()
