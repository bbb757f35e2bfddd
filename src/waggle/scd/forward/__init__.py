"""Forward passes over ragged batches: `ragged`, `run`, `attention`, then what makes them fast.

`ragged` lays sequences out in one row, `attention` keeps them apart, `run` returns losses and
states. `prefix_tree` computes shared beginnings once, `varlen` calls flash attention, and `fused`
replaces modules by faster ones.
"""
