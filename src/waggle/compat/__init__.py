"""Doors to other programs: servers and environments that speak their protocols."""
