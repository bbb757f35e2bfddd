"""`python -m benchmarks.shards COMMAND`."""

from __future__ import annotations

from cyclopts import App

import benchmarks.shards
from benchmarks.shards.cost import cost
from benchmarks.shards.faults import faults
from benchmarks.shards.graphs import consensus, cuts, traffic
from benchmarks.shards.same import same
from benchmarks.shards.throughput import throughput

app = App(name="benchmarks.shards", help=benchmarks.shards.__doc__)
for command in (same, faults, traffic, cuts, consensus, throughput, cost):
    app.command(command)

if __name__ == "__main__":
    app()
