"""Benchmarks: how fast the engine, its host side, training and whole episodes are on this machine.

Run from a checkout, by `waggle bench engine|train` or `python -m benchmarks.engine`; not part of
the installed package.
"""
