"""Silo: the thirty Silo-Bench tasks, whose input is spread in shards over a hidden contact graph.

Reading order: `task` (what a task is), `level_i` to `level_iii` (the thirty), `cases` (instances
and contact graphs), `scoring`, `proposals` (what a node can answer now), `world` (one episode as a
`World`), `adapter` (the registered substrate). Beside them: `ceilings` (ideal schedules). Recorded
instances are checked by `conformance` of a checkout.
"""
