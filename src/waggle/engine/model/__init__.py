"""The model: its forward pass and its KV caches, in plain torch for any device.

Read `config` (which architectures run, and their dimensions), `decoder` (the forward pass), `rope`
and `linear` (its parts; `int8` has the same products in quantised form), then `kv_cache` (the parts
common to all caches) with its two stores: `kv_shared` for CPUs, over `attention`, and `kv_rows`
for GPUs. Nothing here imports `cuda`: the backend passes fused kernels in.
"""
