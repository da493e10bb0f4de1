"""The Memory&Planning Game, of Ritter et al. (2020): levels.py and episodes.py have the data, board.py a picture."""

from hcam.envs.tasks.planning.planning import Planning

TASK = Planning

__all__ = ["TASK", "Planning"]
