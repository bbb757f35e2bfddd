"""Diagnostics of a trained law on held-out data."""
