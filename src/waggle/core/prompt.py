"""The prompt of all nodes ("Anonymous controller prompt").

All nodes share the instruction; native action names and the serialized view are appended
mechanically. A user turn is `prefix(contract) + tail(view)`, and the prefix is the same text for
every node and round of an episode, so its computation can be shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from waggle.core.admit import CODES
from waggle.core.canon import contract_head, encode_view
from waggle.core.schema import MAX_BIN, MAX_RESPONSE, MAX_TTL, Contract, View

INSTRUCTION = (
    "You are one anonymous member of a changing local network. Use only the private proposal, "
    "private evidence, current commitment, and semantic traces on incident channels. Return one "
    "canonical JSON decision. Continue useful private work unless local evidence justifies a "
    "deposit, relay, challenge, or commitment. Treat repeated support as local evidence rather "
    "than global consensus. Fresh verified conflict may reopen a commitment. Do not infer an "
    "identity, role, roster, population size, or global transcript."
)
"""The instruction of the paper, word for word."""

SCHEMA = (
    'Schema: {"task_action":string,"response":string|null,"deposits":[{"channel","claim",'
    '"novelty","support","conflict","ttl","direction"?}],"commit":{"claim","confidence_bin"}|null,'
    '"execution_intent"?:"PRIVATE"|"FIELD"|"WAIT"}. '
    f"Novelty, support, conflict and confidence_bin are 0 to {MAX_BIN}, ttl is 1 to {MAX_TTL}, "
    f"a response has at most {MAX_RESPONSE} characters. Leave out direction and execution_intent "
    "where they do not apply."
)
"""The JSON schema of a decision and its bounds, in words."""

MAX_PREVIOUS = 2_000
"""Maximum characters of a failed decode that a regeneration quotes."""


def system() -> str:
    """Return the system turn, the same for every node of every task."""
    return f"{INSTRUCTION}\n{SCHEMA}"


@lru_cache(maxsize=256)
def prefix(contract: Contract) -> str:
    """Return the part of the user turn that all nodes of an episode share."""
    deposits = contract.deposits
    lines = [
        f"Task actions: {', '.join(contract.actions)}.",
        f"At most {deposits} deposit{'' if deposits == 1 else 's'} in one decision.",
    ]
    if contract.broadcast:
        lines.append('The channel "*" reaches every contact.')
    if contract.response is not None:
        lines.append(f"Only {contract.response} carries a response.")
    head = contract_head(contract).decode()
    return " ".join(lines) + "\nView: " + head


def tail(view: View) -> str:
    """Return the rest of the user turn: the view without its contract."""
    return encode_view(view)[len(contract_head(view.contract)) :].decode()


def messages(view: View, feedback: Sequence[str] = (), previous: str = "") -> list[dict[str, str]]:
    """Return the chat messages of one call of the law.

    Args:
        view: the local view, with its rows in the order that the law sees.
        feedback: validator codes of a failed first decode; empty on the first attempt.
        previous: that decode; at most MAX_PREVIOUS characters are quoted.
    """
    turns = [
        {"role": "system", "content": system()},
        {"role": "user", "content": prefix(view.contract) + tail(view)},
    ]
    if feedback:
        turns.append({"role": "assistant", "content": previous[:MAX_PREVIOUS]})
        turns.append({"role": "user", "content": correction(feedback)})
    return turns


def correction(feedback: Sequence[str]) -> str:
    """Return the request to decide again, with the rules that were broken."""
    rules = " ".join(f"{code}: {CODES.get(code, 'The record is admissible.')}" for code in feedback)
    return f"That record was not admitted. {rules} Return one canonical JSON decision."
