"""The training loop: trainer, objective, optimizer, checkpoints."""
