"""`waggle.run`: names and objects, options, and what an episode can tell."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import waggle
from waggle.core.errors import ConfigError
from waggle.core.schema import private_decision
from waggle.laws.heuristic import Heuristic
from waggle.substrates.beacon import Beacon


class Alone:
    """A law that works alone unless it is told to wait."""

    name = "a law, alone"

    def __init__(self, wait: bool = False, scouts: int = 0) -> None:
        self.wait = wait

    def decide(self, requests: Any) -> list[waggle.Decode]:
        if self.wait:
            return [waggle.Decode("nothing that can be read") for _ in requests]
        return [waggle.Decode(private_decision(request.view)) for request in requests]


@pytest.fixture(scope="module")
def episode() -> waggle.Episode:
    return waggle.run("beacon", n=6, seed=10_000, shock=True, scouts=0.5, progress=False)


def test_options_reach_the_task_the_law_and_the_runtime() -> None:
    dotted: dict[str, Any] = {"beacon.scouts": 0.5}
    played = waggle.run(
        "beacon", Alone, n=5, seed=3, rounds=4, order="canonical", engine="event",
        loss=0.25, decay=False, wait=True, **dotted,
    )  # fmt: skip
    header = played.record.header
    assert (header.case.n, header.case.seed, header.case.rounds) == (5, 3, 4)
    assert (header.engine, header.order, header.law) == ("event", "canonical", "a law, alone")
    assert header.case.options == {"scouts": 0.5} and header.perturbation["loss"] == 0.25
    assert header.switches["decay"] is False
    assert played.counters["stage.fallback"] == played.counters["updates"]


@pytest.mark.parametrize("task", ["beacon", Beacon, Beacon(), (Beacon, "beacon")])
@pytest.mark.parametrize("law", ["heuristic", Heuristic, Heuristic()])
def test_a_name_and_an_object_play_the_same_episode(task: Any, law: Any) -> None:
    assert waggle.run(task, law, n=4, rounds=5).record == waggle.run("beacon", n=4, rounds=5).record


def test_a_private_worker_is_a_name_or_a_callable(capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[Any] = []

    def lazy(work: Any) -> None:
        asked.append(work)

    native = waggle.run("silo/I-05", worker="native", n=4, rounds=3, schedule="reuse")
    assert native.record.header.worker["schedule"] == "reuse" and native.replay().same
    played = waggle.run("silo/I-05", worker=lazy, n=4, rounds=3)
    assert len(asked) == played.counters["worker.calls"] == played.counters["updates"]
    assert played.counters["worker.refused"] == len(asked)
    played.show(0, 0)
    assert "\n  worker       no answer\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"scots": 1}, "no option 'scots'.*did you mean 'scouts'"),
        ({"beacon.loss": 1}, "no option 'beacon.loss'"),
        ({"law": Alone, "scouts": 1}, r"is of beacon and law; say .*'beacon.scouts'"),
        ({"scouts": 7}, "beacon.scouts: .*less than or equal to 1; got 7"),
        ({"support": -1}, "switch.support: .*greater than or equal to 0"),
        ({"loss": 2}, "share from 0 to 1"),
        ({"call_delay": 2}, "need the engine `event`"),
        ({"engine": "steam"}, "engine is one of sync, event"),
        ({"order": "shufled"}, "did you mean 'shuffled'"),
        ({"n": 0}, "n must be from 1"),
        ({"rounds": 0}, "rounds must be from 1"),
        ({"n": "16"}, "n is a whole number, not '16'"),
        ({"rounds": 2.5}, "rounds is a whole number, not 2.5"),
        ({"seed": -1}, "seed must be at least 0, not -1"),
        ({"seed": "a"}, "seed is a whole number, not 'a'"),
        ({"law": "heuristc"}, "did you mean 'heuristic'"),
        ({"law": 3}, "is no law; give a name"),
        ({"law": lambda requests: []}, r"an object with `name` and `decide\(requests\)`, not a"),
        ({"task": 3}, "is no task; give a name"),
        ({"task": (Beacon, "becon")}, r"has the tasks 'beacon'; give \(substrate, task\)"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_fix(given: dict[str, Any], hint: str) -> None:
    task, law = given.pop("task", "beacon"), given.pop("law", "heuristic")
    with pytest.raises(waggle.WaggleError, match=hint) as error:
        waggle.run(task, law, **given)
    assert "\n" not in str(error.value)


def test_its_repr_is_one_line_and_its_html_a_table(episode: waggle.Episode) -> None:
    assert repr(episode) == (
        "Episode(beacon, heuristic, n=6, seed=10000, late counterevidence: "
        f"score {episode.score:.4g} after 32 rounds)"
    )
    html = episode._repr_html_()
    assert html.count("<tr>") > 8 and "messages delivered per agent" in html


def test_watching_prints_every_round_or_calls_a_function(
    capsys: pytest.CaptureFixture[str],
) -> None:
    waggle.run("beacon", n=4, rounds=6, watch=True)
    assert capsys.readouterr().out.count("committed") == 6
    seen: list[int] = []
    waggle.run("beacon", n=4, rounds=6, watch=lambda entry, world: seen.append(entry.round))
    assert seen == list(range(6)) and capsys.readouterr() == ("", "")


def test_it_is_saved_loaded_and_replayed(episode: waggle.Episode, tmp_path: Path) -> None:
    place = episode.save(tmp_path / "kept")
    assert place.parent == tmp_path / "kept" and place.name.startswith("beacon_n6_s10000_heuristic")
    assert episode.save(tmp_path / "one.jsonl.gz") == tmp_path / "one.jsonl.gz"
    for path in (place, str(tmp_path / "one.jsonl.gz")):
        loaded = waggle.Episode.load(path)
        assert loaded.scores == episode.scores and repr(loaded) == repr(episode)
        assert repr(loaded.replay()) == "Replay(same: 32 rounds, 192 local updates)"


def test_numbers_of_an_array_are_numbers(tmp_path: Path) -> None:
    n, seed, rounds = np.array([4, 10_000, 3])
    played = waggle.run("beacon", n=n, seed=seed, rounds=rounds)
    assert played.record == waggle.run("beacon", n=4, seed=10_000, rounds=3).record
    assert waggle.Episode.load(played.save(tmp_path)).case.seed == 10_000


def test_a_world_without_a_name_is_replayed_too() -> None:
    class Unnamed(Beacon):
        name = "nowhere"

    played = waggle.run(Unnamed(), n=4, rounds=5, scouts=0.5)
    assert played.replay().same
    with pytest.raises(waggle.WaggleError, match="nowhere"):
        waggle.Episode(played.record).replay()


def test_frames_have_a_row_for_every_round_and_update(episode: waggle.Episode) -> None:
    by_round, by_update = episode.to_frame(), episode.to_frame(by="update")
    assert list(by_round["round"]) == list(range(32))
    assert by_round["score"].iloc[-1] == episode.score and by_round["shock"].sum() == 1
    assert by_round["reopened"].sum() == episode.counters["reopened"]
    assert len(by_update) == episode.counters["updates"]
    assert by_update["executed"].sum() == episode.counters["writes.executed"]
    with pytest.raises(ConfigError, match="'round' or 'update'"):
        episode.to_frame(by="day")  # type: ignore[arg-type]


@pytest.mark.parametrize("missing", ["pandas", "matplotlib"])
def test_without_a_library_one_line_names_the_extra(
    episode: waggle.Episode, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigError, match=rf"{missing}; install it with .*waggle-swarm\[report\]"):
        episode.to_frame() if missing == "pandas" else episode.plot()


def test_a_metric_is_a_name_or_a_function(episode: waggle.Episode) -> None:
    assert episode.metric("score") == episode.score
    assert episode.metric(lambda record: float(len(record.rounds))) == 32.0
    with pytest.raises(waggle.WaggleError, match="did you mean 'score'"):
        episode.metric("scor")


def test_a_plot_is_a_figure_that_a_notebook_shows(episode: waggle.Episode, tmp_path: Path) -> None:
    figure: Any = episode.plot(tmp_path / "new" / "episode.svg")
    assert (tmp_path / "new" / "episode.svg").read_text().startswith("<?xml")
    assert figure._repr_png_().startswith(b"\x89PNG")
    labels = {text.get_text() for text in figure.legends[0].get_texts()}
    assert {"score", "stale", "counterevidence"} <= labels
