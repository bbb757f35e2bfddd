"""The task contract q of the five tasks: one text for every node, without N, sizes or scores."""

from __future__ import annotations

from waggle.core.schema import WAIT, Contract
from waggle.substrates.swarmbench.agent.compass import ACTION_NAMES

_SHARED = (
    " You see the cells around you: Y is you, A and a are others, W is wall, * is outside. "
    "The proposal is your own best move. Intent PRIVATE takes the action; FIELD walks towards "
    "the claim you hold or were told of; leaving it out follows a held commitment if there is one."
)

CONTRACTS: dict[str, Contract] = {
    task: Contract(f"swarmbench/{task}", goal + _SHARED, (*actions, WAIT), broadcast=True)
    for task, goal, actions in (
        (
            "pursuit",
            "Surround the prey P on all four sides, again and again. It flees from crowds.",
            ACTION_NAMES,
        ),
        (
            "foraging",
            "Carry food from its source F to the nest N; standing next to them is enough. "
            "A carries food, a does not.",
            ACTION_NAMES,
        ),
        (
            "synchronization",
            "All lights on, then all lights off, in turn; A is a light that is on, a one that is "
            "off. SWITCH flips your own.",
            (*ACTION_NAMES, "SWITCH"),
        ),
        (
            "flocking",
            "Together form the outline of a square, one agent per cell of the outline.",
            ACTION_NAMES,
        ),
        (
            "transport",
            "The box B plugs the exit. Several must push it together: first along the wall "
            "towards the corner, then outward. Then leave the map.",
            ACTION_NAMES,
        ),
    )
}
