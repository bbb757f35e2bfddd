"""`waggle replay RECORD`: recompute a record without its law and compare everything."""

from __future__ import annotations

from pathlib import Path

from waggle.api.episode import Episode
from waggle.cli import console
from waggle.cli.options import AsJson
from waggle.core.errors import RecordError


def replay(record: Path, /, *, json: AsJson = False) -> int:
    """Recompute a record and report differences.

    Opens the world again, passes the recorded decodes through validator, transport and compiler,
    and compares every view, decision, write and score with the record. No model is run. The exit
    code is 1 on any difference, and 2 if the file is not a complete record. Example:

    `waggle replay runs/RECORD.jsonl.gz`

    Args:
        record: Record file written by `waggle run`.
    """
    episode = Episode.load(record)
    try:
        found = episode.replay()
    except RecordError as error:
        raise RecordError(f"{record}: {error}") from None
    if json:
        scores = {"recorded": episode.scores, "replayed": found.record.footer.scores}
        verdict = {"same": found.same, "difference": found.difference}
        console.dump({"record": str(record), **verdict, **scores})
        return 0 if found.same else 1
    rows = [
        (name, value, found.record.footer.scores.get(name))
        for name, value in episode.scores.items()
    ]
    console.table(None, ("", "recorded", "replayed"), rows)
    console.say(str(found))
    return 0 if found.same else 1
