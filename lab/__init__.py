"""Experiments of `LOG.md` that can be run again without a GPU: `table`, then the two that use it."""
