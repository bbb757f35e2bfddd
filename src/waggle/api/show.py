"""Decisions as readable text: what an agent saw, said and did, from the record alone.

`text(record, round, agent)` writes one local update in full: the six slots of the view, the decode,
the admitted decision, the executed and the silenced writes. With only a round or only an agent it
writes a line for each update, with neither a line for each round. References (`h..`, `z..`) are the
opaque names of the view; claims in the substrate's own terms are listed under `did`, for the
analyst only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from waggle.api.grid import Grid
from waggle.core.admit import CODES
from waggle.core.canon import encode_decision
from waggle.core.errors import ConfigError
from waggle.core.record import EpisodeRecord, RoundRecord, UpdateRecord, WriteRecord
from waggle.core.schema import Decision, Evidence, Fact, Trace, View
from waggle.runtime.replay import UNSEEN, view_of

STAGES = {
    "first": "as emitted",
    "normalized": "after its text was cleaned",
    "regenerated": "at the second attempt",
    "projected": "what was left after illegal parts were cut",
    "fallback": "the private proposal instead",
}
"""Stage of admission -> its result, in words."""


def chosen(
    record: EpisodeRecord, round: int | None = None, agent: int | None = None
) -> list[tuple[RoundRecord, UpdateRecord]]:
    """Return the updates of a round, of an agent, or of both, each with its round.

    Raises:
        ConfigError: for a round or an agent that is not in the record.
    """
    if agent is not None and not 0 <= agent < record.header.case.n:
        raise ConfigError(f"there is no agent {agent}; they are 0 to {record.header.case.n - 1}")
    if round is not None and not 0 <= round < len(record.rounds):
        raise ConfigError(f"there is no round {round}; they are 0 to {len(record.rounds) - 1}")
    return [
        (entry, update)
        for entry in (record.rounds if round is None else record.rounds[round : round + 1])
        for update in entry.updates
        if agent in (None, update.node)
    ]


def text(record: EpisodeRecord, round: int | None = None, agent: int | None = None) -> str:
    """Return the text about a round, an agent, or one update; raises as `chosen`."""
    found = chosen(record, round, agent)
    if round is None and agent is None:
        return _overview(record)
    if round is None:
        return _listed("round", [(entry.round, update) for entry, update in found])
    if agent is None:
        return _listed("agent", [(update.node, update) for _, update in found])
    update = found[0][1] if found else None
    return "\n".join(_update(record, record.rounds[round], agent, update))


def _overview(record: EpisodeRecord) -> str:
    names = list(record.rounds[0].score) if record.rounds else []
    rows = [
        (r.round, *(r.score.get(name) for name in names), r.delivered, len(r.updates),
         sum(u.reopened is not None for u in r.updates), _shock(r))
        for r in record.rounds
    ]  # fmt: skip
    columns = ("round", *names, "messages", "updates", "reopened", "")
    return Grid(columns, rows).text()


def _shock(entry: RoundRecord) -> str:
    return "" if entry.shock is None else f"counterevidence: {entry.shock.note or 'injected'}"


def _listed(first: str, updates: Iterable[tuple[int, UpdateRecord]]) -> str:
    """Return a line for every update: agent or round, what it did, and the claim it holds."""
    rows = [
        (str(key), u.mode, u.native or u.decision.task_action, "; ".join(map(write_text, u.writes)),
         u.claim, u.reopened, " ".join(u.codes))
        for key, u in updates
    ]  # fmt: skip
    columns = (first, "mode", "action", "wrote", "holds", "reopened", "refused for")
    return Grid(columns, rows, right=len(columns)).text()


def write_text(write: WriteRecord) -> str:
    """Return one candidate write and its result, on one line."""
    kind = "challenge of" if write.challenge else "fresh" if write.fresh else "relay of"
    to = ", ".join(map(str, write.receivers)) or "nobody"
    fate = f", silenced: {write.cause}" if write.cause else ", again" if write.refresh else ""
    return f"{kind} {write.claim} to {to}{fate}"


def _update(
    record: EpisodeRecord, entry: RoundRecord, agent: int, update: UpdateRecord | None
) -> Iterator[str]:
    header = record.header
    yield f"round {entry.round}, agent {agent}: {header.case.task}, law {header.law}"
    if entry.shock is not None:
        yield _shock(entry)
    if update is None:
        away = "suspended" if agent in entry.suspended else "not active"
        yield f"took no part in this round: {away}"
        return
    yield "\nsaw"
    if update.view == UNSEEN:
        yield "  (the record holds measures only; play the case again and keep it whole)"
    else:
        yield from _lines(slots(view_of(header, update)))
    if update.work is not None:
        answer = msgspec.json.encode(update.work.answer).decode()
        yield from _lines([("worker", "no answer" if update.work.answer is None else answer)])
    yield "\nsaid"
    for attempt, raw in enumerate(update.raw):
        yield from _lines([("first" if attempt == 0 else "second", said(raw))])
    yield f"\nadmitted {STAGES[update.stage]}"
    yield from _lines([(code, CODES.get(code, "")) for code in update.codes])
    yield from _lines(decision(update.decision))
    yield "\ndid"
    yield from _lines(did(update))


def _lines(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield from (f"  {name:<12} {value}".rstrip() for name, value in pairs)


def slots(view: View) -> Iterator[tuple[str, str]]:
    """Yield the six slots of a view, in their order."""
    contract, private = view.contract, view.private
    yield "goal", contract.goal
    yield "actions", ", ".join(contract.actions)
    for name, value in private.observation.items():
        yield name, value if isinstance(value, str) else msgspec.json.encode(value).decode()
    yield from (("evidence", _masses(evidence)) for evidence in private.evidence)
    if private.ready:
        yield "ready", ", ".join(private.ready)
    if private.coverage is not None:
        yield "coverage", str(private.coverage)
    yield from (("channel", _facts(p.channel, {"lot": p.lot, **p.facts})) for p in private.channels)
    yield from (("claim", _facts(row.claim, row.facts)) for row in private.claims)
    proposal = view.proposal
    yield "proposal", _joined(proposal.action, proposal.response, proposal.claim)
    yield from (("trace", f"{_masses(t)}, from {t.channel}, ttl {t.ttl}") for t in view.traces)
    held = view.commitment
    yield "commitment", "none" if held is None else _held(held.claim, held.confidence_bin)
    yield "budget", str(view.budget)


def _masses(record: Evidence | Trace) -> str:
    way = f", direction {record.direction}" if record.direction else ""
    return (
        f"{record.claim}: novelty {record.novelty}, support {record.support}, "
        f"conflict {record.conflict}{way}"
    )


def _facts(name: str, facts: Mapping[str, Fact]) -> str:
    listed = ", ".join(f"{key} {value}" for key, value in facts.items())
    return f"{name}: {listed}" if listed else name


def _joined(*parts: str | None) -> str:
    return ", ".join(part for part in parts if part is not None)


def _held(claim: str, confidence: int | None) -> str:
    return claim if confidence is None else f"{claim}, confidence {confidence}"


def said(raw: str | Decision) -> str:
    """Return a decode as it was emitted, on one line."""
    return repr(raw) if isinstance(raw, str) else encode_decision(raw).decode()


def decision(decision: Decision) -> Iterator[tuple[str, str]]:
    """Yield an admitted decision: action, deposits, commitment."""
    yield "action", _joined(decision.task_action, decision.response, decision.execution_intent)
    yield from (
        ("deposit", f"{_masses(t)}, to {t.channel}, ttl {t.ttl}") for t in decision.deposits
    )
    if decision.commit is not None:
        yield "commit", _held(decision.commit.claim, decision.commit.confidence_bin)


def did(update: UpdateRecord) -> Iterator[tuple[str, str]]:
    """Yield the effects of an update, in the substrate's own terms."""
    yield "mode", update.mode
    if update.bottom is not None:
        yield "cancelled", update.bottom
    if update.native is not None:
        yield "action", update.native
    yield from (("wrote", write_text(write)) for write in update.writes)
    if update.reopened is not None:
        yield "reopened", update.reopened
    yield "holds", "nothing" if update.claim is None else _held(update.claim, update.confidence)
    usage = update.usage
    if usage.calls:
        calls = "1 call" if usage.calls == 1 else f"{usage.calls} calls"
        yield "cost", f"{calls}, {usage.input_tokens} tokens read, {usage.output_tokens} written"
    if usage.failures:
        yield "failures", str(usage.failures)
