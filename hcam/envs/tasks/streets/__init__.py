"""One-Shot StreetLearn, of Ritter et al. (2020), on the streets of seven cities: streets.py has the rules."""

from hcam.envs.tasks.streets.streets import Streets

TASK = Streets

__all__ = ["TASK", "Streets"]
