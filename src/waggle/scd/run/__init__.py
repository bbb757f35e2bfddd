"""Runs: `stages` trains both stages of a seed, `factorial` all arms of several seeds.

`data` makes what they read where it is missing. `tune` chooses the learning rate before a
factorial; `workers` runs the jobs of both side by side. `agent_distillation` is the training of a
peer, with the trainer of stage one.
"""
