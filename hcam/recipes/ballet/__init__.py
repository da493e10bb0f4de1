"""Ballet: section "Remembering the ballet" of the paper.

hcam train ballet                       # quickstart: a small Ballet, minutes on two CPU cores
hcam train ballet --preset fast         # the paper's six levels on one GPU, ten minutes
hcam train ballet --preset paper        # the published settings
hcam reproduce ballet trxl --seed 1     # one of the experiments below
"""

from hcam.recipes.ballet.experiments import EXPERIMENTS, READING, SECTIONS
from hcam.recipes.ballet.presets import TASK, fast, paper, quickstart
from hcam.recipes.recipe import Recipe

__all__ = ["EXPERIMENTS", "READING", "RECIPE", "SECTIONS", "TASK", "fast", "paper", "quickstart"]

RECIPE = Recipe(
    task=TASK,
    order=1,
    presets={"quickstart": quickstart, "fast": fast, "paper": paper},
    experiments=EXPERIMENTS,
    sections=SECTIONS,
    reading=READING,
    try_levels=("2_delay16_of4", "3_delay5_of4"),
    places=(0, 0),  # before all other tasks
)
