"""The Memory&Planning Game, of Ritter et al. (2020): a small test of planning with what is remembered.

hcam train planning                       # quickstart: a 2 x 2 torus, minutes on two CPU cores
hcam train planning --preset fast         # the published 4 x 4 torus on one GPU
hcam eval runs/planning-hcam-1 --goals runs/planning-hcam-1    # steps per goal over the course of an episode
hcam reproduce planning epn --seed 1      # one of the experiments below

HCAM's paper does not use this task, so there are no published settings and no numbers of the paper.
"""

from hcam.agent import AgentConfig
from hcam.agent.encoder import EncoderConfig
from hcam.agent.heads import HeadsConfig
from hcam.config import Config, RunConfig, TaskConfig
from hcam.envs.tasks.planning.levels import PAPER_LEVELS, STEPS
from hcam.learning.learner import LearnerConfig
from hcam.learning.objectives import ObjectiveConfig
from hcam.learning.optimiser import OptimiserConfig
from hcam.recipes.recipe import Experiment, Recipe, Section, memory_of

TASK = "planning"
# A transition is (state, action, next state): the agent sees its last action, and chunks overlap by one step, so that
# every transition is whole in one of them.
CHUNK, OVERLAP = 4, 1
SLOTS = -(-STEPS // (CHUNK - OVERLAP))
SEES = EncoderConfig(last_action=True)


def fast(memory: str) -> Config:
    """The published torus, for one GPU: rewards alone, many environments. No image or text: nothing to reconstruct."""
    own = {
        "hcam": {"chunk": CHUNK, "overlap": OVERLAP, "slots": SLOTS, "top_k": 16},
        "trxl": {"window": STEPS},
        "epn": {"items": STEPS, "iterations": 3},
        "none": {"window": CHUNK},
    }
    return Config(
        task=TaskConfig(task=TASK, levels=PAPER_LEVELS),
        agent=AgentConfig(
            encoder=SEES,
            memory=memory_of(memory, {"width": 128, "layers": 3, "heads": 4, "mlp": 2}, own),
            heads=HeadsConfig(hidden=128),
        ),
        learner=LearnerConfig(environments=512, unroll=50, minibatches=32),
        objective=ObjectiveConfig(discount=0.95, policy=1.0, baseline=0.5, entropy=0.01, reconstruction=0.0),
        optimiser=OptimiserConfig(learning_rate=3e-4, schedule="linear", clip=0.5),
        run=RunConfig(steps=200_000_000, save_every=300.0),
    )


def quickstart(memory: str) -> Config:
    """A torus of 2 x 2 cells and a small agent, for two CPU cores, which learns to do what the task's expert does.

    The expert knows the torus, the agent does not: it can agree with the expert only where it remembers. From rewards
    alone, a small agent first learns to walk in circles that visit every cell, which needs no memory, and stays there
    for millions of steps. Minibatches are small: the number of gradient steps decides when an agent begins to recall
    (docs/log/2026-11-18-planning-quickstart.md).
    """
    own = {
        "hcam": {"chunk": CHUNK, "overlap": OVERLAP, "slots": SLOTS, "top_k": 8},
        "trxl": {"window": STEPS},
        "epn": {"items": 24, "iterations": 2},
        "none": {"window": 1},  # the last few steps hold most of so small a torus
    }
    sizes = {"width": 64, "layers": 2, "heads": 4, "mlp": 2}
    if memory == "epn":  # each of whose steps costs as much as all of an unroll
        sizes = {"width": 32, "heads": 2, "mlp": 1}
    return Config(
        task=TaskConfig(task=TASK, levels=("torus2",), options={"symbols": 4}),
        agent=AgentConfig(encoder=SEES, memory=memory_of(memory, sizes, own), heads=HeadsConfig(hidden=64)),
        learner=LearnerConfig(environments=64, unroll=25, minibatches=16),
        objective=ObjectiveConfig(objective="cross_entropy", reconstruction=0.0),
        optimiser=OptimiserConfig(learning_rate=1e-3, schedule="linear"),
        run=RunConfig(steps=1_000_000, log_every=5.0, save_every=60.0),
    )


EXPERIMENTS = (
    Experiment("hcam", "HCAM", seeds=(0, 1)),
    Experiment("trxl", "TransformerXL", "trxl", seeds=(0, 1)),
    Experiment("epn", "Episodic Planning Network", "epn", seeds=(0, 1)),
    Experiment("none", "No memory", "none"),
)

SECTIONS = (
    Section(
        "The published torus",
        "100 steps on 4 x 4 cells whose symbols are new in every episode. An agent that knows the torus earns 32, and "
        "one that walks in circles through all cells, which needs no memory, 11.",
        ("hcam", "trxl", "epn", "none"),
        PAPER_LEVELS,
        figure="memories",
        columns=1,
        hardest=PAPER_LEVELS[0],
    ),
)

READING = """\
* The task is of Ritter et al. (2020), "Rapid task-solving in novel environments", and is not in HCAM's paper: there is
  no number to compare with but the oracle's, the task's own expert, which knows the torus and takes shortest ways.
* The settings are those of `--preset fast` (`hcam/recipes/planning.py`).
"""

RECIPE = Recipe(
    task=TASK,
    order=7,
    presets={"quickstart": quickstart, "fast": fast},
    experiments=EXPERIMENTS,
    sections=SECTIONS,
    reading=READING,
    try_levels=("torus2_steps200",),
    places=(120, 220),  # at last
)
