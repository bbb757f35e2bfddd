"""Worlds and their adapters; each turns one benchmark into bounded anonymous local views.

Read `beacon` first: the teaching substrate in one file, on the graphs of `beacon_graphs`. Then
`silo`, `swarmbench` and `agentsnet`, one folder for each benchmark.
"""
