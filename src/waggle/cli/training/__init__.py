"""Commands that train: `waggle corpus`, `train`, `tune`, `learn`, `fit`, `diagnose` and `law`.

Every command is in the module of its name. Read them in the order of a training: `corpus`, `tune`,
`train`, `diagnose`, `law`; then `learn` (from outcomes) and `fit` (learned peers). `common` is the
code that they share.
"""
