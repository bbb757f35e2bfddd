"""The value of a single decision: replay its episode with another decision in its place.

Some decisions of an episode are drawn; for each the law samples an alternative in the same view.
With `frozen`, all other decisions stay the same: an exact difference reward. With `branch`, nodes
whose view has changed decide again, with the same luck; this also credits messages for their effect
on others. If a replay lasts longer than its episode, the law decides the additional rounds.
Invariant: an episode replayed without a change has the same outcome.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from waggle import plugins
from waggle.core.canon import contract_head, encode_view
from waggle.core.protocols import Decode, Law, Request
from waggle.core.record import EpisodeRecord, Footer
from waggle.core.seeds import derive, generator, mix
from waggle.laws.local import LocalLaw, Sample
from waggle.learn.config import Settings, reward
from waggle.learn.luck import WIDTH, Job, lucky
from waggle.runtime.replay import view_of
from waggle.runtime.sync import Engine, Episode, play_together

Known: TypeAlias = Mapping[int, tuple[bytes, tuple[Decode, ...]]]
"""By the entropy of an update: its view and the decodes that the law returned."""
_PROJECT_FIRST = Decode("")
"""A second decode that cannot be parsed, so that admission projects the first one."""


class _Probe(NamedTuple):
    """A decision of an episode, by its index, and the decision that replaces it."""

    place: int
    entropy: int
    other: Sample | None
    """None if the law sampled the same decision."""


class _Original(NamedTuple):
    """An episode to replay."""

    number: int
    """Index in the batch."""
    job: Job
    reward: float
    known: Known


class ChangedReplay(Engine):
    """An episode that repeats another one except for one decision."""

    def __init__(self, original: _Original, probe: _Probe, law: Law, *, branch: bool) -> None:
        """Open the world of the original; with `branch`, changed views are decided again."""
        case = original.job.case
        world = plugins.get_substrate(case.substrate).open(case)
        super().__init__(world, law, case)
        self.original, self.probe, self.branch = original, probe, branch
        self.legal = True
        """Whether the replacement was executable as decoded."""

    def episode(self) -> Episode:
        """Play as a generator that yields the requests to be decided again."""
        inner = super().episode()
        try:
            requests = next(inner)
            while True:
                answers = [self._answer(request) for request in requests]
                new = [r for r, a in zip(requests, answers, strict=True) if a is None]
                luck = self.original.job.luck
                decided = iter((yield [lucky(r, luck) for r in new]) if new else ())
                requests = inner.send([next(decided) if a is None else a for a in answers])
        except StopIteration as end:
            footer: Footer = end.value
            return footer

    def _answer(self, request: Request) -> Decode | None:
        """Return the recorded decode, or None if the request must be decided again."""
        if request.entropy == self.probe.entropy:
            assert self.probe.other is not None
            self.legal = not request.feedback
            return self.probe.other.decode if self.legal else _PROJECT_FIRST
        if request.entropy not in self.original.known:  # the original had ended by then
            return None
        recorded_view, decodes = self.original.known[request.entropy]
        if self.branch and self._view_in_record(request) != recorded_view:
            return None
        if not request.feedback:
            return decodes[0]
        # In another view, a recorded decode may not be executable although it was in the original.
        return decodes[1] if len(decodes) > 1 else _PROJECT_FIRST

    def _view_in_record(self, request: Request) -> bytes:
        """Return the view as a record keeps it: without its contract (see `view_of`)."""
        head = len(contract_head(self.world.contract))
        return b"{" + encode_view(request.view)[head:]


class Counterfactual(NamedTuple):
    """An alternative to one decision, and the reward lost by it."""

    place: int
    """Index of the decision in its episode."""
    advantage: float
    """0 if the law sampled the same decision again."""
    other: Sample | None
    """The alternative; None if it is the same decision."""
    legal: bool = True
    """Whether the alternative was executable as decoded."""


class Replays:
    """Tries alternative decisions in sampled episodes; `draw` names their random stream."""

    def __init__(self, law: LocalLaw, settings: Settings, draw: str = "other") -> None:
        self._law, self._settings, self._draw = law, settings, draw

    def counterfactuals(
        self, episodes: Sequence[tuple[Job, EpisodeRecord]], samples: Mapping[int, Sample]
    ) -> list[list[Counterfactual]]:
        """Replace some decisions of every episode by alternatives; all replays share batches."""
        counterfactuals: list[list[Counterfactual]] = [[] for _ in episodes]
        # Not a `Sampler`: replays of an episode have the same entropy in different views.
        law, branch = self._law, self._settings.credit == "branch"

        def engines() -> Iterator[ChangedReplay]:
            for number, (job, record) in enumerate(episodes):
                ended = reward(self._settings, record.footer.scores)
                original = _Original(number, job, ended, _known(record))
                for probe in self._probes(job, record, samples):
                    if probe.other is None:
                        counterfactuals[number].append(Counterfactual(probe.place, 0.0, None))
                    else:
                        yield ChangedReplay(original, probe, law, branch=branch)

        for engine, footer in play_together(engines(), law, WIDTH):
            assert isinstance(engine, ChangedReplay)
            original, probe = engine.original, engine.probe
            lost = original.reward - reward(self._settings, footer.scores)
            counterfactuals[original.number].append(
                Counterfactual(probe.place, lost, probe.other, engine.legal)
            )
        return counterfactuals

    def _probes(
        self, job: Job, record: EpisodeRecord, samples: Mapping[int, Sample]
    ) -> list[_Probe]:
        """Draw decisions of an episode after its fork; sample an alternative for each of them."""
        fork = job.fork(record.header.rounds)
        updates = [update for entry in record.rounds[fork:] for update in entry.updates]
        drawn = generator(job.luck, "probes").permutation(len(updates))[: self._settings.probes]
        requests = [
            Request(
                view_of(record.header, updates[k]), derive(job.luck, self._draw, updates[k].entropy)
            )
            for k in drawn
        ]
        probes = []
        for k, other in zip(drawn.tolist(), self._law.sample(requests), strict=True):
            before = samples[mix(updates[k].entropy, job.luck)].decode.output
            same = other.decode.output == before
            probes.append(_Probe(k, updates[k].entropy, None if same else other))
        return probes


def _known(record: EpisodeRecord) -> Known:
    return {
        update.entropy: (bytes(update.view), tuple(Decode(raw) for raw in update.raw))
        for entry in record.rounds
        for update in entry.updates
    }
