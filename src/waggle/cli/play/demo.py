"""`waggle demo`: watch a shipped law organise a swarm, next to simpler laws.

Two Silo questions, for which every agent holds a part of the data and has three contacts. In the
first, the agents have to combine their data; in the second, one agent's data change after answers
have formed, so that commitments must reopen ("late counterevidence"). The same two cases are then
played by the heuristic and by agents that work alone.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from waggle import plugins
from waggle.api.screen import err
from waggle.cli import console
from waggle.cli.options import AsJson, make_law
from waggle.core.protocols import Case, Law, World
from waggle.core.record import Footer, RoundRecord
from waggle.runtime.records import RecordFile, record_name
from waggle.runtime.sync import Engine

N, SEED = 16, 22_000
"""Sixteen agents, and a seed that no law is trained or tuned on."""
SHOCK_ROUNDS = 18
"""Rounds of the second scene; sixteen agents need half the horizon of the experiments."""
SCENES = (
    ("I-05", False, "How many of all our numbers lie from 100 to 500?"),
    ("III-26", True, "How many different numbers do we hold? (One agent's numbers will change.)"),
)
_LABELS = {
    "score": "first question",
    "score after counterevidence": "second, after one agent's data changed",
}
"""What the table calls the scores, which are those of two questions."""
COMPARED = ("heuristic", "private-only")
WIDE = 106
"""Minimum screen width to show messages and reopenings after the answers."""


class SceneResult(NamedTuple):
    """The result of one scene."""

    footer: Footer
    seconds: float


def demo(*, law: str = "nano", out: Path = Path("runs/demo"), json: AsJson = False) -> int:
    """Watch a law organise a swarm of sixteen agents.

    Plays two short episodes and draws every round: one column per agent, showing the answer it is
    committed to. In the second episode, one agent's data change after answers have formed. Two
    simpler laws then play the same cases for comparison. The shipped law needs the extra `law`, but
    no network.

    Args:
        law: Name from `waggle list laws`, or a law's folder.
        out: Folder for the records; created if missing.
    """
    made, seconds = _loaded(law)
    console.note(
        f"{N} agents, each with a part of the data and three contacts; no names, no\n"
        f"roster, no leader. All run one and the same law: {law} (ready in {seconds:.1f} s)."
    )
    found = {law: [_scene(made, out, scene, watch=not json) for scene in SCENES]}
    for other in COMPARED:
        if other != law:
            console.note(f"\nThe same two cases with {other!r} ...")
            plain = plugins.get_law(other)
            found[other] = [_scene(plain, out, scene, watch=False) for scene in SCENES]
    rows = [_outcome(name, scenes) for name, scenes in found.items()]
    if json:
        console.dump({"laws": rows, "folder": str(out)})
        return 0
    console.say("")
    first, *measures = rows[0]
    lines = [(_LABELS.get(key, key), *(row[key] for row in rows)) for key in measures]
    console.table(None, (first, *(row[first] for row in rows)), lines)
    console.say(f"records: see `waggle view {out}`; recompute one with `waggle replay`")
    return 0


def _loaded(name: str) -> tuple[Law, float]:
    """Load a law with its weights, and time that, so that loading does not count as deciding."""
    start = time.perf_counter()
    made = make_law(name)
    getattr(made, "load", lambda: None)()
    return made, time.perf_counter() - start


def _scene(law: Law, out: Path, scene: tuple[str, bool, str], *, watch: bool) -> SceneResult:
    """Play one scene and keep its record."""
    task, shock, question = scene
    case = Case("silo", task, N, SEED, SHOCK_ROUNDS if shock else None, shock)
    world = plugins.get_substrate("silo").open(case)
    watcher = None
    if watch:
        console.note(f'\n"{question}"\nround, answer of each agent (. = still gathering)')
        watcher = Answers()
    start = time.perf_counter()
    with RecordFile(out / record_name(f"silo-{task}", N, SEED, law.name)) as sink:
        footer = Engine(world, law, case, sinks=[sink], watch=watcher).play()
    return SceneResult(footer, time.perf_counter() - start)


class Answers:
    """A watcher that shows the committed answer of every agent, round by round."""

    def __init__(self) -> None:
        self._held: dict[int, str | None] = {}
        screen = err()
        self._wide = not screen.is_terminal or screen.width >= WIDE

    def __call__(self, entry: RoundRecord, world: World) -> None:
        """Show one round."""
        if entry.shock is not None:
            who = ", ".join(str(node) for node in entry.shock.nodes)
            console.note(f"     -- late counterevidence: the data of agent {who} change --")
        self._held.update((u.node, u.claim) for u in entry.updates)
        cells = "".join(f"{(self._held.get(i) or '.')[:3]:>4}" for i in range(world.n))
        reopened = sum(u.reopened is not None for u in entry.updates)
        line = f"{entry.round:3d} {cells}  {entry.score['score']:4.0%} right"
        traffic = f"  {entry.delivered:2d} messages" + (f"  {reopened} reopened" * bool(reopened))
        console.note(line + traffic * self._wide)


def _outcome(name: str, scenes: list[SceneResult]) -> dict[str, Any]:
    """Return the results of one law: scores, traffic, speed, and share of valid first decodes."""
    count: Counter[str] = Counter()
    for played in scenes:
        count.update(played.footer.counters)
    updates = count["updates"]
    calm, shaken = (played.footer.scores["score"] for played in scenes)
    return {
        "law": name,
        "score": calm,
        "score after counterevidence": shaken,
        "messages per agent": count["messages.delivered"] / len(scenes) / N,
        "decisions per second": updates / sum(played.seconds for played in scenes),
        "valid at first decode": f"{count['stage.first'] / updates:.1%}",
    }
