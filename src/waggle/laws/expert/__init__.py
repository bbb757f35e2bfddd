"""The rule-based teacher: one module of rules per substrate.

`law` dispatches on the contract's task. `silo`, `swarmbench` and `agentsnet` are the rules of their
substrates; `generic` serves every other task.
"""
