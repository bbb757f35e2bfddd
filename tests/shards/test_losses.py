"""Lost shards come back to the same record; a second loss in a row leaves a run to go on with."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO

import pytest

from benchmarks.shards.same import BEACON, SILO, canonical, settings, whole
from tests.shards.episodes import coordinator
from waggle import plugins, shared_folders
from waggle.core.errors import ConfigError
from waggle.core.protocols import Case, Law
from waggle.core.record import RoundRecord
from waggle.runtime.recorder import Memory
from waggle.shards.coordinator import LostShard
from waggle.shards.division import Division, ShardDecisions, ShardRound
from waggle.shards.inline import InlineShards
from waggle.shared_folders import locked

LAW = plugins.get_law("heuristic")


class Frail(InlineShards):
    """A group that loses a shard at its k-th call, for each k it is given."""

    def __init__(self, division: Division, law: Law, losses: tuple[int, ...] = ()) -> None:
        super().__init__(division, law)
        self._losses = losses
        self.calls = 0

    def _call(self) -> None:
        self.calls += 1
        if self.calls in self._losses:
            self._shards = []
            raise LostShard("shard 1 was lost")

    def begin(self, round: int, committed: Mapping[int, str] | None) -> list[ShardDecisions]:
        sent = super().begin(round, committed)
        self._call()
        return sent

    def finish(self, round: int, shocking: bool) -> list[ShardRound]:
        closed = super().finish(round, shocking)
        self._call()
        return closed

    def keep(self, paths: Sequence[Path]) -> None:
        self._shards[0].keep(paths[0])  # half of the states are written
        self._call()
        super().keep(paths)


@pytest.mark.parametrize("case", [BEACON, SILO], ids=lambda case: case.task)
def test_a_shard_lost_at_any_call_comes_back_to_the_same_record(case: Case, tmp_path: Path) -> None:
    setting = settings(case, LAW)
    one = canonical(whole(case, LAW, setting))
    for call in (1, 2, 7, 8, 12, 21, 24):
        memory = Memory()
        group = partial(Frail, losses=(call,))
        played = coordinator(case, LAW, setting, tmp_path / str(call), group=group)
        played.play([memory])
        assert played.losses == ["shard 1 was lost"]
        assert canonical(memory.record()) == one


def test_losses_with_a_kept_state_between_them_do_not_end_the_run(tmp_path: Path) -> None:
    setting = settings(BEACON, LAW)
    memory = Memory()
    group = partial(Frail, losses=(3, 12, 24))
    played = coordinator(BEACON, LAW, setting, tmp_path, group=group)
    played.play([memory])
    assert len(played.losses) == 3
    assert canonical(memory.record()) == canonical(whole(BEACON, LAW, setting))


def test_a_second_loss_in_a_row_is_one_line_and_the_same_command_goes_on(tmp_path: Path) -> None:
    setting = settings(BEACON, LAW)
    group = partial(Frail, losses=(10, 13))
    frail = coordinator(BEACON, LAW, setting, tmp_path, group=group)
    with pytest.raises(ConfigError, match=r"second loss in a row; .* before round 3: run the same"):
        frail.play()
    with pytest.raises(ConfigError, match="holds the state of 2 shards; go on with --shards 2"):
        coordinator(BEACON, LAW, setting, tmp_path, shards=4).play()
    memory, rounds = Memory(), []
    resumed = coordinator(BEACON, LAW, setting, tmp_path)
    resumed.watch = lambda entry, world: rounds.append(entry.round)
    resumed.play([memory])
    assert rounds == list(range(3, 16)), "it goes on from the kept round"
    assert canonical(memory.record()) == canonical(whole(BEACON, LAW, setting))


def test_files_are_removed_under_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = coordinator(BEACON, LAW, settings(BEACON, LAW), tmp_path / "s")
    done.play()
    refused: list[str] = []

    def remove(folder: Path, **_: object) -> None:
        with pytest.raises(ConfigError, match="this run is writing") as caught:
            locked(folder, "this run").close()
        refused.append(str(caught.value))

    monkeypatch.setattr("shutil.rmtree", remove)
    done.clear()
    assert len(refused) == 1, "nobody else begins here meanwhile"


def test_a_lock_of_a_folder_that_was_removed_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, take = tmp_path / "s", shared_folders._locked
    removed: list[Path] = []

    def late(path: Path, taken: str) -> IO[bytes]:
        lock = take(path, taken)
        if not removed:
            removed.append(path)
            shutil.rmtree(folder)
        return lock

    monkeypatch.setattr(shared_folders, "_locked", late)
    with locked(folder, "one run"), pytest.raises(ConfigError, match="another run is writing"):
        locked(folder, "another run")
    assert removed and (folder / ".lock").exists()


def test_a_second_run_of_the_same_episode_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    setting, memory, refused = settings(BEACON, LAW), Memory(), list[int]()
    first = coordinator(BEACON, LAW, setting, tmp_path / "s")

    def start_another(entry: RoundRecord, world: object) -> None:
        another = coordinator(BEACON, LAW, setting, tmp_path / "s")
        with pytest.raises(ConfigError, match="another run of the same episode is writing to"):
            another.play()
        another.clear()
        refused.append(entry.round)

    first.watch = start_another
    first.play([memory])
    assert refused == list(range(16)) and (tmp_path / "s").exists()
    assert canonical(memory.record()) == canonical(whole(BEACON, LAW, setting))
    first.clear()
    assert not (tmp_path / "s").exists()
