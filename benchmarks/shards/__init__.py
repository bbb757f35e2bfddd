"""One swarm in shards: equal records, killed actors, traffic, consensus, and GPU throughput.

    python -m benchmarks.shards same               # worlds x laws x perturbations x shards on Ray
    python -m benchmarks.shards faults --runs 20   # kill -9 of a random actor at a random moment
    python -m benchmarks.shards traffic            # by graph, partition and number of shards
    python -m benchmarks.shards cuts               # contacts between shards, against N
    python -m benchmarks.shards consensus          # rounds until all agree, against N
    python -m benchmarks.shards throughput --law nano --shards 12 --pool 4   # on a GPU machine
    python -m benchmarks.shards cost               # GPU hours of N agents, extrapolated

`same` and `faults` need Ray. The others do not: `episodes` plays all shards in this process or, for
a law with weights, every shard and every copy of the law in a separate process (`processes`).
Episodes are those of `beacon` on development seeds, unless a module states otherwise.
"""
