"""One update: rollout, objectives, optimiser, curriculum; `learner.py` puts them together."""
