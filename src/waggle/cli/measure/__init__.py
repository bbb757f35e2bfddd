"""Commands that measure: `waggle eval`, `report`, `archive`, `check`, `bound` and `bench`.

Read `evaluate` first: it has the first three. Every other command is in the module of its name.
"""
