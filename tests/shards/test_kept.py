"""Kept states are read where this user's key has sealed them, and nowhere else."""

from __future__ import annotations

import pickle
import stat
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.shards.same import BEACON, settings
from tests.shards.episodes import KEY, coordinator
from waggle import plugins
from waggle.core.errors import ConfigError
from waggle.shards import kept

PARTS = [b"first", b"x" * 70_000]


class Trap:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
        return Path.touch, (self._path,)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "state-5-0"
    kept.write(path, KEY, iter(PARTS))
    assert list(kept.read(path, KEY)) == PARTS
    assert [file.name for file in tmp_path.iterdir()] == ["state-5-0"]


def swapped(data: bytes) -> bytes:
    """Exchange the bytes of two parts, and leave the seals where they are."""
    return data.replace(b"first", b"tsrif")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (swapped, "is damaged, or was not kept by you"),
        (lambda data: data[:-1], "is damaged"),
        (lambda data: data[: len(kept.HEADER)], "is damaged"),
        (lambda data: data[: len(kept.HEADER)] + b"\xff" * 60, "is damaged"),
        (lambda data: data.replace(b"waggle state", b"waggle STATE"), "another version of Waggle"),
        (lambda data: b"", "another version of Waggle"),
    ],
)  # fmt: skip
def test_a_changed_file_is_one_line(
    change: Callable[[bytes], bytes], line: str, tmp_path: Path
) -> None:
    path = tmp_path / "state-5-0"
    kept.write(path, KEY, PARTS)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ConfigError, match=line):
        list(kept.read(path, KEY))


def test_a_state_of_another_shard_or_round_is_no_state_of_this_one(tmp_path: Path) -> None:
    kept.write(tmp_path / "state-5-0", KEY, PARTS)
    (tmp_path / "state-5-0").rename(tmp_path / "state-5-1")
    with pytest.raises(ConfigError, match="is damaged"):
        list(kept.read(tmp_path / "state-5-1", KEY))


@pytest.mark.parametrize("name", ["kept", "state-15-1"])
def test_a_pickle_of_somebody_else_is_refused_and_not_read(name: str, tmp_path: Path) -> None:
    law = plugins.get_law("heuristic")
    setting, folder, trap = settings(BEACON, law), tmp_path / "s", tmp_path / "trapped"
    coordinator(BEACON, law, setting, folder).play()
    assert (folder / name).exists()
    kept.write(folder / name, b"theirs", [pickle.dumps(Trap(trap))])
    with pytest.raises(ConfigError, match=rf"{name} is damaged, or was not kept by you"):
        coordinator(BEACON, law, setting, folder).play()
    assert not trap.exists()


def test_the_key_of_a_user_is_made_once_and_is_theirs_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    key = kept.own_key()
    assert len(key) == kept.KEY_BYTES and kept.own_key() == key
    path = tmp_path / "waggle" / "key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_bytes(b"short")
    with pytest.raises(ConfigError, match="is no key; remove it"):
        kept.own_key()
    monkeypatch.setenv("XDG_STATE_HOME", str(path))
    with pytest.raises(ConfigError, match="set XDG_STATE_HOME to a folder of yours"):
        kept.own_key()


def test_a_key_that_another_process_is_writing_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    place = tmp_path / "waggle" / "key"
    place.parent.mkdir()
    place.touch()
    monkeypatch.setattr("time.sleep", lambda seconds: place.write_bytes(KEY))
    assert kept.own_key() == KEY


def test_a_size_beyond_the_file_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "state-5-0"
    path.write_bytes(kept.HEADER + b"\xff" * 60)
    tracemalloc.start()
    try:
        with pytest.raises(ConfigError, match="is damaged"):
            list(kept.read(path, KEY))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
