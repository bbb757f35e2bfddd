"""Conformance: do our worlds compute what the official releases recorded? `waggle check vectors`.

`swarmbench` replays recorded episodes; `stored` defines their files, and `observations` builds what
agents observe in them. `silo` regenerates recorded instances, and `agentsnet` checks evaluators,
parsers and graph files; `report` counts the outcomes. Like the recorded files in `tests/golden`,
the folder is part of a checkout and not of the installed package.
"""
