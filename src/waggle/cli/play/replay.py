"""`waggle replay RECORD`: recompute a record without its law and compare everything."""

from __future__ import annotations

from pathlib import Path

import msgspec

from waggle import plugins
from waggle.cli import console
from waggle.cli.options import AsJson
from waggle.core.errors import RecordError
from waggle.core.protocols import World
from waggle.core.record import Header
from waggle.runtime import replay as replaying
from waggle.runtime.records import read


def replay(record: Path, /, *, json: AsJson = False) -> int:
    """Recompute a record and compare.

    Opens the world again, sends the recorded decodes through validator, transport and compiler, and
    compares every view, decision, write and score with the record. No model runs. The exit code is
    1 on any difference, and 2 if the file is not a whole record. Example:

    `waggle replay runs/RECORD.jsonl.gz`

    Args:
        record: A record file, as `waggle run` writes it.
    """
    episode = read(record)
    try:
        found = replaying.replay(episode, _world(episode.header))
    except (msgspec.ValidationError, LookupError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise RecordError(f"{record} cannot be played ({reason}); run the case again") from None
    if json:
        scores = {"recorded": episode.footer.scores, "replayed": found.record.footer.scores}
        verdict = {"same": found.same, "difference": found.difference}
        console.dump({"record": str(record), **verdict, **scores})
        return 0 if found.same else 1
    rows = [
        (name, value, found.record.footer.scores.get(name))
        for name, value in episode.footer.scores.items()
    ]
    console.table(None, ("", "recorded", "replayed"), rows)
    updates = sum(len(r.updates) for r in episode.rounds)
    if found.same:
        console.say(f"same: {len(episode.rounds)} rounds, {updates:,} local updates")
    else:
        console.say(f"different: {found.difference}")
    return 0 if found.same else 1


def _world(header: Header) -> World:
    """Open the recorded case; its header is untrusted until it says a possible one."""
    case = header.case
    if len(header.keys) != case.n or sorted(header.keys) != list(range(case.n)):
        raise ValueError(f"its keys are no permutation of {case.n} nodes")
    substrate = plugins.get_substrate(case.substrate)
    if case.task not in substrate.tasks:
        raise ValueError(f"{case.substrate} has no task {case.task!r}")
    return substrate.open(case, header.keys)
