"""Sampled episodes of a law, played in this process or in several.

A player keeps a copy of the weights and loads new ones when a job names them. Invariant: the
decisions of an episode never depend on the rest of its batch or on the process that plays it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from waggle import plugins
from waggle.core.errors import ConfigError
from waggle.core.protocols import Case, World
from waggle.core.record import EXECUTABLE, EpisodeRecord, RoundRecord
from waggle.core.seeds import derive, mix
from waggle.engine import memory as gpu_memory
from waggle.laws.local import LocalLaw, Sample
from waggle.learn.config import Settings, reward
from waggle.learn.controls import Taken, Usual, controlled, taken
from waggle.learn.credit import Batch
from waggle.learn.decisions import Choice, Decisions, SampledDecision, pack
from waggle.learn.decisions import stack as stack_decisions
from waggle.learn.luck import WIDTH, Job, SampledEpisode, Sampler
from waggle.learn.replays import Counterfactual, Replays
from waggle.learn.start import Start, open_model, precision, put_weights
from waggle.process_pool import Run, mapped
from waggle.runtime.recorder import Memory
from waggle.runtime.sync import Engine, play_together
from waggle.scd.data.arrays import Encoded, Rows, from_encoded, stack
from waggle.scd.data.tokenize import end_of_turn
from waggle.scd.files import read_tensors
from waggle.scd.train.distributed import Processes


class Outcome(NamedTuple):
    """The result of an episode, and its decisions."""

    scores: Mapping[str, float]
    local_rewards: NDArray[np.float64] | None
    """Reward of each node, averaged with that of its contacts; None without shares."""
    decisions: Decisions
    branched: NDArray[np.float64] | None = None
    """Advantage of each decision in closed-loop branches, if they were requested."""
    progress: NDArray[np.float64] | None = None
    """By round and node: the discounted mean of the shares of the node and its contacts after this
    round and later; NaN before the fork. None unless the credit needs it."""


def batch_of(outcomes: Sequence[Outcome], settings: Settings) -> Batch:
    """Return sampled episodes as one batch; the episodes of one case lie side by side."""
    return Batch(
        stack_decisions([outcome.decisions for outcome in outcomes]),
        np.array([reward(settings, outcome.scores) for outcome in outcomes]),
        [outcome.local_rewards for outcome in outcomes],
        settings.replays,
        [outcome.progress for outcome in outcomes],
    )


class TrialEpisode(NamedTuple):
    """The result of one episode of a trial."""

    case: Case
    scores: Mapping[str, float]
    counters: Mapping[str, int]
    taken: Taken


class Weights(NamedTuple):
    """A file of plain weights and its version number."""

    version: int
    path: Path


class _PlayedEpisode(NamedTuple):
    """A sampled episode; record and rewards are complete when it has ended."""

    job: Job
    world: World
    memory: Memory
    node_rewards: list[NDArray[np.float64]]
    """After each round, the current reward of each node; empty unless the credit needs it."""


class Player:
    """Plays episodes in one process."""

    def __init__(self, start: Start, settings: Settings) -> None:
        machine = settings.machine
        self._model, tokenizer = open_model(start, machine.device, precision(machine))
        self._law = LocalLaw.over(self._model, tokenizer, mode=settings.mode)
        self._law.name, self._law.order = start.name, start.order
        if machine.processes > 1:
            gpu_memory.keep_to(machine.processes + 2)  # training gets two shares
            torch.set_num_threads(max(1, (os.cpu_count() or 1) // machine.processes))
        self._end = tokenizer.encode(end_of_turn(tokenizer), add_special_tokens=False)
        self._settings, self._version = settings, 0

    def sample(
        self, weights: Weights | None, jobs: Sequence[Job], branches: int = 0
    ) -> list[Outcome]:
        """Sample episodes, with counterfactual replays if the settings' credit needs them.

        In addition, `branches` decisions of each episode are branched, to compare a credit with.
        """
        self._take(weights)
        self._law.mode, self._law.temperature = self._settings.mode, self._settings.temperature
        sampler = Sampler(self._law)
        played = self._play(jobs, sampler)
        records = [(episode.job, episode.memory.record()) for episode in played]
        tried: list[list[Counterfactual]] = [[] for _ in jobs]
        if self._settings.credit in ("frozen", "branch"):
            replays = Replays(self._law, self._settings)
            tried = replays.counterfactuals(records, sampler.samples)
        outcomes = [
            self._outcome(episode, record, sampler.samples, counterfactuals)
            for episode, (_, record), counterfactuals in zip(played, records, tried, strict=True)
        ]
        if not branches:
            return outcomes
        settings = self._settings.model_copy(update={"credit": "branch", "probes": branches})
        replays = Replays(self._law, settings, "branch")
        tried = replays.counterfactuals(records, sampler.samples)
        return [
            outcome._replace(branched=_by_decision(counterfactuals, len(outcome.decisions)))
            for outcome, counterfactuals in zip(outcomes, tried, strict=True)
        ]

    def _play(self, jobs: Sequence[Job], sampler: Sampler) -> list[_PlayedEpisode]:
        """Play the episodes together; return them in the order of the jobs."""
        episodes: list[_PlayedEpisode] = []

        def engines() -> Iterator[SampledEpisode]:
            for job in jobs:
                memory, watch = Memory(), None
                node_rewards: list[NDArray[np.float64]] = []
                if self._settings.credit == "progress":
                    watch = partial(append_rewards, self._settings, node_rewards)
                engine = SampledEpisode(job, sampler, sinks=[memory], watch=watch)
                episodes.append(_PlayedEpisode(job, engine.world, memory, node_rewards))
                yield engine

        for _ in play_together(engines(), sampler, WIDTH):
            pass
        return episodes

    def _outcome(
        self, episode: _PlayedEpisode, record: EpisodeRecord, samples: Mapping[int, Sample],
        counterfactuals: Sequence[Counterfactual],
    ) -> Outcome:  # fmt: skip
        """Return the outcome of an episode, with its decisions and the alternatives tried."""
        decided = list(self._decided(episode.job, record, samples))
        advantage = [float("nan")] * len(decided)
        for one in counterfactuals:
            advantage[one.place] = one.advantage
            if one.other is not None:
                before = decided[one.place]
                decided.append(self._of_sample(one.other, before.node, before.round, one.legal))
                advantage.append(-one.advantage)
        progress = None
        if episode.node_rewards:
            fork = episode.job.fork(episode.world.rounds)
            progress = returns(episode.node_rewards, self._settings, fork)
        local_rewards = shares(episode.world)
        return Outcome(
            record.footer.scores, local_rewards, pack(decided, advantage), progress=progress
        )

    def _decided(
        self, job: Job, record: EpisodeRecord, samples: Mapping[int, Sample]
    ) -> Iterator[SampledDecision]:
        """Yield each sampled decision with its node and round."""
        rounds = record.header.rounds
        for entry in record.rounds[job.fork(rounds) :]:  # shared rounds get no credit
            for update in entry.updates:
                sample = samples[mix(update.entropy, job.luck)]
                legal = update.stage in EXECUTABLE
                yield self._of_sample(sample, update.node, entry.round, legal)

    def _of_sample(self, sample: Sample, node: int, round: int, legal: bool) -> SampledDecision:
        done = sample.completion
        answer = [*done.tokens, *self._end] if done.finish == "stop" else list(done.tokens)
        chosen = [Choice(c.offset, c.allowed or (), c.logprob) for c in done.choices]
        return SampledDecision(sample.prompt_tokens, answer, chosen, node, round, legal)

    def greedy(
        self, weights: Weights | None, cases: Sequence[Case], control: str, usual: Usual
    ) -> list[TrialEpisode]:
        """Play cases with the most likely decisions, by default decoded freely.

        `usual` is what a control that holds answers constant takes (see `controls`).
        """
        self._take(weights)
        self._law.mode, self._law.temperature = self._settings.trial_mode, 0.0
        law: Any = controlled(self._law, control, usual)

        def engine(case: Case, memory: Memory) -> Engine:
            world = plugins.get_substrate(case.substrate).open(case)
            return Engine(world, law, case, order=law.order, sinks=[memory])

        return _trial(engine, cases, law)

    def sampled(self, weights: Weights | None, cases: Sequence[Case]) -> list[TrialEpisode]:
        """Play cases sampled as in training, with one luck each."""
        self._take(weights)
        self._law.mode, self._law.temperature = self._settings.mode, self._settings.temperature
        law = Sampler(self._law)
        # Cases of one seed have the same draws in all tasks and sizes, so each has its own luck.
        jobs = [
            Job(case, derive(case.seed, "sampled", case.substrate, case.task, case.n))
            for case in cases
        ]

        def engine(job: Job, memory: Memory) -> Engine:
            return SampledEpisode(job, law, sinks=[memory])

        return _trial(engine, jobs, law)

    def records(self, weights: Weights | None, cases: Sequence[Case]) -> Rows:
        """Return the law's most likely decisions in these cases, as records to imitate."""
        self._take(weights)
        self._law.mode, self._law.temperature = self._settings.trial_mode, 0.0
        encoded = []
        for case in cases:
            world, sampler, memory = (
                plugins.get_substrate(case.substrate).open(case), Sampler(self._law), Memory(),
            )  # fmt: skip
            Engine(world, sampler, case, order=self._law.order, sinks=[memory]).play()
            encoded += [
                Encoded(sample.prompt_tokens, [*sample.completion.tokens, *self._end])
                for entry in memory.record().rounds
                for update in entry.updates
                if update.stage in EXECUTABLE
                and (sample := sampler.samples[update.entropy]).completion.finish == "stop"
            ]
        return from_encoded(encoded, [()] * len(encoded))

    def _take(self, weights: Weights | None) -> None:
        """Load newer weights if a job names them; with None, play the start's own."""
        version = 0 if weights is None else weights.version
        if version == self._version:
            return
        if weights is None:
            raise ConfigError("the starting law cannot be played again; keep what it did")
        put_weights(self._model, read_tensors(weights.path))
        self._law.refresh(self._model)
        self._version = version


def _trial(
    engine_of: Callable[[Any, Memory], Engine], items: Sequence[Any], law: Any
) -> list[TrialEpisode]:
    """Play one episode of each item, together; results come in the order of the items."""
    memories = [Memory() for _ in items]
    engines = [engine_of(item, memory) for item, memory in zip(items, memories, strict=True)]
    footers = dict(play_together(engines, law, WIDTH))
    return [
        TrialEpisode(
            engine.case, footers[engine].scores, footers[engine].counters, taken(memory.record())
        )
        for engine, memory in zip(engines, memories, strict=True)
    ]  # fmt: skip


def _by_decision(counterfactuals: Sequence[Counterfactual], count: int) -> NDArray[np.float64]:
    """Return the advantages of `count` decisions; NaN where no alternative was tried."""
    advantage = np.full(count, np.nan)
    for one in counterfactuals:
        advantage[one.place] = one.advantage
    return advantage


def append_rewards(
    settings: Settings, node_rewards: list[NDArray[np.float64]], _entry: RoundRecord, world: World
) -> None:
    """Append the current reward of each node after a round."""
    rewards = shares(world, "standing", own=0.5)
    rewards = shares(world, own=0.5) if rewards is None else rewards
    if rewards is None:
        rewards = np.full(world.n, reward(settings, world.score()))
    node_rewards.append(rewards)


def returns(
    node_rewards: Sequence[NDArray[np.float64]], settings: Settings, fork: int
) -> NDArray[np.float64]:
    """Return the discounted rewards from each round on, as in `Outcome.progress`."""
    rewards = np.stack(node_rewards)
    progress = discounted(rewards, settings.discount)
    if settings.gained:
        progress[1:] -= rewards[:-1]
    progress[:fork] = np.nan
    return progress


def discounted(values: NDArray[np.float64], discount: float) -> NDArray[np.float64]:
    """Return for every round the discounted mean of the values from that round on."""
    means, weight = values.astype(np.float64), 1.0
    for k in range(len(means) - 2, -1, -1):
        means[k] = (values[k] + discount * weight * means[k + 1]) / (1 + discount * weight)
        weight = 1 + discount * weight
    return means


def shares(world: World, hook: str = "share", own: float = 0.0) -> NDArray[np.float64] | None:
    """Return the world's share for each node and its contacts, or None if it provides none.

    The node's own share has weight `own`; the rest is the mean over the node and its contacts.
    """
    share = getattr(world, hook, None)
    parts = None if share is None else [share(node) for node in range(world.n)]
    if parts is None or any(part is None for part in parts):
        return None
    around = [[parts[k], *(parts[j] for j in world.neighbours(k))] for k in range(world.n)]
    return own * np.array(parts) + (1 - own) * np.array([float(np.mean(near)) for near in around])


class Rollouts:
    """Players in one or several processes."""

    def __init__(self, run: Run, parts: int, block: int) -> None:
        """Split episodes into `parts`, keeping `block` consecutive ones together."""
        self._run, self._parts, self._block = run, parts, block

    def sample(
        self, weights: Weights | None, jobs: Sequence[Job], branches: int = 0
    ) -> list[Outcome]:
        """Sample episodes; outcomes come in the order of the jobs."""
        return self.begin(weights, jobs, branches)()

    def begin(
        self, weights: Weights | None, jobs: Sequence[Job], branches: int = 0
    ) -> Callable[[], list[Outcome]]:
        """Start sampling episodes; return a function that waits for the outcomes.

        Other processes play meanwhile. The weights file must stay until the outcomes are complete.
        """
        size = self._block
        blocks = [list(jobs[k : k + size]) for k in range(0, len(jobs), size)]
        parts = _cut(blocks, 2 * self._parts if self._parts > 1 else 1)
        jobs_by_part = [list(chain.from_iterable(part)) for part in parts]
        results = self._run(_sample, [(weights, part, branches) for part in jobs_by_part])

        def outcomes() -> list[Outcome]:
            played = [[part[k : k + size] for k in range(0, len(part), size)] for part in results]
            return [outcome for block in _joined(blocks, parts, played) for outcome in block]

        return outcomes

    def greedy(
        self, weights: Weights | None, cases: Sequence[Case], control: str = "",
        usual: Usual = MappingProxyType({}),
    ) -> list[TrialEpisode]:  # fmt: skip
        """Play cases with the most likely decisions; results come in the order of the cases."""
        parts = _cut(cases, self._parts)
        results = self._run(_greedy, [(weights, part, control, dict(usual)) for part in parts])
        return _joined(cases, parts, list(results))

    def sampled(self, weights: Weights | None, cases: Sequence[Case]) -> list[TrialEpisode]:
        """Play cases sampled as in training; results come in the order of the cases."""
        parts = _cut(cases, self._parts)
        results = self._run(_sampled, [(weights, part) for part in parts])
        return _joined(cases, parts, list(results))

    def records(self, weights: Weights | None, groups: Sequence[Sequence[Case]]) -> list[Rows]:
        """Return the law's most likely decisions in groups of cases, as records to imitate."""
        # Whole episodes of a hundred rounds take longest, so each is a separate job.
        results = self._run(_records, [(weights, [case]) for cases in groups for case in cases])
        return [stack([next(results) for _ in cases]) for cases in groups]


def _cut(items: Sequence[Any], parts: int) -> list[list[Any]]:
    """Split items into parts round-robin, so that each part gets some of every kind."""
    return [list(items[k::parts]) for k in range(min(parts, len(items)))]


def _joined(items: Sequence[Any], parts: Sequence[Any], results: list[Any]) -> list[Any]:
    """Undo `_cut`: return the results in the order of the items."""
    joined = [None] * len(items)
    for k, of_part in enumerate(results):
        joined[k :: len(parts)] = of_part
    return joined


def _sample(player: Player, job: tuple[Weights | None, list[Job], int]) -> list[Outcome]:
    return player.sample(*job)


def _sampled(player: Player, job: tuple[Weights | None, list[Case]]) -> list[TrialEpisode]:
    return player.sampled(*job)


def _records(player: Player, job: tuple[Weights | None, list[Case]]) -> Rows:
    return player.records(*job)


def _greedy(
    player: Player, job: tuple[Weights | None, list[Case], str, Usual]
) -> list[TrialEpisode]:
    return player.greedy(*job)


@contextmanager
def rollouts(start: Start, settings: Settings, group: Processes) -> Iterator[Rollouts]:
    """Open the players of a run; every process of a group of learners has its own."""
    players = settings.machine.processes
    # Replays with a common beginning stay together, so that it is decided only once.
    block = settings.replays if settings.credit == "progress" else 1
    with mapped(players, partial(Player, start, settings)) as run:
        yield Rollouts(group.shared(run), group.count * players, block)


def executable(ended: Sequence[TrialEpisode]) -> float:
    """Return the share of decisions that were executable as decoded."""
    total: Counter[str] = Counter()
    for one in ended:
        total.update(one.counters)
    return sum(total[f"stage.{stage}"] for stage in EXECUTABLE) / max(1, total["updates"])
