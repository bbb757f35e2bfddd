"""The fixed runtime: everything around a law's decision that is not the world.

Reading order: `switches` and `perturb` (settings), `state` (fields, nodes, the swarm), `names`,
`draws` and `views` (what a law sees), `admission` (what of its answer is executed), `commitment`,
`transport`; `sync` (the synchronous engine) and `eventdriven` (the one in virtual time);
`recorder`, `records`, `live` and `replay` (what is written down, and playing it again). `staff`
asks private workers, `watchdog` stops a law that hangs, `attacks` and `defence` are Byzantine nodes
and what helps against them.
"""
