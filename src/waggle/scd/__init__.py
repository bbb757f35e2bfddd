"""Swarm-Consistent Distillation (Section 4): from a corpus to a deployable law.

Read `config` (recipes), `losses` (the equations) and `heads`, then the rest in dependency order:
`data` (records, tokens, batches), `forward` (ragged batches through the backbone), `model` (the
student), `train` (the loop and its objective), `ship` (export), `diagnose` (held-out measurements)
and `run` (stages, factorial, learning-rate search). `files` writes files atomically.
"""
