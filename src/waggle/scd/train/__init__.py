"""The training loop: `trainer` and `objective` first.

`optimizer` steps, `checkpoint` saves and restores, `distributed` adds processes and
`launch` starts them, `cuda_graph` replays updates on a GPU, and `trackers` takes the metrics.
"""
