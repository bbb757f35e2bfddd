"""Swarm-Consistent Distillation: losses, heads, trainer, checkpoints, probes (Section 4)."""
