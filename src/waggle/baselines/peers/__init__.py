"""Methods of other papers for organising agents, on the same cases and in the same runtime.

Read `organiser` (the interface), `conductor` (which runs one and enforces the limits), then the
helpers `solvers`, `encoder`, `dag`, `training` and `nets`, then the module of each method; the
crews of ARG-Designer are in a separate module, `crews`. `METHODS` lists what tables must state of
each method: whether one designer sees all nodes, whether it is trained, and its sources.
"""

from __future__ import annotations

from typing import NamedTuple


class Method(NamedTuple):
    """The description of a peer in tables and in `waggle list methods`."""

    label: str
    source: str
    centralised: bool
    rests_on: str
    learner: str = ""
    """`module:class` of the trainer, or `module:function` for a law; empty if untrained."""


METHODS = {
    "agentdistill": Method(
        "Agent Distillation",
        "arXiv 2505.17612",
        False,
        "paper and released code",
        "waggle.scd.run.agent_distillation:distil",
    ),
    "agentnet": Method("AgentNet", "arXiv 2504.00587", False, "paper and released code"),
    "arg-designer": Method(
        "ARG-Designer",
        "arXiv 2507.18224",
        True,
        "paper and released code, whose sampler inverts links",
        "waggle.baselines.peers.arg_designer:Fit",
    ),
    "dmoa": Method(
        "DMoA",
        "arXiv 2605.15706",
        True,
        "reconstruction from digests",
        "waggle.baselines.peers.dmoa:Fit",
    ),
    "g-designer": Method(
        "G-Designer",
        "arXiv 2410.11782",
        True,
        "paper, not the released code, which differs from it",
        "waggle.baselines.peers.g_designer:Fit",
    ),
    "gptswarm": Method(
        "GPTSwarm",
        "arXiv 2402.16823",
        True,
        "paper and released code",
        "waggle.baselines.peers.gptswarm:Fit",
    ),
    "swarmsys": Method("SwarmSys", "arXiv 2510.10047", False, "reconstruction from digests"),
}
"""The peers, by law name."""
