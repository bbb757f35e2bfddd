"""Weights by name: catalogue, download, load. Knows nothing of the decoding engine."""
