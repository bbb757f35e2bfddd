"""Experiments described in `LOG.md` that need no GPU: `table` and the two games it plays."""
