"""Silo: the thirty Silo-Bench tasks, whose input is spread in shards over a hidden contact graph.

Reading order: `task` (what a task is), `level_i` to `level_iii` (the thirty tasks), `cases`
(instances and contact graphs), `scoring`, `proposals` (what a node can answer), `world` (one
episode as a `World`), `adapter` (the registered substrate). Also: `ceilings` (ideal schedules).
Recorded instances are checked by `conformance` in a source checkout.
"""
