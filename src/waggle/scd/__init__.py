"""Swarm-Consistent Distillation (Section 4): from a corpus to a law that ships.

Read `config` (recipes), `losses` (the equations) and `heads`, then the folders from the bottom up:
`data` (records, tokens, batches), `forward` (ragged batches through the backbone), `model` (the
student), `train` (the loop and its objective), `ship` (export), `diagnose` (held-out measurements)
and `run` (stages, factorial, search of rates). `files` writes files whole or not at all.
"""
