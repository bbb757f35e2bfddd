"""Conformance: do our worlds compute what the official releases recorded? `waggle check vectors`.

`swarmbench` replays recorded episodes, whose files `stored` reads; `silo` regenerates recorded
instances; `agentsnet` checks evaluators, parsers and graph files. The folder is part of a checkout,
as the recorded files are (`tests/golden`), and not of the installed package.
"""
