"""What makes a GPU fast: fused kernels, CUDA graphs, and decoding that stays on the device.

Read `graphs` (captured passes and choices), `greedy_loop` (multi-step decoding with n-gram drafts),
`kernels` (which kernels are used, and their launches), `triton_kernels` (the kernels themselves),
and `selfcheck` (what each must compute, tried when a backend is made).
"""
