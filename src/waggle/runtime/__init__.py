"""The fixed runtime: everything in an episode except the law and the world.

Reading order: `switches` and `perturb` (settings), `state` (fields, nodes, the swarm), `names`,
`draws` and `views` (the input of a law), `repair` (checks and repairs its output), `commitment`,
`transport`; `sync` (the synchronous engine) and `eventdriven` (the engine in virtual time);
`recorder`, `records`, `live` and `replay` (writing, reading and replaying records). `worlds` checks
what a world has and returns, `staff` calls private workers, `watchdog` interrupts a law that hangs,
`attacks` and `defence` implement Byzantine nodes and the defences against them.
"""
