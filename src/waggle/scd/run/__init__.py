"""Runs: stages, factorial arms, worker processes, tuning."""
