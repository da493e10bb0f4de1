"""Passive visual match, of Hung et al. (2019): levels.py and episodes.py have the data, rooms.py the three rooms."""

from hcam.envs.tasks.match.match import Match

TASK = Match

__all__ = ["TASK", "Match"]
