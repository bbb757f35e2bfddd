"""`waggle show RECORD`: what an agent saw, said and did, as a person reads it."""

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
    """Show what an agent saw, said and did.

    With a round and an agent it prints the view slot by slot, the decode, what admission made of
    it, what was written and what was silenced. With one of them it prints a line for every update,
    with neither a line for every round. Rounds and agents count from 0. No law runs. Example:

    `waggle show runs/RECORD.jsonl.gz --round 12 --agent 3`

    Args:
        record: A record file, as `waggle run` writes it.
        round: The round.
        agent: The agent.
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
