"""Diagnostics on held-out data: `law` runs all; `equivariance` and `probe` implement two."""
