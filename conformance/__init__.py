"""Conformance: do our worlds compute what the official releases recorded? `waggle check vectors`.

`swarmbench` replays recorded episodes, whose files `stored` reads and in which agents see what
`observations` gives them. `silo` regenerates recorded instances, and `agentsnet` checks evaluators,
parsers and graph files; `report` counts what they find. The folder is part of a checkout, as the
recorded files in `tests/golden` are, and not of the installed package.
"""
