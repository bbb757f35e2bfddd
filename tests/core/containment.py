"""Whether some template of a view covers a decision: all of them are tried."""

from __future__ import annotations

from collections.abc import Sequence

from waggle.core.admit import is_typed
from waggle.core.decode import SURROGATE
from waggle.core.options import ActOption, Commit, Write
from waggle.core.schema import MAX_RESPONSE, Commitment, Decision, Trace, View
from waggle.core.templates import Template, Templates


def matches(template: Template, decision: Decision) -> bool:
    """Whether a decision has the shape of a template, with its bins in range."""
    return (
        _acts(template.act, decision)
        and _writes(template.write, template.channels, decision.deposits)
        and _commits(template.commit, decision.commit)
    )


def contains(view: View, decision: Decision) -> bool:
    """Whether some template of the view matches the decision."""
    found = Templates(view)
    return is_typed(decision) and any(matches(found[i], decision) for i in range(len(found)))


def _acts(act: ActOption, decision: Decision) -> bool:
    """Whether a decision acts that way."""
    response = decision.response
    if (decision.task_action, decision.execution_intent) != (act.action, act.intent):
        return False
    if act.free:
        return (
            response is not None
            and len(response) <= MAX_RESPONSE
            and SURROGATE.search(response) is None
        )
    return response == act.response


def _writes(write: Write | None, targets: Sequence[str], deposits: Sequence[Trace]) -> bool:
    """Whether deposits are one write to these channels."""
    if write is None or not deposits:
        return write is None and not deposits
    contents = {(d.claim, d.novelty, d.support, d.conflict, d.ttl, d.direction) for d in deposits}
    return (
        _in_write(write, deposits[0])
        and tuple(d.channel for d in deposits) == targets
        and len(contents) == 1
    )


def _commits(option: Commit | None, commit: Commitment | None) -> bool:
    """Whether a commitment is of that kind."""
    if option is None or commit is None:
        return option is None and commit is None
    bins = option.confidence
    return commit.claim == option.claim and bins.low <= commit.confidence_bin <= bins.high


def _in_write(write: Write, deposit: Trace) -> bool:
    """Whether a deposit is an instance of a write."""
    return (
        (deposit.claim, deposit.direction) == (write.claim, write.direction)
        and write.novelty.low <= deposit.novelty <= write.novelty.high
        and write.support.low <= deposit.support <= write.support.high
        and write.conflict.low <= deposit.conflict <= write.conflict.high
        and write.ttl.low <= deposit.ttl <= write.ttl.high
    )
