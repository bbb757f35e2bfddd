"""`waggle show`: the same text as from Python, and the same updates as the record."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Command, refused
from waggle.api.show import text
from waggle.runtime.records import read


def test_it_prints_what_an_episode_shows(waggle: Command, record: Path) -> None:
    episode = read(record)
    for words, place in (
        (("--round", 17, "--agent", 2), (17, 2)),
        (("--round", 17), (17, None)),
        (("--agent", 2), (None, 2)),
        ((), (None, None)),
    ):
        said = waggle("show", record, *words)
        assert (said.code, said.out, said.err) == (0, text(episode, *place) + "\n", "")


def test_machine_output_holds_the_updates(waggle: Command, record: Path) -> None:
    found = waggle("show", record, "--agent", 2, "--json").data["updates"]
    assert [update["round"] for update in found] == list(range(len(read(record).rounds)))
    assert {update["node"] for update in found} == {2}
    assert found[0]["view"]["budget"] >= found[-1]["view"]["budget"]


def test_what_is_not_there_is_one_line(waggle: Command, record: Path) -> None:
    assert "0 to 7" in refused(waggle("show", record, "--agent", 8))
    assert "name a record file" in refused(waggle("show", record.parent / "none.jsonl.gz"))
