"""One-Shot StreetLearn: section "Comparing to other memory papers" of the paper; the task is of Ritter et al. (2020).

hcam train streets                      # quickstart: small neighbourhoods and a small agent, for two CPU cores
hcam train streets --preset fast        # the published rules on one GPU, with one-hot observations
hcam train streets --preset paper       # the published settings, with street views
hcam reproduce streets trxl --seed 1    # one of the experiments below
"""

from dataclasses import replace
from typing import Any

from hcam.agent import AgentConfig
from hcam.agent.encoder import EncoderConfig
from hcam.agent.heads import HeadsConfig
from hcam.config import Config, RunConfig, TaskConfig
from hcam.envs.tasks.streets.levels import STEPS
from hcam.learning.learner import LearnerConfig
from hcam.learning.objectives import ObjectiveConfig
from hcam.learning.optimiser import OptimiserConfig
from hcam.recipes.recipe import Experiment, Recipe, Reported, Section, memory_of

TASK = "streets"
# "HCAM chunk size", "HCAM chunk overlap", "HCAM top-k", "training unroll length": appendix A.2, column "Streets"
CHUNK, OVERLAP, TOP_K, UNROLL = 4, 1, 32, 64
HELD_OUT = ("test",)
TO_BEGIN_WITH = ("small_train", "quick_train")


def slots(steps: int) -> int:
    """Chunks of a whole episode: a chunk begins with the last step of the one before."""
    return 1 + -(-steps // (CHUNK - OVERLAP))


def paper(memory: str) -> Config:
    """Appendix A.2, "Hyperparameters used in main experiments", column "Streets"; TransformerXL has weights of its own.

    What stands in one column for all tasks is the default of the configurations. The agent also sees its last action,
    of which the paper does not speak: what an action led to can only be remembered by one who knows the action.
    """
    own = {
        "hcam": {"chunk": CHUNK, "overlap": OVERLAP, "top_k": TOP_K, "slots": slots(STEPS)},
        "trxl": {"window": STEPS},
        "epn": {"items": STEPS, "iterations": 3},
        "none": {"window": CHUNK},
    }
    weights = (1.0, 1.0, 1.0) if memory == "trxl" else (1.0, 0.3, 0.3)
    return Config(
        task=TaskConfig(task=TASK, options={"observation": "pixels"}),
        agent=AgentConfig(encoder=EncoderConfig(vision="resnet", last_action=True), memory=memory_of(memory, {}, own)),
        learner=LearnerConfig(unroll=UNROLL),
        objective=ObjectiveConfig(policy=weights[0], baseline=weights[1], reconstruction=weights[2], entropy=1e-4),
        optimiser=OptimiserConfig(learning_rate=4e-4),
    )


def fast(memory: str) -> Config:
    """The published rules and the paper's agent, half as wide, with one-hot observations and settings for one GPU.

    A goal is some five steps away for one who knows the way: the horizon is twice that. The squared error of a one-hot
    vector is a mean over its 60 numbers, hence the larger weight of its reconstruction. An agent begins to recall where
    neighbourhoods are small and symbols few: the mixture has such levels, and a curriculum shares the steps. With an
    entropy weight of 0.01 a small agent stays with walks that need no memory, with 0.001 it does not
    (docs/log/2026-11-19-streets-small.md).
    """
    base = paper(memory)
    return replace(
        base,
        task=TaskConfig(task=TASK, levels=("train", *TO_BEGIN_WITH)),
        agent=replace(base.agent, memory=replace(base.agent.memory, width=256), heads=HeadsConfig(hidden=256)),
        learner=LearnerConfig(environments=1024, unroll=UNROLL, minibatches=16, curriculum=True),
        objective=ObjectiveConfig(
            discount=0.9, policy=1.0, baseline=0.5, entropy=0.001, reconstruction=5.0, reconstruct_every=4
        ),
        optimiser=OptimiserConfig(learning_rate=3e-4, schedule="linear", clip=0.3),
        run=RunConfig(steps=300_000_000, save_every=300.0),
    )


def quickstart(memory: str) -> Config:
    """Neighbourhoods of one junction and a small agent, for two CPU cores, which learns what the task's expert does.

    Local attention reaches 2 layers x (4 - 1) = 6 steps back; what led where before that, only the memory can know.
    From rewards alone, a small agent stays with walks that need no memory. So it learns the actions of the expert,
    which it can predict only where it remembers: an episode is long enough to see all of so small a neighbourhood, and
    to use it (docs/log/2026-11-19-streets-small.md).
    """
    own: dict[str, dict[str, Any]] = {
        "hcam": {"chunk": CHUNK, "overlap": OVERLAP, "slots": slots(STEPS), "top_k": 8},
        "trxl": {"window": STEPS},
        "epn": {"items": 64, "iterations": 2},
        "none": {"window": 1},  # the last few steps hold a part of so small a neighbourhood
    }
    sizes = {"width": 64, "layers": 2, "heads": 4, "mlp": 2}
    if memory == "epn":  # each of whose steps costs as much as all of an unroll
        sizes = {"width": 32, "heads": 2, "mlp": 1}
    return Config(
        task=TaskConfig(task=TASK, levels=("quick_train",), options={"neighbourhoods": 1024}),
        agent=AgentConfig(
            encoder=EncoderConfig(last_action=True),
            memory=memory_of(memory, sizes, own),
            heads=HeadsConfig(hidden=64),
        ),
        learner=LearnerConfig(environments=64, unroll=STEPS // 4, minibatches=16),
        objective=ObjectiveConfig(objective="cross_entropy", reconstruction=0.0),
        optimiser=OptimiserConfig(learning_rate=1e-3, schedule="linear"),
        run=RunConfig(steps=4_000_000, log_every=5.0, save_every=60.0),
    )


# Appendix "Detailed results", table "Numerical results from main experiments/figures", row "Streets": average reward of
# an episode, mean and standard deviation over runs, average over evaluations during the last 1 % of training. Its
# figure has 2 seeds. The split of the paper is not stated: its numbers stand beside our held-out cities.
EXPERIMENTS = (
    Experiment(
        "hcam",
        "HCAM",
        seeds=(0, 1),
        paper={"test": Reported(26.8, 0.44)},
        quote='HCAM is "comparable" to EPN, which "learns faster", and about twice as good as MERLIN.',
        evaluate=HELD_OUT,
    ),
    Experiment("trxl", "TransformerXL", "trxl", seeds=(0, 1), paper={"test": Reported(19.9, 0.65)}, evaluate=HELD_OUT),
    Experiment(
        "epn",
        "EPN",
        "epn",
        seeds=(0, 1),
        quote='EPN is "comparable" and "learns faster"; the paper has no number of it.',
        evaluate=HELD_OUT,
    ),
    Experiment(
        "none", "No memory", "none", quote="Not in the paper: a control that cannot remember.", evaluate=HELD_OUT
    ),
)

SECTIONS = (
    Section(
        "The published rules",
        "Neighbourhoods of five junctions and 200 steps. Trained in five cities, evaluated in two others.",
        tuple(experiment.name for experiment in EXPERIMENTS),
        ("train", *HELD_OUT),
        figure="memories",
        hardest="test",
    ),
)

READING = """\
* Scores are rewards per episode: goals that were collected. One who knows the map collects some 43, random actions 1.
* The paper's numbers are mean ± standard deviation over runs, each the average over evaluations in the last 1 % of
  training (appendix "Detailed results"). They are of Street View images of cities that were never released.
* The streets are those of seven other cities, and the observations of `--preset fast` are one-hot, as in the released
  environment (`docs/tasks/streets.md`). What is to be compared is the order of the memories, not the numbers. A script
  with perfect memory, which knows nothing of streets, earns 27.3 in the held-out cities.
* Training begins with two levels that the paper does not have: neighbourhoods of two junctions and of one. A curriculum
  samples levels in proportion to what is left to be learned in them (`docs/training.md`).
"""

RECIPE = Recipe(
    task=TASK,
    order=6,
    presets={"quickstart": quickstart, "fast": fast, "paper": paper},
    experiments=EXPERIMENTS,
    sections=SECTIONS,
    reading=READING,
    try_levels=("quick_test", "small_test"),
)
