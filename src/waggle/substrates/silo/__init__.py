"""Silo-Bench as a substrate: thirty distributed tasks over a hidden 3-regular contact graph."""
