"""Training: pairs become checkpoints; losses, stages, trainer, page generator."""
