"""A small evaluation recipe that names the shipped law."""

RECIPE = """
title = "A small run"
[methods.nano]
law = "nano"
[methods.expert]
law = "expert"
[[blocks]]
methods = ["expert"]
tasks = ["beacon"]
n = [4]
seeds = [10000, 10001]
"""
