"""Task contracts of AgentsNet-RP and the words of their answers (paper App. "Frozen Transfer …").

A legal task action *is* an official answer: the five vocabularies below map one to one onto the
strings of the official evaluator, with a partner's handle in place of its name. Contract texts
say what is asked and nothing about how many nodes there are or which rule solves it; the number
of groups is stated because AgentsNet states it.
"""

from __future__ import annotations

from waggle.core.schema import CHANNEL_ARGUMENT, WAIT, Contract
from waggle.substrates.agentsnet.tasks import group_names

MATCH = "MATCH"
"""Verb of a matching answer; its argument is the partner's handle."""
ALONE = "NONE"
"""The matching answer without a partner."""

_GOALS = {
    "coloring": "Choose a group that none of your contacts chooses.",
    "consensus": "Give the same value as everyone else.",
    "leader_election": "Exactly one may answer Yes: the leader; all others answer No.",
    "matching": "Name the contact you pair with, who must name you; answer NONE only if no contact "
    "is left without a partner.",
    "vertex_cover": "Yes makes you a coordinator. Every link needs a coordinator at one of its "
    "ends, and no coordinator may be dispensable.",
}
_ROUNDS = (
    " Your action of each update is your answer so far; the last one counts. A deposit of your own "
    "claim tells a contact that answer; a deposit of another claim passes it on."
)
_PRIORITY = " Claims stand for private priorities; smaller priorities may break ties."


def answers(task: str, groups: int) -> tuple[str, ...]:
    """Return the task actions that are answers, in official order."""
    match task:
        case "coloring":
            return group_names(groups)
        case "consensus":
            return ("0", "1")
        case "matching":
            return (f"{MATCH}:{CHANNEL_ARGUMENT}", ALONE)
        case _:
            return ("Yes", "No")


def contract(task: str, groups: int, priority: bool) -> Contract:
    """Return the contract that all nodes of an episode share."""
    return Contract(
        task=f"agentsnet/{task}",
        goal=_GOALS[task] + _ROUNDS + (_PRIORITY if priority else ""),
        actions=(*answers(task, groups), WAIT),
        deposits=1,
        broadcast=True,
    )
