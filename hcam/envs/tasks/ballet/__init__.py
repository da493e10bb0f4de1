"""Ballet, the paper's first task: choreography.py has levels and episodes, stage.py the pixels."""

from hcam.envs.tasks.ballet.ballet import VOCABULARY, Ballet

TASK = Ballet

__all__ = ["TASK", "VOCABULARY", "Ballet"]
