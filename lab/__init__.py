"""Experiments of `LOG.md` that need no GPU: `table`, and the two games that it plays."""
