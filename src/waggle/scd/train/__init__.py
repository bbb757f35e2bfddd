"""The training loop; read `trainer` and `objective` first.

`optimizer` takes steps, `checkpoint` saves and restores, `distributed` adds processes and
`launch` starts them, `cuda_graph` replays updates on a GPU, and `trackers` log the metrics.
"""
