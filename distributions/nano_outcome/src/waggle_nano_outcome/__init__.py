"""The law `nano-outcome` for waggle: nano, trained on AgentsNet from outcomes.

    pip install waggle-swarm-nano-outcome
    waggle run agentsnet/leader_election -n 8 --law nano-outcome

It began as nano, which imitates the expert of other tasks, and then learned AgentsNet's five tasks
without a teacher (`waggle learn`). The model card is the README.md beside this file.
"""

from pathlib import Path

from waggle.laws.shipped import Shipped

law = Shipped(
    "nano-outcome", "nano, after learning AgentsNet from outcomes.", Path(__file__).parent
)
