"""Conformance: do our worlds compute what the official releases recorded? `waggle check vectors`.

`swarmbench` replays recorded episodes, whose files `stored` reads and in which agents see what
`observations` gives them. `silo` regenerates recorded instances, and `agentsnet` checks evaluators,
parsers and graph files. The folder is part of a checkout, as the files in `tests/golden` are,
and not of the installed package.
"""
