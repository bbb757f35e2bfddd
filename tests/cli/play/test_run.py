"""`waggle run`: options, outcome, and mistakes that end in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command, refused
from waggle import plugins
from waggle.laws.heuristic import Heuristic
from waggle.runtime.records import read


def test_the_record_says_what_was_asked_for(waggle: Command, tmp_path: Path) -> None:
    said = waggle(
        "run", "beacon", "-n", 6, "--seed", 5, "--law", "private-only", "--rounds", 4,
        "--order", "canonical", "--beacon.scouts", 0.5, "--perturb.loss", 0.25,
        "--switch.decay", "off", "--switch.support", 6, "--out", tmp_path, "--json",
    )  # fmt: skip
    assert said.code == 0, said.err
    header = read(Path(said.data["record"])).header
    assert (header.case.n, header.case.seed, header.case.rounds) == (6, 5, 4)
    assert header.case.options == {"scouts": 0.5}
    assert (header.law, header.engine, header.order) == ("private-only", "sync", "canonical")
    assert header.perturbation["loss"] == 0.25
    assert (header.switches["decay"], header.switches["support"]) == (False, 6)


def test_the_same_command_gives_the_same_bytes(waggle: Command, tmp_path: Path) -> None:
    first, second = (
        Path(waggle("run", "beacon", "-n", 5, "--out", tmp_path / name, "--json").data["record"])
        for name in ("a", "b")
    )
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_other_settings_never_replace_a_record(waggle: Command, tmp_path: Path) -> None:
    variants: list[list[object]] = [
        [], ["--order", "canonical"], ["--engine", "event"], ["--shock"],
        ["--beacon.scouts", 1], ["--perturb.loss", 0.1], ["--rounds", 3],
    ]  # fmt: skip
    for extra in variants:
        assert waggle("run", "beacon", "-n", 4, "--out", tmp_path, *extra).code == 0
    assert len(list(tmp_path.iterdir())) == len(variants)


def test_the_last_line_says_where_the_record_lies(waggle: Command, tmp_path: Path) -> None:
    said = waggle("run", "beacon", "-n", 4, "--out", tmp_path)
    assert said.code == 0
    place = said.out.splitlines()[-1].removeprefix("record: ").strip()
    assert Path(place).is_file()
    for word in ("score", "messages delivered per agent", "writes executed", "decodes first"):
        assert word in said.out


def test_watching_tells_every_round_and_the_counterevidence(
    waggle: Command, tmp_path: Path
) -> None:
    said = waggle("run", "beacon", "-n", 8, "--shock", "--watch", "--rounds", 20, "--out", tmp_path)
    assert said.code == 0
    assert said.err.count("committed") == 20
    assert "counterevidence" in said.err and "reopened" in said.err


def test_counterevidence_that_a_world_does_not_have_is_told(
    waggle: Command, tmp_path: Path
) -> None:
    made = waggle("new", "substrate", "placid", "--to", tmp_path)
    assert made.code == 0
    words = ("run", "placid", "-n", 4, "--shock", "--plugin", tmp_path / "placid.py")
    said = waggle(*words, "--out", tmp_path)
    assert said.code == 0
    assert said.err == "placid has no late counterevidence: --shock injects nothing\n"
    assert waggle("run", "beacon", "-n", 4, "--shock", "--out", tmp_path).err == ""


def test_a_worker_whose_answers_are_refused_is_no_result(waggle: Command, tmp_path: Path) -> None:
    path = tmp_path / "flier.py"
    path.write_text('def fly(work):\n    return "FLY"\n', encoding="utf-8")
    words = ("run", "pursuit", "-n", 4, "--rounds", 2, "--out", tmp_path, "--worker")
    said = waggle(*words, f"{path}:fly")
    assert said.code == 1
    assert f"8 of 8 answers of private worker '{path}:fly' were refused" in said.err
    assert 'the first is "FLY", legal are UP, DOWN, LEFT, RIGHT, STAY' in said.err
    assert "no result of this law" in said.err and said.err.count("\n") == 1
    said = waggle(*words, "native")
    assert said.code == 0 and said.err == ""


@pytest.mark.parametrize("word", ["on", "yes", "true", "ON"])
def test_a_switch_takes_a_word_for_yes(waggle: Command, tmp_path: Path, word: str) -> None:
    said = waggle("run", "beacon", "-n", 3, "--switch.decay", word, "--out", tmp_path, "--json")
    assert said.code == 0, said.err
    assert read(Path(said.data["record"])).header.switches["decay"] is True


@pytest.mark.parametrize("spelling", [["--switch.decay=off"], ["--switch.no-decay"]])
def test_a_switch_has_other_spellings(waggle: Command, tmp_path: Path, spelling: list[str]) -> None:
    said = waggle("run", "beacon", "-n", 3, *spelling, "--out", tmp_path, "--json")
    assert said.code == 0, said.err
    assert read(Path(said.data["record"])).header.switches["decay"] is False


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["beacn"], "did you mean 'beacon'"),
        (["nowhere/task"], "unknown; see `waggle list substrates`"),
        (["silo"], "'silo' is a substrate; name one of its tasks, such as silo/I-01"),
        (["beacon", "-n", 0], "-n must be from 1"),
        (["beacon", "-n", -4], "-n must be from 1"),
        (["beacon", "-n", 10**9], "-n must be from 1"),
        (["beacon", "-n", "many"], "many"),
        (["beacon", "--rounds", 0], "--rounds must be from 1"),
        (["beacon", "--seed", -1], "--seed must be 0 or more"),
        (["beacon", "--law", "heuristc"], "did you mean 'heuristic'"),
        (["beacon", "--law", Path(__file__).parent], "holds no law; name the folder of one"),
        (["beacon", "--law.nonsense", 3], "has no option --law.nonsense"),
        (["beacon", "--beacon.scots", 0.5], "--beacon.scouts"),
        (["beacon", "--beacon.scouts", 7], "--beacon.scouts"),
        (["beacon", "--beacon.scouts", "few"], "--beacon.scouts"),
        (["beacon", "--perturb.loss", 3], "loss"),
        (["beacon", "--perturb.call-delay", 2], "need the engine `event`"),
        (["beacon", "--perturb.churn-at", -1], "--perturb.churn-at"),
        (["beacon", "--switch.coherence", "nan"], "--switch.coherence"),
        (["beacon", "--perturb.lost", 0.3], "--perturb.loss"),
        (["beacon", "--switch.decay", "perhaps"], "perhaps"),
        (["beacon", "--engine", "steam"], "steam"),
        (["beacon", "--engine", "ray", "--view"], "open the record afterwards with `waggle view`"),
        (["beacon", "--engine", "ray", "--fps", 3], "open the record afterwards"),
        (["beacon", "--sed", 3], "--seed"),
        (["beacon", "twice"], "`waggle run` has no use for 'twice'; see `waggle run --help`"),
        (["beacon", "--laww", "expert"], "Did you mean --law? See `waggle run --help`"),
        (["beacon", "--law"], "--law needs a value"),
        ([], "`waggle run` needs TASK; see `waggle run --help`"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_fix(
    waggle: Command, tmp_path: Path, words: list[object], hint: str
) -> None:
    assert hint in refused(waggle("run", *words, "--out", tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_options_of_another_substrate_are_refused(waggle: Command, tmp_path: Path) -> None:
    said = waggle("run", "silo/III-26", "--beacon.scouts", 0.5, "--out", tmp_path)
    assert "belongs to beacon" in refused(said)


def test_an_output_folder_that_cannot_be_written_is_refused(
    waggle: Command, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    assert "--out" in refused(waggle("run", "beacon", "--out", tmp_path / "file" / "runs"))
    assert "--out" in refused(waggle("run", "beacon", "--out", "/proc/runs"))


def test_a_crash_leaves_no_half_record(
    waggle: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("waggle.laws.heuristic.Heuristic.decide", interrupt)
    said = waggle("run", "beacon", "--out", tmp_path)
    assert said.code == 130 and said.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_help_reads_like_documentation(waggle: Command) -> None:
    said = waggle("run", "--help")
    assert said.code == 0
    for text in ("Agents in the swarm", "--beacon.scouts", "--perturb.loss", "--switch.decay",
                 "Share of messages dropped", "waggle list laws"):  # fmt: skip
        assert text in said.out, text


def test_a_missing_extra_is_named(
    waggle: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch.nn")

    monkeypatch.setattr("waggle.laws.heuristic.Heuristic.decide", missing)
    assert "waggle-swarm[law]" in refused(waggle("run", "beacon", "--out", tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_broken_program_is_not_taken_for_a_mistake(
    waggle: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'waggle.typo'", name="waggle.typo")

    monkeypatch.setattr("waggle.laws.heuristic.Heuristic.decide", missing)
    with pytest.raises(ModuleNotFoundError):
        waggle("run", "beacon", "--out", tmp_path)


def test_law_options_reach_the_law_in_their_own_types(
    waggle: Command, tmp_path: Path, clean_registry: None
) -> None:
    @plugins.law("told")
    class Told(Heuristic):
        name = "told"

        def __init__(self, share: float, rounds: int | None = None, loud: bool = False) -> None:
            assert (share, rounds, loud) == (0.5, 3, True)

    words = ("run", "beacon", "--law", "told", "--out", tmp_path)
    said = waggle(*words, "--law.share", 0.5, "--law.rounds", 3, "--law.loud", "on", "--json")
    assert said.code == 0 and said.data["law"] == "told"
    assert "did you mean '--law.share'" in refused(waggle(*words, "--law.shere", 0.5))
    assert "--law.rounds" in refused(waggle(*words, "--law.share", 1, "--law.rounds", "few"))
    assert "share" in refused(waggle(*words))
