"""One swarm over many processes or machines: shards of its nodes, played in step.

Reading order: `partition` (which shard a node goes to), `division` (what all shards agree on),
`kept` (states on disk, sealed), `shard` (the synchronous engine over some of the nodes),
`coordinator` (rounds, what happens when a shard is lost), `inline` (all shards in this process),
`cluster` (every shard an actor of Ray) and `law_pool` (laws with weights, as actors that batch
across shards). The record is that of the synchronous engine, byte for byte, whatever the number of
shards.
"""
