"""The names of the substrates, laws and metrics in this package, each with its target.

One line here registers a name; `waggle.plugins` adds the names of other packages. Invariant:
targets are strings, so that listing them imports nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["substrate", "law", "metric"]
"""The three extension points."""

BUILT_IN: Mapping[Kind, Mapping[str, str]] = {
    "substrate": {
        "agentsnet": "waggle.substrates.agentsnet.adapter:AgentsNet",
        "beacon": "waggle.substrates.beacon:Beacon",
        "silo": "waggle.substrates.silo.adapter:Silo",
        "swarmbench": "waggle.substrates.swarmbench.adapter:SwarmBench",
    },
    "law": {
        "adapted": "waggle.laws.local:adapted",
        "agentdistill": "waggle.baselines.peers.agent_distillation:agentdistill",
        "agentnet": "waggle.baselines.peers.agentnet:agentnet",
        "arg-designer": "waggle.baselines.peers.arg_designer:arg_designer",
        "chat": "waggle.laws.chat:ChatLaw",
        "constant": "waggle.laws.controls:Constant",
        "dmoa": "waggle.baselines.peers.dmoa:dmoa",
        "expert": "waggle.laws.expert.law:Expert",
        "fixedswarm": "waggle.baselines.matched:FixedSwarm",
        "first-listed": "waggle.laws.ports:FirstListed",
        "g-designer": "waggle.baselines.peers.g_designer:g_designer",
        "gptswarm": "waggle.baselines.peers.gptswarm:gptswarm",
        "heuristic": "waggle.laws.heuristic:Heuristic",
        "local": "waggle.laws.local:LocalLaw",
        "max-offer": "waggle.laws.ports:MaxOffer",
        "nano": "waggle.laws.shipped:nano",
        "nativemsg": "waggle.baselines.matched:NativeMsg",
        "nocomm": "waggle.baselines.matched:NoComm",
        "organised": "waggle.baselines.peers.conductor:organised",
        "private-only": "waggle.laws.controls:PrivateOnly",
        "random-legal": "waggle.laws.controls:RandomLegal",
        "random-port": "waggle.laws.ports:RandomPort",
        "relay": "waggle.laws.relay:Relay",
        "round-robin": "waggle.laws.ports:RoundRobin",
        "scripted": "waggle.laws.controls:Scripted",
        "swarmsys": "waggle.baselines.peers.swarmsys:swarmsys",
        "zero-shot": "waggle.laws.local:zero_shot",
        "zero-shot-constrained": "waggle.laws.local:zero_shot_constrained",
    },
    "metric": {
        "attempted": "waggle.evaluate.metrics:attempted",
        "bytes": "waggle.evaluate.metrics:volume",
        "calls": "waggle.evaluate.metrics:calls",
        "candidates": "waggle.evaluate.metrics:candidates",
        "decay_mass": "waggle.evaluate.metrics:decay_mass",
        "event_recovery": "waggle.evaluate.reorganization:event_recovery",
        "executable": "waggle.evaluate.metrics:executable",
        "executed": "waggle.evaluate.metrics:executed",
        "expiries": "waggle.evaluate.metrics:expiries",
        "explore": "waggle.evaluate.metrics:explore",
        "half_latency": "waggle.evaluate.reorganization:half_latency",
        "input_tokens": "waggle.evaluate.metrics:input_tokens",
        "messages": "waggle.evaluate.metrics:messages",
        "outcome_recovery": "waggle.evaluate.reorganization:outcome_recovery",
        "output_tokens": "waggle.evaluate.metrics:output_tokens",
        "post_messages": "waggle.evaluate.reorganization:post_messages",
        "readiness_to_commit": "waggle.evaluate.metrics:readiness_to_commit",
        "recovery": "waggle.evaluate.reorganization:recovery",
        "recruitment": "waggle.evaluate.metrics:recruitment",
        "reopenings": "waggle.evaluate.metrics:reopenings",
        "resynthesis_latency": "waggle.evaluate.reorganization:resynthesis_latency",
        "score": "waggle.evaluate.metrics:score",
        "stale_auc": "waggle.evaluate.reorganization:stale_auc",
        "strict": "waggle.evaluate.metrics:strict",
    },
}
"""Names of every kind, each with its `module:attribute`."""

ELSEWHERE: Mapping[str, str] = {
    "nano-outcome": "waggle-swarm-nano-outcome", "smollm2": "waggle-swarm-smollm2",
}  # fmt: skip
"""Laws of the project that are separate distributions, with the name to install."""
