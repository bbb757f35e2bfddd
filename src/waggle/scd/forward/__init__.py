"""Forward passes over ragged batches; read `ragged`, `run` and `attention` first.

`ragged` lays sequences out in one row, `attention` keeps them separate, `run` returns losses and
states. `prefix_tree` computes shared prefixes once, `varlen` calls flash attention, and `fused`
replaces modules by faster ones.
"""
