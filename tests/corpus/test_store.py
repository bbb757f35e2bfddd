"""The store: whole or not at all, and one line for every kind of bad file."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import msgspec
import pytest

from waggle.core.canon import encode_view
from waggle.core.schema import Decision
from waggle.corpus import store as stores
from waggle.corpus.store import CorpusError, Example, Store
from waggle.corpus.views.frames import made_up_frame
from waggle.corpus.views.rng import Draw
from waggle.corpus.views.situations import make


def examples(count: int) -> list[Example]:
    rows = []
    for i in range(count):
        draw = Draw(1, "store", i)
        view = make("wait", made_up_frame(draw, "ports"), draw)
        wait = Decision("WAIT", None, (), None)
        raw = msgspec.Raw(encode_view(view))
        rows.append(Example(f"k{i}", "silo", "synthetic", raw, "wait", i, wait, "expert"))
    return rows


@pytest.fixture
def corpus(tmp_path: Path) -> Store:
    store = Store(tmp_path / "corpus")
    store.write("decisions", {"train": examples(5), "validation": examples(2)}, {"seed": 1})
    return store


def message(error: pytest.ExceptionInfo[CorpusError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def test_what_is_written_is_read_back(corpus: Store) -> None:
    assert list(corpus.examples("decisions", "train")) == examples(5)
    assert corpus.manifest().settings["decisions"] == {"seed": 1}


def test_the_same_rows_give_the_same_bytes(corpus: Store, tmp_path: Path) -> None:
    other = Store(tmp_path / "other")
    other.write("decisions", {"train": examples(5)}, {})
    assert other.splits("decisions")["train"] == corpus.splits("decisions")["train"]


def test_missing_things_name_the_command_that_makes_them(corpus: Store, tmp_path: Path) -> None:
    with pytest.raises(CorpusError) as error:
        Store(tmp_path / "none").manifest()
    assert "waggle corpus build" in message(error)
    with pytest.raises(CorpusError) as error:
        list(corpus.examples("decisions", "test"))
    assert "'test'" in message(error) and "train, validation" in message(error)
    with pytest.raises(CorpusError) as error:
        list(corpus.transitions("train"))
    assert "waggle corpus transitions" in message(error)


def spoil(corpus: Store, line: bytes, damage: bytes = b"") -> None:
    """Put a line into a shard, and bytes over its end, and make the manifest agree with it."""
    manifest = corpus.manifest()
    shard = manifest.parts["decisions"]["train"][0]
    data = gzip.compress(line + b"\n", mtime=0)
    data = data[: len(data) - len(damage)] + damage
    (corpus.path / shard.file).write_bytes(data)
    shards = {"train": (stores.Shard(shard.file, 1, hashlib.sha256(data).hexdigest()),)}
    new = msgspec.structs.replace(manifest, parts={"decisions": shards})
    (corpus.path / stores.MANIFEST).write_bytes(msgspec.json.encode(new))


DEEP = b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize("line", [b"prose", b"{}", b'{"key":1}', b"\xff\xfe", DEEP])
def test_an_invalid_record_is_named_by_file_and_line(corpus: Store, line: bytes) -> None:
    spoil(corpus, line)
    with pytest.raises(CorpusError, match="line 1 is no valid record") as error:
        list(corpus.examples("decisions", "train"))
    message(error)


def test_a_shard_or_manifest_that_is_damaged_is_refused(corpus: Store) -> None:
    spoil(corpus, bytes(range(64)), b"\xff" * 40)
    with pytest.raises(CorpusError, match="is not gzip"):
        list(corpus.examples("decisions", "train"))
    (corpus.path / stores.MANIFEST).write_bytes(DEEP)
    with pytest.raises(CorpusError, match="cannot read"):
        corpus.manifest()


def test_an_inadmissible_label_is_refused(corpus: Store) -> None:
    bad = msgspec.structs.replace(examples(1)[0], decision=Decision("FLY", None, (), None))
    spoil(corpus, msgspec.json.encode(bad))
    with pytest.raises(CorpusError, match=r"action\.unknown"):
        list(corpus.examples("decisions", "train"))


def test_a_changed_cut_or_lost_shard_is_refused(corpus: Store) -> None:
    path = corpus.path / corpus.splits("decisions")["train"][0].file
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CorpusError, match="not the file the manifest names"):
        list(corpus.examples("decisions", "train"))
    path.unlink()
    with pytest.raises(CorpusError, match="cannot read"):
        list(corpus.examples("decisions", "train"))


def test_a_full_disk_changes_nothing(corpus: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(p.name for p in corpus.path.iterdir())

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(CorpusError, match="No space left on device") as error:
        corpus.write("decisions", {"train": examples(9)}, {})
    message(error)
    assert sorted(p.name for p in corpus.path.iterdir()) == before
    assert len(list(corpus.examples("decisions", "train"))) == 5


def test_a_kill_between_shards_and_manifest_leaves_the_old_corpus(
    corpus: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = stores._replace

    def killed(path: Path, data: bytes) -> None:
        if path.name == stores.MANIFEST:
            raise KeyboardInterrupt
        real(path, data)

    monkeypatch.setattr(stores, "_replace", killed)
    with pytest.raises(KeyboardInterrupt):
        corpus.write("decisions", {"train": examples(9)}, {})
    assert len(list(corpus.examples("decisions", "train"))) == 5
    monkeypatch.undo()
    corpus.write("decisions", {"train": examples(3)}, {})
    assert len(list(corpus.path.glob("*.jsonl.gz*"))) == 1
