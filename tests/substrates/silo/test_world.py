"""The Silo world: frames, regimes, readiness, binding answers, and that choices matter."""

from random import Random

import msgspec
import pytest

from tests.substrates.silo.episodes import SEED, Rule, nothing_held, opened, scores, write
from waggle.core.errors import ConfigError
from waggle.core.protocols import Act, Case, Local, Request
from waggle.core.schema import Decision
from waggle.laws.ports import FirstListed, RoundRobin
from waggle.runtime.sync import play
from waggle.substrates.silo.adapter import Silo
from waggle.substrates.silo.cases import episode_graph, independent_case
from waggle.substrates.silo.ceilings import SCHEDULES, ceiling_row, spread
from waggle.substrates.silo.proposals import MAX_TEXT, show_answer
from waggle.substrates.silo.world import NEVER, Frame, PortMemory, SiloWorld


def test_views_tell_nothing_of_the_swarm() -> None:
    small, large = (opened("III-22", n) for n in (8, 32))
    assert small.contract == large.contract
    for world in (small, large):
        sensed = world.sense(3, nothing_held())
        assert set(sensed.observation) == {"answer", "gained", "answered"}
        facts = {"offer": 15, "sent": NEVER, "heard": NEVER, "intent": "NONE"}
        assert all(dict(port) == facts for port in sensed.ports.values())
        assert sensed.coverage == 0 and sensed.ready == ()


def test_a_frame_carries_snapshot_basis_and_intent() -> None:
    world = opened()
    receiver = world.neighbours(0)[0]
    claim = world.sense(0, nothing_held()).evidence[0].claim
    frame = world.payload(write(0, receiver, claim))
    assert frame == Frame(1 << 0, 1 << 0, "GATHER")
    world.step({})
    assert world.receive(write(0, receiver, claim), frame) is not None
    facts = world.sense(receiver, nothing_held()).ports[0]
    assert (facts["heard"], facts["sent"], facts["intent"]) == (1, NEVER, "GATHER")
    assert facts["offer"] == 8
    assert world.sense(0, nothing_held()).ports[receiver]["offer"] == 0


def test_redelivered_sums_count_once() -> None:
    world = opened("I-06")
    receiver = world.neighbours(0)[0]
    claim = world.sense(0, nothing_held()).evidence[0].claim
    frame = world.payload(write(0, receiver, claim))
    world.receive(write(0, receiver, claim), frame)
    once = world.sense(receiver, nothing_held()).proposal.response
    world.receive(write(0, receiver, claim), frame)
    assert world.sense(receiver, nothing_held()).proposal.response == once


def test_duplicate_frames_share_a_fingerprint_until_something_is_learnt() -> None:
    world = opened()
    receiver = world.neighbours(0)[0]
    before = world.fingerprint(write(0, receiver, "z"))
    assert before == world.fingerprint(write(0, receiver, "z"))
    world.receive(write(receiver, 0, "z"), Frame(1 << receiver, 1 << receiver, "GATHER"))
    assert before != world.fingerprint(write(0, receiver, "z"))


@pytest.mark.parametrize("task", ["I-06", "II-14", "III-23"])
def test_silence_scores_what_the_own_shard_gives(task: str) -> None:
    quiet = scores(task, 16, Rule(lambda r, d: msgspec.structs.replace(d, deposits=())))
    assert quiet["score"] == ceiling_row("silent", [task], 16, [SEED], 9).success
    assert quiet["emissions"] == 0


@pytest.mark.parametrize("rounds", [2, 3, 5])
def test_uncapped_ports_flood_exactly(rounds: int) -> None:
    graph = episode_graph("I-05", 16, SEED)
    reach = spread(graph, SCHEDULES["flooding"](graph, Random(0)), rounds)
    played = scores("I-05", 16, rounds=rounds, regime="ports", cap=1_000_000)
    assert played["coverage"] == reach.coverage and played["complete"] == reach.complete


def test_directed_sends_at_most_one_frame_per_round() -> None:
    played = scores("I-01", 16, RoundRobin())
    assert 8 <= played["emissions"] == played["deliveries"] <= 9


def test_the_cap_binds() -> None:
    tight, wide = (scores("III-25", 16, regime="ports", cap=cap) for cap in (512, 8192))
    assert tight["coverage"] < wide["coverage"] == 1
    assert wide["deliveries"] > wide["emissions"]


def test_answers_travel_ahead_of_capped_data() -> None:
    played = scores("I-07", 16, regime="ports", cap=512)
    assert played["complete"] < played["score"] == 1


def test_long_shards_travel_in_pieces() -> None:
    port, sizes = PortMemory(), [700, 100, 100]
    assert port.pack([0, 1, 2], sizes, 500) == 0
    packed = port.pack([0, 1, 2], sizes, 500)
    assert packed == 0b111
    port.shared |= packed
    assert port.pack([0, 1, 2], sizes, 500) == 0


def test_small_swarms_solve_every_kind_of_task() -> None:
    for task in ("I-03", "I-10", "II-11", "II-18", "II-20", "III-21", "III-27", "III-30"):
        assert scores(task, 8)["score"] == 1, task


def test_readiness_is_native_constructibility() -> None:
    ready = {
        task: sum(bool(opened(task).sense(i, nothing_held()).ready) for i in range(8))
        for task in ("I-03", "II-20", "II-11", "I-05")
    }
    assert ready == {"I-03": 8, "II-20": 8, "II-11": 1, "I-05": 0}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("quoted_first", [False, True])
def test_a_quoted_truth_value_of_a_worker_is_the_same_claim_and_answer(
    seed: int, quoted_first: bool
) -> None:
    case = Case("silo", "I-04", 4, seed)
    gold = independent_case("I-04", 4, seed).golds[0]
    answers = [gold, "true" if gold else "false"]
    world = Silo().open(case)
    world.staff()
    for node, answer in enumerate(answers[::-1] if quoted_first else answers):
        assert world.adopt(node, answer)
        claim = world.sense(node, Local((), None)).proposal.claim
        world.step({node: Act("ANSWER", None, claim, None, Local((), None))})
    assert world.score()["score"] == 0.5
    assert [world.share(node) for node in range(4)] == [1, 1, 0, 0]


def test_long_answers_are_shown_as_digests() -> None:
    assert show_answer([1, 2]) == "[1,2]" and show_answer("Candidate_A") == "Candidate_A"
    digest = show_answer(list(range(100)))
    assert digest.startswith("#") and len(digest) <= MAX_TEXT
    assert digest != show_answer(list(range(1, 101)))
    accents = ["é" * (MAX_TEXT - 4)]
    assert len(show_answer(accents)) == MAX_TEXT  # characters, whatever their bytes


def test_the_choice_of_port_matters() -> None:
    tasks = ("I-05", "III-22", "III-26")
    listed = sum(scores(task, 32, FirstListed())["score"] for task in tasks)
    assert sum(scores(task, 32)["score"] for task in tasks) > listed + 0.5


def test_answering_matters_and_nothing_answers_by_itself() -> None:
    def mute(request: Request, decision: Decision) -> Decision:
        return msgspec.structs.replace(decision, task_action="GATHER", response=None)

    assert scores("I-05", 8, Rule(mute))["score"] == 0
    assert scores("I-05", 8)["score"] == 1


def bound_without_asking(made: type[SiloWorld]) -> list[str]:
    """Return native actions of updates that gather, over all intents, moments and held claims."""
    found = []
    for rounds in (0, 9):
        for intent in (None, "PRIVATE", "FIELD"):
            world = made(Case("silo", "I-03", 8, SEED), None)
            claim = world.sense(0, nothing_held()).evidence[0].claim
            for _ in range(rounds):
                world.step({})
            for held in (None, claim):
                act = Act("GATHER", None, None, intent, Local((), held))
                found.append(world.step({0: act})[0])
    return [native for native in found if native != "GATHER"]


def test_only_the_law_chooses_the_moment_to_answer() -> None:
    assert bound_without_asking(SiloWorld) == []


def test_that_check_catches_an_intent_that_answers_by_itself() -> None:
    class Eager(SiloWorld):
        def _bind(self, node: int, act: Act) -> str:
            if act.intent == "PRIVATE":
                act = msgspec.structs.replace(act, action=self._intent(node), response="42")
            return super()._bind(node, act)

    assert bound_without_asking(Eager)


@pytest.mark.parametrize(
    ("intent", "held", "answered"),
    [
        (None, None, "otherwise"),
        ("PRIVATE", None, "so"),
        ("FIELD", "own", "so"),
        (None, "own", "no"),
        ("FIELD", None, "otherwise"),
    ],
)
def test_the_intent_says_what_is_answered(
    intent: str | None, held: str | None, answered: str
) -> None:
    world = opened()
    claim = world.sense(0, nothing_held()).evidence[0].claim
    commitment = claim if held == "own" else None
    world.step({0: Act("ANSWER", None, "another", intent, Local((), commitment))})
    assert world.sense(0, nothing_held()).observation["answered"] == answered


def test_nothing_is_sent_in_the_answering_update() -> None:
    world = opened()
    for _ in range(9):
        assert world.withhold(write(0, 1, "z")) is None
        world.step({})
    assert world.withhold(write(0, 1, "z")) == "horizon"
    assert world.sense(0, nothing_held()).proposal.action == "ANSWER"


def test_a_port_carries_one_frame_per_round() -> None:
    world = opened(regime="ports", cap=64)
    here, there = world.neighbours(0)[:2]
    assert world.withhold(write(0, here, "one")) is None
    world.payload(write(0, here, "one"))
    assert world.withhold(write(0, here, "two")) == "port"
    assert world.withhold(write(0, there, "two")) is None
    world.step({})
    assert world.withhold(write(0, here, "two")) is None


def test_relabelled_swarms_give_the_relabelled_episode() -> None:
    keys = Random(1).sample(range(16), 16)
    case = Case("silo", "III-21", 16, SEED)
    plain = play(Silo().open(case), Rule(), case).scores
    assert play(Silo().open(case, keys), Rule(), case).scores == plain


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"task": "I-99"}, "use I-01"),
        ({"n": 7}, "even agent count"),
        ({"shock": True}, "use one of I-05, III-26"),
        ({"rounds": 0}, "rounds"),
        ({"options": {"regime": "telepathy"}}, "--silo.regime"),
        ({"options": {"cap": 1}}, "--silo.cap"),
        ({"options": {"speed": 1}}, "--silo.speed"),
    ],
)
def test_bad_cases_name_the_fix(fields: dict[str, object], text: str) -> None:
    case = msgspec.structs.replace(Case("silo", "I-01", 8, SEED), **fields)
    with pytest.raises(ConfigError, match=text):
        Silo().open(case)


def test_render_says_how_far_it_is() -> None:
    assert "coverage" in opened().render()
