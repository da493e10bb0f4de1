"""Rapid word learning with distractors, the paper's third task: levels.py, episodes.py, room.py, and policies.py."""

from hcam.envs.tasks.words.words import VOCABULARY, Words

TASK = Words

__all__ = ["TASK", "VOCABULARY", "Words"]
