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
from waggle.core.protocols import Decode, Request
from waggle.core.record import EpisodeRecord, Footer
from waggle.core.seeds import derive, generator, mix
from waggle.laws.local import LocalLaw, Sample
from waggle.learn.config import Settings, reward
from waggle.learn.luck import WIDTH, Job, Sampler, lucky
from waggle.runtime.replay import view_of
from waggle.runtime.sync import Engine, Episode, play_together

Known: TypeAlias = Mapping[int, tuple[bytes, tuple[Decode, ...]]]
"""By the draw of an update: its view and the decodes that the law returned."""


class _Probe(NamedTuple):
    """A decision of an episode, by its index, and the decision that replaces it."""

    place: int
    entropy: int
    other: Sample | None
    """None if the law sampled the same decision."""


class ChangedReplay(Engine):
    """An episode that repeats another one except for one decision."""

    known: Known
    probe: _Probe
    luck: int
    branch: bool
    legal = True
    """Whether the replacement was executable as decoded."""

    def episode(self) -> Episode:
        """Play as a generator that yields the requests to be decided again."""
        inner = super().episode()
        try:
            requests = next(inner)
            while True:
                answers = [self._answer(request) for request in requests]
                new = [r for r, a in zip(requests, answers, strict=True) if a is None]
                decided = iter((yield [lucky(r, self.luck) for r in new]) if new else ())
                requests = inner.send([next(decided) if a is None else a for a in answers])
        except StopIteration as end:
            footer: Footer = end.value
            return footer

    def _answer(self, request: Request) -> Decode | None:
        """Return the recorded decode, or None if the request must be decided again."""
        if request.entropy == self.probe.entropy:
            assert self.probe.other is not None
            self.legal = not request.feedback
            return self.probe.other.decode if self.legal else Decode("")
        if request.entropy not in self.known:  # the original had ended by then
            return None
        seen, decodes = self.known[request.entropy]
        if self.branch and not _same(self, request, seen):
            return None
        if not request.feedback:
            return decodes[0]
        return decodes[1] if len(decodes) > 1 else Decode("")  # it does not fit: it is projected


def _same(engine: Engine, request: Request, seen: bytes) -> bool:
    head = len(contract_head(engine.world.contract))
    return b"{" + encode_view(request.view)[head:] == seen


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
        found: list[list[Counterfactual]] = [[] for _ in episodes]
        changed: dict[int, tuple[ChangedReplay, int, float]] = {}
        law = Sampler(self._law)

        def engines() -> Iterator[ChangedReplay]:
            for number, (job, record) in enumerate(episodes):
                ended = reward(self._settings, record.footer.scores)
                known, probes = self._probes(job, record, samples)
                for probe in probes:
                    if probe.other is None:
                        found[number].append(Counterfactual(probe.place, 0.0, None))
                        continue
                    engine = self._open(job, law, known, probe)
                    changed[id(engine)] = engine, number, ended
                    yield engine

        for engine, footer in play_together(engines(), law, WIDTH):
            again, number, ended = changed.pop(id(engine))
            lost, probe = ended - reward(self._settings, footer.scores), again.probe
            found[number].append(Counterfactual(probe.place, lost, probe.other, again.legal))
        return found

    def _probes(
        self, job: Job, record: EpisodeRecord, samples: Mapping[int, Sample]
    ) -> tuple[Known, list[_Probe]]:
        """Draw decisions of an episode and sample an alternative for each of them."""
        updates = [update for entry in record.rounds for update in entry.updates]
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
        known = {u.entropy: (bytes(u.view), tuple(Decode(raw) for raw in u.raw)) for u in updates}
        return known, probes

    def _open(self, job: Job, law: Sampler, known: Known, probe: _Probe) -> ChangedReplay:
        world = plugins.get_substrate(job.case.substrate).open(job.case)
        engine = ChangedReplay(world, law, job.case, order=self._law.order)
        engine.known, engine.probe, engine.luck = known, probe, job.luck
        engine.branch = self._settings.credit == "branch"
        return engine
