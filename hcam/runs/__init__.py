"""What a run leaves and how it is read again: folder, checkpoints, progress, evaluation, trained agents."""
