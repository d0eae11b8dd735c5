"""Losses, optimizer, update, checkpoints and the training loop."""
