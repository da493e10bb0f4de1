"""Paired associative inference, of Banino et al. (2020): levels.py and episodes.py have data, stimuli.py the items."""

from hcam.envs.tasks.pai.pai import PairedInference

TASK = PairedInference

__all__ = ["TASK", "PairedInference"]
