"""`waggle show RECORD`: views, decisions and writes as readable text."""

from __future__ import annotations

from pathlib import Path

import msgspec

from waggle.api import screen
from waggle.api.show import chosen, text
from waggle.cli import console
from waggle.cli.options import AsJson
from waggle.runtime.records import read


def show(
    record: Path, /, *, round: int | None = None, agent: int | None = None, json: AsJson = False
) -> int:
    """Show views, decisions and writes of a record.

    With a round and an agent, prints the view slot by slot, the decode, the result of admission,
    what was written and what was silenced. With only one of them, prints one line per update; with
    neither, one line per round. Rounds and agents count from 0. No law is run. Example:

    `waggle show runs/RECORD.jsonl.gz --round 12 --agent 3`

    Args:
        record: Record file written by `waggle run`.
        round: Round to show.
        agent: Agent to show.
    """
    episode = read(record)
    if json:
        updates = [
            {"round": entry.round, **msgspec.json.decode(msgspec.json.encode(update))}
            for entry, update in chosen(episode, round, agent)
        ]
        console.dump({"record": str(record), "updates": updates})
    else:
        screen.write(text(episode, round, agent))
    return 0
