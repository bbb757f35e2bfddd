"""The official SwarmBench grid world, bit-compatible with the release.

Reading order: `config` (tasks, actions, sizes), `levels` (generation from a seed), `physics`
(pushing), `rules` (the five tasks and their scores), `world` (one running episode). Recorded
episodes are replayed by `conformance` in a source checkout.
"""
