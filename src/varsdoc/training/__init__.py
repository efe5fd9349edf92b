"""Pairs -> checkpoints: losses, data, trainer, stages."""
