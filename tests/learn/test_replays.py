"""Episodes sampled by a tiny law, and played again with one decision changed."""

from typing import Any

import numpy as np
import pytest

from tests.backbones import save_backbone
from waggle import plugins
from waggle.core.protocols import Case
from waggle.core.record import EpisodeRecord
from waggle.core.seeds import mix
from waggle.learn.config import Settings, training_cases
from waggle.learn.luck import Job, SampledEpisode, Sampler, jobs_of
from waggle.learn.replays import ChangedReplay, Replays, _known, _Original, _Probe
from waggle.learn.rollout import Player, discounted, shares
from waggle.learn.start import find_start
from waggle.models.nano import nano_tokenizer
from waggle.runtime.recorder import Memory


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = save_backbone(tmp_path_factory.mktemp("tiny"), nano_tokenizer())
    return Settings(
        tasks=("agentsnet/coloring",), n=(4,), rounds=3, start="scratch", backbone=str(folder),
        cases=1, replays=2, probes=12, credit="branch", temperature=2.0,
    )  # fmt: skip


@pytest.fixture(scope="module")
def player(settings: Settings) -> Player:
    return Player(find_start(settings), settings)


def jobs(settings: Settings) -> list[Job]:
    return jobs_of(training_cases(settings, 0, 0), settings.replays, 0, 0)


def test_the_same_luck_samples_the_same_episode_and_other_luck_another(
    settings: Settings, player: Player
) -> None:
    one, other = player.sample(None, jobs(settings))
    again = player.sample(None, jobs(settings)[:1])[0]
    assert again.decisions.ids.tolist() == one.decisions.ids.tolist()
    assert other.decisions.ids.tolist() != one.decisions.ids.tolist()


def test_every_sampled_decision_is_executable_and_every_choice_was_allowed(
    settings: Settings, player: Player
) -> None:
    for outcome in player.sample(None, jobs(settings)):
        found = outcome.decisions
        assert found.legal.all()
        starts = np.cumsum(found.lengths) - found.lengths + found.prompts
        taken = found.ids[np.repeat(starts, found.choices) + found.offsets]
        allowed = np.split(found.allowed, np.cumsum(found.widths)[:-1])
        assert all(token in some for token, some in zip(taken, allowed, strict=True))
        assert (found.logprobs <= 0).all()


def test_what_is_tried_comes_back_on_both_sides_with_opposite_worth(
    settings: Settings, player: Player
) -> None:
    outcome = player.sample(None, jobs(settings))[0]
    own = settings.n[0] * 3
    advantage = outcome.decisions.counterfactual
    probed = advantage[:own][~np.isnan(advantage[:own])]
    assert len(probed) == settings.probes
    assert len(advantage) > own  # some decisions were other ones
    assert sorted(-advantage[own:][advantage[own:] != 0]) == sorted(probed[probed != 0])


def test_what_is_tried_and_not_executable_is_not_said_to_be(settings: Settings) -> None:
    free = settings.model_copy(update={"mode": "free", "rounds": 1, "probes": 4})
    found = Player(find_start(free), free).sample(None, jobs(free)[:1])[0].decisions
    assert len(found) > settings.n[0]  # with the other decisions behind
    assert not found.legal.any()  # an untaught law spells no record


def test_a_replay_whose_change_is_no_change_ends_as_the_episode_did(
    settings: Settings, player: Player
) -> None:
    law = player._law
    sampler, memory, job = Sampler(law), Memory(), jobs(settings)[0]
    law.mode, law.temperature = settings.mode, settings.temperature
    SampledEpisode(job, sampler, sinks=[memory]).play()
    record = memory.record()
    first = record.rounds[0].updates[0]
    same = sampler.samples[mix(first.entropy, job.luck)]
    asked = Sampler(law)
    original = _Original(0, job, 0.0, _known(record))
    footer = ChangedReplay(original, _Probe(0, first.entropy, same), asked, branch=True).play()
    assert footer.scores == record.footer.scores
    assert not asked.samples  # no view was another one: nobody decided again


@pytest.mark.parametrize("credit", ["frozen", "branch"])
def test_a_replay_goes_on_where_the_episode_had_ended(
    settings: Settings, player: Player, credit: str
) -> None:
    law = player._law
    sampler, memory, job = Sampler(law), Memory(), jobs(settings)[0]
    law.mode, law.temperature = settings.mode, settings.temperature
    SampledEpisode(job, sampler, sinks=[memory]).play()
    record = memory.record()
    ended = EpisodeRecord(record.header, record.rounds[:1], record.footer)  # as if all were done
    replays = Replays(law, settings.model_copy(update={"credit": credit}))
    (found,) = replays.counterfactuals([(job, ended)], sampler.samples)
    assert len(found) == settings.n[0] and any(one.other is not None for one in found)


def test_a_replay_ends_as_it_does_alone(settings: Settings, player: Player) -> None:
    """Replays of one episode have the same luck in different views, and decide for their own."""
    law = player._law
    settings = settings.model_copy(update={"rounds": 5, "reward": {"soft": 1.0}})
    sampler, memory, job = Sampler(law), Memory(), jobs(settings)[0]
    law.mode, law.temperature = settings.mode, settings.temperature
    SampledEpisode(job, sampler, sinks=[memory]).play()
    record = memory.record()
    replays = Replays(law, settings)
    original = _Original(0, job, record.footer.scores["soft"], _known(record))
    alone = {
        probe.place: original.reward
        - ChangedReplay(original, probe, law, branch=True).play().scores["soft"]
        for probe in replays._probes(job, record, sampler.samples)
        if probe.other is not None
    }
    (found,) = replays.counterfactuals([(job, record)], sampler.samples)
    assert {one.place: one.advantage for one in found if one.other is not None} == alone
    assert len(set(alone.values())) > 2


def test_replays_with_a_trunk_share_their_first_rounds_and_fork(
    settings: Settings, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = settings.model_copy(update={"credit": "progress", "discount": 0.5})
    monkeypatch.setattr(player, "_settings", asked)
    cases = training_cases(settings, 0, 0)
    for batch in range(9):  # until one forks in the middle
        drawn = jobs_of(cases, 2, 0, batch, trunk=True)
        if drawn[0].fork(3) == 1:
            break
    records = []
    for job in drawn:
        memory = Memory()
        SampledEpisode(job, Sampler(player._law), sinks=[memory]).play()
        records.append(memory.record())
    said = [[u.raw for e in record.rounds for u in e.updates] for record in records]
    assert said[0][:4] == said[1][:4], "the round before the fork is the same"
    views = [[bytes(u.view) for u in record.rounds[1].updates] for record in records]
    assert views[0] == views[1], "where they fork all see the same"
    assert said[0][4:8] != said[1][4:8]

    one, other = player.sample(None, drawn)
    assert one.decisions.round.min() == 1 and len(one.decisions) == 4 * 2
    assert one.progress is not None and np.isnan(one.progress[0]).all()
    assert one.progress[2].mean() == pytest.approx(one.scores["soft"]), "shares average to it"
    assert other.progress is not None


def test_later_rounds_weigh_less() -> None:
    assert discounted(np.array([[1.0], [0.0], [4.0]]), 0.5).ravel() == pytest.approx(
        [(1 + 4 / 4) / 1.75, (4 / 2) / 1.5, 4]
    )


def test_what_is_gained_leaves_out_what_stood_before(
    settings: Settings, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for gained in (False, True):
        asked = {"credit": "progress", "discount": 0.0, "gained": gained}
        monkeypatch.setattr(player, "_settings", settings.model_copy(update=asked))
        progress = player.sample(None, jobs(settings))[0].progress
        assert progress is not None
        found.append(progress)
    assert found[1] == pytest.approx(np.diff(found[0], axis=0, prepend=0.0))


def test_progress_asks_a_world_how_its_nodes_stand_before_it_asks_for_shares() -> None:
    case = Case("swarmbench", "foraging", 3, 0, 4)
    world: Any = plugins.get_substrate("swarmbench").open(case)
    assert shares(world) is None
    found = shares(world, "standing", own=1.0)
    assert found is not None and found.tolist() == [world.standing(k) for k in range(3)]
    assert shares(plugins.get_substrate("swarmbench").open(
        Case("swarmbench", "pursuit", 3, 0)), "standing") is None  # fmt: skip
