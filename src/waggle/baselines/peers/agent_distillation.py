"""Agent Distillation (arXiv 2505.17612): a small model imitates a teacher's trajectories.

From the paper and the authors' code: a teacher produces trajectories of reasoning, actions and
observations, and successful ones are kept. The student is fine-tuned on the teacher's turns, with
observations masked; LoRA of rank 64 on all linear layers, two epochs, batches of eight, 2e-4. As in
the Waggle paper: one checkpoint for all nodes, one greedy call per update, no first-thought prefix,
no self-consistent actions, transient native messages, no field, quorum, commitment or reopening.
Our changes: an action is the project's decision record in its transient form, and the teacher is a
law; a rule-based teacher gives no reasoning, so none is learned. A turn is trained and generated
from the current observation alone: a view holds what its node remembers, and the paper's input per
call is one view. This module has the transient form, which teacher and student share; trajectories
and training are in `waggle.scd.run.agent_distillation`.
This is not an organiser: every node decides for itself, so it is a law like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from waggle.core.decode import parse
from waggle.core.protocols import Decode, Law, Request
from waggle.core.schema import Contract, Decision, private_decision
from waggle.laws.shipped import of_folder
from waggle.runtime.switches import Switches


class Transient:
    """A law without field, quorum, commitment or reopening: its messages live for one round.

    A decode that is not executable is not retried: the node keeps its private proposal.
    """

    name: ClassVar[str] = "agentdistill"

    def __init__(self, law: Law) -> None:
        self._law = law

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._law, name)

    def switches(self, contract: Contract) -> Switches:
        """Allow repeated messages, as in every transient exchange."""
        return Switches(repeats=True)

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Decide once for every request of one round."""
        first = [request for request in requests if not request.feedback]
        decodes = iter(self._law.decide(first) if first else ())
        return [
            Decode(private_decision(r.view)) if r.feedback else _transient(next(decodes))
            for r in requests
        ]


def _transient(decode: Decode) -> Decode:
    """Return a decode with messages that live for one round, and without a commitment."""
    said = decode.output if isinstance(decode.output, Decision) else parse(decode.output).decision
    return decode if said is None else Decode(transient(said), decode.usage)


def transient(decision: Decision) -> Decision:
    """Return a decision in its transient form: no commitment, no challenge, one round to live."""
    deposits = [msgspec.structs.replace(d, ttl=1) for d in decision.deposits if not d.conflict]
    intent = decision.execution_intent
    return Decision(
        decision.task_action,
        decision.response,
        tuple(deposits),
        None,
        None if intent == "FIELD" else intent,
    )


def agentdistill(folder: str, device: str = "auto", max_rows: int | None = None) -> Transient:
    """Imitate a teacher's trajectories, with messages that live one round (Agent Distillation).

    Args:
        folder: folder of the law written by `waggle fit agentdistill`.
        device: `auto`, `cpu` or `cuda`.
        max_rows: maximum batch size; further nodes wait. Default: 64 on a CPU, 512 on a GPU.
    """
    return Transient(of_folder(Path(folder), device=device, max_rows=max_rows))
