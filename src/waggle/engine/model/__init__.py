"""The model: its forward pass and its KV caches, in plain torch for any device.

Read `config` (which architectures run, and their dimensions), `decoder` (the forward pass), `rope`
and `linear` (its parts; `int8` has the same products in rounded numbers), then `kv_cache` (what
caches have in common) with its two stores: `kv_shared` for CPUs, over `attention`, and `kv_rows`
for GPUs. Nothing here imports `cuda`: fused kernels are handed in by the backend.
"""
