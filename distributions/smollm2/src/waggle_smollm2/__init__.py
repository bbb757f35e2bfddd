"""The law `smollm2` for waggle: an adapter on SmolLM2-135M.

    pip install waggle-swarm-smollm2
    waggle models fetch smollm2-135m-instruct
    waggle run silo/III-26 -n 16 --law smollm2

The entry point of this package is all that waggle knows of it: a packed law of your own ships the
same way. The model card is the README.md beside this file.
"""

from pathlib import Path

from waggle.laws.shipped import Shipped

law = Shipped("smollm2", "An adapter on SmolLM2-135M; meant for a GPU.", Path(__file__).parent)
