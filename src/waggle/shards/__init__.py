"""One swarm over many processes or machines: shards of its nodes, played in lockstep.

Reading order: `partition` (the shard of every node), `division` (the configuration shared by all
shards), `kept` (sealed states on disk), `shard` (the synchronous engine over some of the nodes),
`coordinator` (rounds, and recovery of lost shards), `inline` (all shards in this process),
`cluster` (every shard a Ray actor) and `law_pool` (laws with weights, as actors that batch across
shards). The record is that of the synchronous engine, byte for byte, for any number of shards.
"""
