"""Runs: `stages` trains both stages of a seed, `factorial` all arms of several seeds.

`data` builds their data if it is missing. `tune` chooses the learning rate before a factorial;
`workers` runs the jobs of both in parallel. `agent_distillation` trains a peer method, with the
trainer of stage one.
"""
