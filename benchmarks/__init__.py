"""Benchmarks: one file per question about speed on this machine, run by `waggle bench`.

`commands` has the options of every benchmark. `runtime` measures the cost of everything but the
law, `versions` compares that with another checkout, `silo` measures an episode, `swarmbench` the
speed of the world, `shards` one swarm over many processes, `view` how fast the viewer opens and
plays. For decoding, read `workload` first
(prompts and models that the others share), `shapes` (random models of known shapes), then `engine`
(decisions per second next to `generate`) with `rivals` (other libraries), `host` (the host's work
alone), `play` (whole episodes) and `train` (a training update). The folder is part of a checkout,
not of the installed package.
"""
