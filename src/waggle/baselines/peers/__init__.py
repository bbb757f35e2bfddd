"""Organisations of other papers on the same cases, in the same runtime.

Read `organiser` (the interface), `conductor` (how one is played and held to the limits), then the
helpers `solvers`, `encoder`, `dag`, `training` and `nets`, then one module for each method; the
crews of ARG-Designer have a module of their own, `crews`. `METHODS` says of each method what tables
must say: whether one designer sees everybody, whether it is trained, and what it rests on.
"""

from __future__ import annotations

from typing import NamedTuple


class Method(NamedTuple):
    """What a table and `waggle list methods` say of a peer."""

    label: str
    source: str
    centralised: bool
    rests_on: str
    learner: str = ""
    """`module:class` of its training (of a law's, the function); empty where there is none."""


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
"""The peers by the name of their law."""
