"""A run of learning as a whole: what it writes, how it resumes, and what it refuses."""

import json
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.backbones import save_backbone
from waggle import plugins
from waggle.cli.main import main
from waggle.core.errors import ConfigError, ContractError
from waggle.evaluate import plan as evaluation
from waggle.evaluate.stats import Interval
from waggle.learn import imitation, learner
from waggle.learn.config import (
    Settings,
    development_cases,
    kept_cases,
    read_settings,
    training_cases,
)
from waggle.learn.learner import Learner
from waggle.learn.rollout import Rollouts
from waggle.models.nano import nano_tokenizer
from waggle.scd.files import TrainError, read_tensors
from waggle.scd.train.trackers import JsonLines

WORLD = Path(__file__).parents[2] / "examples" / "median" / "median.py"


@pytest.fixture(autouse=True)
def median(clean_registry: None) -> None:
    plugins.load_file(WORLD)


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_backbone(tmp_path_factory.mktemp("tiny"), nano_tokenizer())


def small(backbone: Path, **changed: Any) -> Settings:
    """Two batches of eight short episodes by a law that was never taught anything."""
    given: dict[str, Any] = {
        "tasks": ("median",), "n": (3,), "rounds": 2, "start": "scratch", "rate": 1e-3,
        "backbone": str(backbone), "grammar_updates": 2, "cases": 2, "replays": 4, "batches": 2,
        "trial_cases": 2, "trial_every": 1, "trial_mode": "constrained", "final_cases": 4,
        "machine": {"device": "cpu", "save_every": 1},
    }  # fmt: skip
    return Settings.model_validate(given | changed)


@dataclass
class Stop:
    """Interrupts a run after so many batches."""

    after: int
    seen: list[int] = field(default_factory=list)

    def __call__(self, batch: int, values: object) -> None:
        self.seen.append(batch)
        if batch == self.after:
            raise KeyboardInterrupt


def weights(out: Path) -> dict[str, Any]:
    return read_tensors(out / "checkpoints" / "update-000002" / "trainable.safetensors")


def test_a_run_measures_selects_and_resumes_to_the_same_weights(
    backbone: Path, tmp_path: Path
) -> None:
    settings, whole, halved = small(backbone), tmp_path / "whole", tmp_path / "halved"
    result = Learner(settings, 5, whole).learn()
    rows = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().splitlines()]
    assert [row["update"] for row in rows] == [0, 1, 2]
    assert rows[0]["trial.gain"] == 0 and rows[2]["trial.low"] <= rows[2]["trial.high"]
    assert rows[1]["decisions"] == 8 * 3 * 2 and rows[1]["executable"] == 1
    assert rows[2]["choice.divergence"] > 0
    said = json.loads((whole / "learn.json").read_text())
    assert said["batches"] == 2 and said["seed"] == 5 and said["law"]["cases"] == 4
    assert said["controls"].keys() == {"silent", "constant"}
    assert (result.law is not None) == (said["law"]["low"] > 0) == (whole / "law").exists()
    assert not (whole / "weights").exists()

    with pytest.raises(KeyboardInterrupt):
        Learner(settings, 5, halved, Stop(after=1)).learn()
    rest = Stop(after=-1)
    again = Learner(settings, 5, halved, rest).learn()
    assert rest.seen == [2], "the first batch is not sampled again"
    assert again.found == result.found
    lines = (halved / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["update"] for line in lines] == [0, 1, 2], "no line is lost or doubled"
    one, two = weights(whole), weights(halved)
    # Log-probabilities differ in the last bit with what the engine had decoded before.
    assert one.keys() == two.keys()
    assert all(one[name].allclose(two[name], rtol=0, atol=1e-6) for name in one)
    start = read_tensors(whole / "grammar" / "best" / "trainable.safetensors")
    assert any(not one[name].allclose(start[name], rtol=0, atol=1e-4) for name in one)

    with pytest.raises(TrainError, match="other settings; choose another --out"):
        Learner(small(backbone, rate=1e-4), 5, whole).learn()


def test_a_kill_loses_no_line_and_after_the_last_batch_nothing_but_the_comparison(
    backbone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = small(
        backbone, grammar_updates=0, cases=1, replays=2, trial_cases=1, final_cases=2,
        rehearse=("median",), kept_cases=1,
    )  # fmt: skip

    def killed(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    def written(self: JsonLines, update: int, values: Any) -> None:
        log(self, update, values) if update < 2 else killed()

    monkeypatch.setattr(imitation, "RECORDS", 4)
    log = JsonLines.log
    for place, stop in ((JsonLines, ("log", written)), (learner, ("export", killed))):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Interval, "above_zero", True)
            patch.setattr(place, *stop)
            Learner(settings, 5, tmp_path).learn()
        assert not (tmp_path / "learn.json").exists(), "who finds it finds the law, too"
    monkeypatch.setattr(imitation, "rehearsal_cases", killed)
    monkeypatch.setattr(Learner, "_loop", killed)
    assert Learner(settings, 5, tmp_path).learn().summary["batches"] == 2
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["update"] for line in lines] == [0, 1, 2]


def test_a_run_goes_on_with_other_processes_passes_and_budgets() -> None:
    kept, machine = Settings().fixed(), {"processes": 4, "tokens_per_pass": 9, "device": "cpu"}
    free = {"machine": machine, "fidelity": 5, "minutes": 3, "batches": 7}
    assert Settings.model_validate(free).fixed() == kept
    for other in (
        {"rate": 1e-3},
        {"machine": {"save_every": 9}},
        {"machine": {"dtype": "float32"}},
    ):
        assert Settings.model_validate(other).fixed() != kept


def test_a_batch_is_sampled_ahead_but_not_over_a_checkpoint(
    backbone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played, begin = [], Rollouts.begin

    def noted(self: Rollouts, weights: Any, jobs: Any) -> Any:
        played.append(weights.version)
        return begin(self, weights, jobs)

    monkeypatch.setattr(Rollouts, "begin", noted)
    settings = small(
        backbone, grammar_updates=0, ahead=True, batches=4, cases=1, trial_every=4, trial_cases=1,
        final_cases=1, kl=0.0, machine={"device": "cpu", "save_every": 2},
    )  # fmt: skip
    seen: list[Mapping[str, float]] = []
    learner = Learner(settings, 5, tmp_path, lambda _batch, values: seen.append(values))
    assert learner.learn().summary["batches"] == 4
    assert "choice.entropy" in seen[1] and "choice.divergence" not in seen[1], "not measured"
    assert played == [2, 2, 4, 4], "by weights of the batch before, or of the checkpoint"


@pytest.mark.parametrize(
    ("final", "counted"), [(2, "2 cases; the"), (1, "1 case, too few for an interval")]
)
def test_a_law_that_is_not_better_is_not_exported(
    backbone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], final: int, counted: str
) -> None:
    recipe = tmp_path / "none.toml"
    recipe.write_text(
        f'backbone = "{backbone}"\nrate = 1e-9\ntrial_mode = "constrained"\ncases = 1\n'
        f"replays = 2\ntrial_cases = 2\nfinal_cases = {final}\ngrammar_updates = 0\n"
    )
    words = ["learn", "median", str(recipe), "--plugin", str(WORLD), "--start", "scratch"]
    words += ["-n", "3", "--rounds", "1", "--batches", "1", "--out", str(tmp_path / "out")]
    assert main(words) == 1
    said = capsys.readouterr()
    assert f"not better than scratch: +0.000 [+0.000, +0.000] over {counted}" in said.out + said.err
    assert "silent" in said.out and "constant" in said.out
    assert not (tmp_path / "out" / "law").exists()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"reward": {"honey": 1.0}}, "no score 'honey' to learn from; it has score, known"),
        ({"start": "heuristic"}, "'heuristic' has no weights to train; start from nano"),
        ({"final_cases": 6_000}, "5000 development seeds; compare on fewer cases"),
    ],
)
def test_what_cannot_be_learned_is_refused_in_one_line(
    backbone: Path, tmp_path: Path, changed: dict[str, Any], says: str
) -> None:
    settings = small(backbone, grammar_updates=0, batches=1, **changed)
    with pytest.raises(ConfigError, match=says):
        Learner(settings, 0, tmp_path).learn()


def test_rehearsing_alone_is_no_learning(tmp_path: Path) -> None:
    recipe = tmp_path / "learn.toml"
    recipe.write_text('tasks = ["median"]\nrehearse = ["median"]\nrehearsed = 1.0\n')
    with pytest.raises(ConfigError, match=r"rehearsed.*less than 1"):
        read_settings(recipe)


@pytest.mark.parametrize(("line", "command"), [("[corpus]", "train"), ("[[blocks]]", "eval")])
def test_a_recipe_of_another_command_is_sent_there(tmp_path: Path, line: str, command: str) -> None:
    recipe = tmp_path / "other.toml"
    recipe.write_text(line, encoding="utf-8")
    with pytest.raises(ConfigError, match=f"use `waggle {command} "):
        read_settings(recipe)


def test_no_process_that_plays_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["learn", "beacon", "--processes", "0", "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert "machine.processes: Input should be greater than or equal to 1; got 0" in error


def test_sampling_ahead_with_one_player_is_refused(backbone: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "ahead.toml"
    recipe.write_text('tasks = ["beacon"]\nahead = true\n', encoding="utf-8")
    with pytest.raises(ConfigError, match="ahead = true needs several players"):
        read_settings(recipe)
    assert read_settings(recipe, processes=2).machine.processes == 2


def test_a_finished_run_is_read_and_not_played_again(
    backbone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = small(backbone, batches=1, cases=1, replays=2, trial_cases=1, final_cases=2)
    first = Learner(settings, 5, tmp_path).learn()
    monkeypatch.setattr(learner, "rollouts", None)
    again = Learner(settings, 5, tmp_path).learn()
    assert (again.law, again.found.gain) == (first.law, first.found.gain)
    assert again.summary == json.loads((tmp_path / "learn.json").read_text(encoding="utf-8"))
    with pytest.raises(TypeError):  # more is asked for, so something is played
        Learner(settings.model_copy(update={"fidelity": 4}), 5, tmp_path).learn()


def test_a_finished_run_goes_on_with_a_larger_budget(backbone: Path, tmp_path: Path) -> None:
    settings = small(backbone, cases=1, replays=2, trial_cases=1, final_cases=2)
    one, two = tmp_path / "one", tmp_path / "two"
    Learner(settings, 5, one).learn()
    Learner(settings.model_copy(update={"batches": 1}), 5, two).learn()
    rest = Stop(after=-1)
    assert Learner(settings, 5, two, rest).learn().summary["batches"] == 2
    assert rest.seen == [2]
    whole, halves = weights(one), weights(two)
    assert all(whole[name].allclose(halves[name], rtol=0, atol=1e-6) for name in whole)


def test_what_is_compared_is_what_is_exported(
    backbone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Interval, "above_zero", True)
    played: list[dict[str, Any]] = []
    greedy = Rollouts.greedy

    def watched(self: Rollouts, weights: Any, *given: Any) -> Any:
        played.append(read_tensors(weights.path))
        return greedy(self, weights, *given)

    monkeypatch.setattr(Rollouts, "greedy", watched)
    settings = small(backbone, batches=1, cases=1, replays=2, trial_cases=1, final_cases=2)
    law = Learner(settings, 5, tmp_path).learn().law
    assert law is not None
    shards = [read_tensors(path) for path in sorted(law.glob("*.safetensors"))]
    exported = {name: weight for shard in shards for name, weight in shard.items()}
    for name, weight in played[-1].items():
        assert name not in exported or exported[name].float().equal(weight.float()), name
    assert exported


def test_late_counterevidence_is_for_what_is_learned() -> None:
    settings = Settings(
        tasks=("silo/III-26",), shock=True, rehearse=("silo",), kept_cases=3, n=(16,)
    )
    assert all(case.shock for case in development_cases(settings, 2, final=True))
    assert not any(case.shock for case in kept_cases(settings)), "I-01 to I-03 have none"


def test_a_world_without_a_headline_is_refused(
    backbone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = small(backbone, grammar_updates=0, reward={"known": 1.0})
    world = type(plugins.get_substrate("median").open(training_cases(settings, 0, 0)[0]))
    monkeypatch.setattr(world, "score", lambda self: {"known": 0.5})
    with pytest.raises(ContractError, match="'median' returned no 'score'"):
        Learner(settings, 0, tmp_path).learn()


def test_an_outcome_that_never_varies_ends_the_run(
    backbone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner, "PATIENCE", 2)
    flat = {"grammar_updates": 0, "reward": {"score": 0.0}, "batches": 3, "trial_every": 3}
    flat |= {"cases": 1, "trial_cases": 1, "final_cases": 2}
    with pytest.raises(TrainError, match="every episode of 2 batches came out at 0: nothing can"):
        Learner(small(backbone, credit="group", **flat), 0, tmp_path / "group").learn()
    result = Learner(small(backbone, credit="share", **flat), 0, tmp_path / "share").learn()
    assert result.summary["batches"] == 3, "the shares of nodes vary, so there is credit"


def test_cases_in_a_row_go_through_all_varied_options() -> None:
    """A law that is trained and tried on one graph of AgentsNet says nothing about graphs."""
    settings = Settings(
        tasks=("agentsnet/coloring",), n=(8,), options={"priority": False},
        vary={"family": ("ws", "ba", "dt"), "index": (0, 1, 2)},
    )  # fmt: skip
    tried = development_cases(settings, 9, final=False)
    graphs = [(case.options["family"], case.options["index"]) for case in tried]
    assert len(set(graphs)) == 9
    assert {family for family, _ in graphs[:3]} == {"ws", "ba", "dt"}
    assert {case.options["priority"] for case in tried} == {False}
    drawn = [case.options["family"] for case in training_cases(settings, seed=0, batch=0)]
    assert len(set(drawn)) > 1


def test_what_is_rehearsed_is_drawn_alike_from_all_names_and_sizes_and_measured(
    backbone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imitation, "RECORDS", 16)
    settings = small(
        backbone, batches=1, cases=1, final_cases=2, grammar_updates=0, kept_cases=1,
        rehearse=("median",), rehearse_n=(3, 4), rehearsed=0.5,
    )  # fmt: skip
    groups = imitation.rehearsal_cases(settings, 0)
    assert [{case.n for case in cases} for cases in groups] == [{3}, {4}]
    assert [len(cases) for cases in groups] == [2, 2], "each has more decisions than are kept"
    run, drawn = Learner(settings, 0, tmp_path), []
    imitate = run.updates.imitate
    monkeypatch.setattr(
        run.updates, "imitate", lambda rows, w: (drawn.append((len(rows), w)), imitate(rows, w))
    )
    said = run.learn().summary["kept"]
    assert said["start"].keys() == {"median/median n=3", "median/median n=4"}
    assert said["law"]["cases"] == 2
    assert run.updates.rehearsal is not None and len(run.updates.rehearsal) == 16
    assert sum(count for count, _ in drawn) == 4 * 3 * 2, "as many as decisions are trained on"
    assert all(count * weight == pytest.approx(0.5) for count, weight in drawn)


def test_a_task_gets_more_cases_where_the_recipe_says_so(backbone: Path) -> None:
    settings = small(backbone, tasks=("agentsnet",), n=(8, 16), often={"agentsnet/coloring": 3})
    cells = {"cases": 14}
    found = training_cases(settings.model_copy(update=cells), 0, 0)
    counted = Counter((case.task, case.n) for case in found)
    assert counted == {
        (task, n): 3 if task == "coloring" else 1
        for task in plugins.get_substrate("agentsnet").tasks
        for n in (8, 16)
    }


def test_recipes_can_be_read_and_tables_name_the_laws_that_they_make() -> None:
    folder = WORLD.parents[2] / "recipes" / "learn"
    found = {
        path.stem: read_settings(path)
        for path in sorted(folder.glob("*.toml"))
        if "credit" in tomllib.loads(path.read_text(encoding="utf-8"))
    }
    assert all(settings.minutes <= 10 for settings in found.values())
    assert {"agentsnet", "foraging", "synchronization", "median"} <= found.keys()
    for name in ("outcomes", "outcomes_kept", "outcomes_beyond"):
        cells = evaluation.cells(evaluation.load(folder / f"{name}.toml"))
        assert all(cell.case.seed >= 40_000 for cell in cells)
        learned = {str(c.law_options["model"]) for c in cells if "model" in c.law_options}
        made = {tuple(path.split("/")) for path in learned}
        assert made and {(runs, learn) for runs, learn, *_ in made} == {("runs", "learn")}
        assert {recipe for _, _, recipe, *_ in made} <= found.keys()
        assert all(path[3:] in (("0", "law"), ("1", "law"), ("2", "law")) for path in made)
