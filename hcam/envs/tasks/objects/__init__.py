"""Object permanence, the paper's second task: episodes.py has levels and episodes, room.py the view."""

from hcam.envs.tasks.objects.objects import VOCABULARY, Objects

TASK = Objects

__all__ = ["TASK", "VOCABULARY", "Objects"]
