"""`waggle.sweep`: names and objects, workers, resuming, interruption, and what `Runs` tells."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import waggle
from waggle.api import sweep as sweeping
from waggle.cli.main import main
from waggle.core.errors import ConfigError
from waggle.laws.heuristic import decide
from waggle.substrates.beacon import Beacon

SEEDS = range(10_000, 10_003)


class Counted:
    """The heuristic, which counts its calls and may be interrupted."""

    name = "counted law"

    def __init__(self, stop: int | None = None, fail: bool = False) -> None:
        self.calls = [0]
        self.stop = stop
        self.fail = fail

    def decide(self, requests: Any) -> list[waggle.Decode]:
        self.calls[0] += 1
        if self.calls[0] == self.stop:
            raise KeyboardInterrupt
        if self.fail:
            raise RuntimeError("out of ideas")
        return [waggle.Decode(decide(request.view)) for request in requests]


class Home(Counted):
    """A law that cannot leave its process."""

    name = "home"

    def __init__(self) -> None:
        super().__init__()
        self.process = lambda: os.getpid()


class Meadow(Beacon):
    """A world of another name."""

    name = "meadow"
    tasks = ("meadow", "pasture")


class Fog(Beacon):
    """A world of one's own under a name of the package."""


def peak(record: waggle.EpisodeRecord) -> float | None:
    return max(entry.score["score"] for entry in record.rounds)


def small(laws: Any = "heuristic", tasks: Any = "beacon", **given: Any) -> waggle.Runs:
    return waggle.sweep(tasks, laws, SEEDS, **{"n": 4, "rounds": 6, "progress": False, **given})


@pytest.fixture(scope="module")
def runs() -> waggle.Runs:
    tasks = ["beacon", (Meadow(), "meadow")]
    return small(["heuristic", "nocomm", Counted()], tasks, metrics=["messages", peak], scouts=0.5)


def test_every_task_meets_every_law_on_every_seed(runs: waggle.Runs) -> None:
    assert len(runs) == 2 * 3 * 3 and not runs.failed and runs.left == 0
    frame = runs.to_frame()
    assert set(frame["law"]) == {"heuristic", "nocomm", "counted law"}
    assert set(frame["task"]) == {"beacon", "meadow"} and set(frame["scouts"]) == {0.5}
    by_law = frame.set_index(["law", "task", "seed"])["score"]
    assert (by_law["heuristic"] == by_law["counted law"]).all()
    for row in runs:
        if row.method == "heuristic" and row.substrate == "beacon":
            alone = waggle.run("beacon", n=4, rounds=6, seed=row.seed, scouts=0.5)
            assert row.scores == alone.scores and row.metrics["peak"] == alone.metric(peak)


def test_populations_are_numbers_of_any_kind() -> None:
    assert small(n=np.int64(4)).rows == small(n=np.array([4])).rows == small().rows


def test_a_summary_has_means_intervals_and_counts(runs: waggle.Runs) -> None:
    found = runs.summary()
    assert {mean.metric for mean in found} == {"score", "messages", "peak"}
    assert len(found) == 2 * 3 * 3 and {mean.episodes for mean in found} == {3}
    frame = found.to_frame().set_index(["task", "law", "metric"])
    rows = runs.to_frame().query("task == 'beacon' and law == 'heuristic'")["messages"]
    mean = frame.loc[("beacon", "heuristic", "messages")]
    assert mean["mean"] == pytest.approx(rows.mean())
    assert rows.min() <= mean["low"] <= mean["mean"] <= mean["high"] <= rows.max()
    assert runs.summary("stale")[0].metric == "stale"
    with pytest.raises(ConfigError, match="did you mean 'stale'"):
        runs.summary("stail")


def test_its_repr_is_the_summary(runs: waggle.Runs) -> None:
    lines = repr(runs).splitlines()
    assert lines[0] == "Runs: 18 episodes" and len(lines) == 1 + 1 + 6
    assert lines[1].split() == ["task", "law", "n", "episodes", "score", "messages", "peak"]
    assert runs._repr_html_().count("<tr>") == 1 + 6


@pytest.mark.parametrize("label", ["Same", "two"])
def test_methods_of_one_label_are_not_pooled(tmp_path: Path, label: str) -> None:
    other = 'label = "Same"\n' if label == "Same" else ""
    (tmp_path / "r.toml").write_text(
        f'title = "T"\n[methods.one]\nlaw = "heuristic"\nlabel = "{label}"\n[methods.two]\n'
        f'law = "nocomm"\n{other}[[blocks]]\nmethods = ["one", "two"]\n'
        'tasks = ["beacon"]\nn = [4]\nrounds = [6]\nseeds = [10000, 10001]\n'
    )
    call = ["eval", str(tmp_path / "r.toml"), "--out", str(tmp_path / "run")]
    assert main([*call, "--executor", "inline"]) == 0
    found = waggle.Runs.load(tmp_path / "run").summary()
    assert [(mean.law, mean.episodes) for mean in found] == [("one", 2), ("two", 2)]


def test_a_plot_has_a_panel_for_every_metric(runs: waggle.Runs, tmp_path: Path) -> None:
    figure: Any = runs.plot(path=tmp_path / "runs.png")
    assert [axis.get_title() for axis in figure.axes] == ["score", "messages", "peak"]
    assert (tmp_path / "runs.png").read_bytes().startswith(b"\x89PNG")
    assert len(runs.plot("score").axes) == 1


def test_workers_and_this_process_play_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    laws = [Counted(), Home()]
    tasks = [(Meadow(), "pasture")]
    here = small(laws, tasks, metrics=[peak], processes=1)
    monkeypatch.setattr(sweeping, "PATIENCE", 0.0)
    for law in laws:
        law.calls[0] = 0
    there = small(laws, tasks, metrics=[peak], processes=2)
    assert here.rows == there.rows
    # What can be pickled was played in workers, the other law here.
    assert laws[0].calls == [0] and laws[1].calls[0] > 0


SCRIPT = """
import waggle, waggle.api.sweep
waggle.api.sweep.PATIENCE = 0.0

class Mine:
    name = "mine"
    def decide(self, requests):
        from waggle.core.schema import private_decision
        return [waggle.Decode(private_decision(request.view)) for request in requests]

print(waggle.sweep("beacon", ["heuristic", Mine()], range(2), n=4, rounds=4, processes=2))
"""


def test_a_script_without_a_guard_plays_in_workers(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert done.stdout.startswith("Runs: 4 episodes\n") and " mine " in done.stdout


def test_a_folder_is_continued_and_not_played_again(tmp_path: Path) -> None:
    first = small(Counted(), folder=tmp_path / "run")
    law = Counted()
    again = waggle.sweep(
        "beacon", law, range(10_000, 10_005), n=4, rounds=6, folder=tmp_path / "run"
    )
    assert again.rows[:3] == first.rows and len(again) == 5
    alone = Counted()
    small(alone, processes=1)
    assert 0 < law.calls[0] < alone.calls[0]  # two episodes and not three
    assert waggle.Runs.load(tmp_path / "run").summary() == again.summary()
    assert main(["report", str(tmp_path / "run")]) == 0


def test_changed_code_is_not_mixed_with_older_rows(tmp_path: Path) -> None:
    small(Counted(), folder=tmp_path)
    with pytest.raises(ConfigError, match=r"law counted law is not the one .* name another"):
        small(Counted(stop=10_000), folder=tmp_path)
    with pytest.raises(ConfigError, match="metric peak is not the one"):
        small(Counted(), folder=tmp_path, metrics=[peak])


def test_changed_code_of_a_name_is_not_mixed_either(tmp_path: Path, clean_registry: None) -> None:
    given: dict[str, int | None] = {"stop": None}

    @waggle.law("of-the-notebook")
    def make() -> Counted:
        return Counted(**given)  # type: ignore[arg-type]

    small("of-the-notebook", folder=tmp_path)
    assert len(small("of-the-notebook", folder=tmp_path)) == 3
    given["stop"] = 10_000
    with pytest.raises(ConfigError, match="law of-the-notebook is not the one"):
        small("of-the-notebook", folder=tmp_path)


def test_metrics_of_the_package_are_in_every_row(tmp_path: Path) -> None:
    small(folder=tmp_path)
    runs = small(folder=tmp_path, metrics=["messages"])
    assert {mean.metric for mean in runs.summary()} == {"score", "messages"}


def test_an_archive_stays_as_it_is(tmp_path: Path) -> None:
    small(folder=tmp_path / "run")
    assert main(["archive", str(tmp_path / "run"), str(tmp_path / "packed")]) == 0
    before = sorted(tmp_path.glob("packed/**/*"))
    with pytest.raises(ConfigError, match="is an archive"):
        small(Counted(), folder=tmp_path / "packed")
    assert sorted(tmp_path.glob("packed/**/*")) == before


def messages(record: waggle.EpisodeRecord) -> float:
    return 42.0


def test_an_interruption_keeps_what_is_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped = small({"mine": Counted(stop=8)}, folder=tmp_path)
    assert len(stopped) == 1 and stopped.left == 2 and "1 episodes, 2 left" in repr(stopped)
    assert "interrupted" in capsys.readouterr().err
    (tmp_path / sweeping.OBJECTS).unlink()  # the same law, without its interruption
    whole = small({"mine": Counted()}, folder=tmp_path)
    assert len(whole) == 3 and whole.rows[0] == stopped.rows[0]


def test_a_failed_episode_is_told_and_not_scored() -> None:
    runs = small({"good": "heuristic", "bad": Counted(fail=True)})
    assert len(runs.failed) == 3 and {mean.law for mean in runs.summary()} == {"good"}
    assert "3 failed" in repr(runs) and "out of ideas" in repr(runs)


def test_a_metric_that_fails_is_told_and_loses_nothing_else() -> None:
    def broken(record: waggle.EpisodeRecord) -> float:
        raise LookupError("no such thing")

    runs = small(metrics=[broken])
    assert "metric broken: LookupError: no such thing" in repr(runs).splitlines()[0]
    assert [mean.metric for mean in runs.summary()] == ["score"]


def test_kept_records_are_episodes(tmp_path: Path) -> None:
    runs = small(["heuristic", "nocomm"], folder=tmp_path, keep=True)
    episode = runs.episode(seed=10_001, law="nocomm")
    assert episode.law == "nocomm" and episode.replay().same
    with pytest.raises(ConfigError, match="2 episodes are meant"):
        runs.episode(seed=10_001)
    with pytest.raises(ConfigError, match="keep=True"):
        small().episode(seed=10_001)


def test_runs_are_saved_and_loaded(runs: waggle.Runs, tmp_path: Path) -> None:
    place = runs.save(tmp_path / "saved")
    assert waggle.Runs.load(place).rows == runs.rows
    with pytest.raises(ConfigError, match="holds another run"):
        runs.save(place)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"scots": 1}, "did you mean 'scouts'"),
        ({"scouts": 7}, "beacon.scouts: .*less than or equal to 1"),
        ({"engine": "steam"}, "engine is one of sync, event"),
        ({"order": "x"}, "order is one of shuffled, canonical"),
        ({"laws": ["heuristic", "heuristic"]}, "two laws are called 'heuristic'; name them"),
        ({"laws": {"a b": "heuristic", "a-b": "nocomm"}}, "'a b' and 'a-b' are both written 'a-b'"),
        ({"laws": {"α": "heuristic", "β": "nocomm"}}, "both written 'law'; tell them apart"),
        ({"metrics": [messages]}, "there is a metric 'messages' already; rename yours"),
        ({"metrics": [lambda _: 1.0, lambda _: 2.0]}, "two metrics are called '<lambda>'"),
        ({"n": 2.5}, "n is a whole number, not 2.5"),
        ({"n": "64"}, "n is a whole number, not '64'"),
        ({"n": [4, 0]}, "n must be from 1"),
        ({"tasks": [Meadow(), Meadow()]}, r"give \(substrate, task\)"),
        ({"tasks": ["beacon", Fog()]}, "two substrates are called 'beacon'; rename one"),
        ({"tasks": [Fog(), Fog()]}, "two substrates are called 'beacon'; rename one"),
        ({"tasks": "silo/X*"}, "no task matches"),
        ({"keep": True}, "records are kept in a folder"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_fix(given: dict[str, Any], hint: str) -> None:
    with pytest.raises(waggle.WaggleError, match=hint):
        small(**given)


@pytest.mark.parametrize("seeds", [5, "12"])
def test_seeds_are_several(seeds: Any) -> None:
    with pytest.raises(ConfigError, match="seeds are several, such as range"):
        waggle.sweep("beacon", "heuristic", seeds)
