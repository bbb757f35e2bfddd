"""Diagnostics on held-out data: `law` has all of them; `equivariance` and `probe` measure two."""
