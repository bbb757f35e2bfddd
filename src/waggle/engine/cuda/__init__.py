"""Speed on a GPU: fused kernels, CUDA graphs, and decoding that stays on the device.

Read `graphs` (captured passes and choices), `greedy_loop` (multi-step decoding with n-gram drafts),
`kernels` (which kernels are used, and their launches), `triton_kernels` (the kernels themselves),
and `selfcheck` (the reference results of each, checked when a backend is created).
"""
