"""Rapid word learning: section "Rapid word learning with distractor tasks & generalization across episodes".

hcam train words                       # quickstart: a small room, three objects and words, for two CPU cores
hcam train words --preset fast         # 0, 1 and 2 distractors on one GPU
hcam train words --preset paper        # the published settings
hcam reproduce words trxl --seed 1     # one of the experiments below
"""

from dataclasses import replace

from hcam.agent import AgentConfig
from hcam.agent.encoder import EncoderConfig
from hcam.agent.heads import HeadsConfig
from hcam.config import Config, RunConfig, TaskConfig
from hcam.envs.tasks.words.levels import EASY_LEVELS, HELD_OUT_LEVELS, TRAINING_LEVELS, Level
from hcam.learning.learner import LearnerConfig
from hcam.learning.objectives import ObjectiveConfig
from hcam.learning.optimiser import OptimiserConfig
from hcam.recipes.recipe import Experiment, Recipe, Reported, Section, memory_of

TASK = "words"
CHUNK, UNROLL, EXTRA = 16, 128, 256  # "HCAM chunk size", "training unroll length", "TrXL extra length", appendix A.2
LONGEST = Level().max_steps
KEPT = 640  # steps that `fast` remembers
BRIGHTNESS = 0.45  # the mean of all pixels


def paper(memory: str) -> Config:
    """Appendix A.2, "Hyperparameters used in main experiments": TrXL has its own column, all others have HCAM's.

    What stands in one column for all tasks is the default of the configurations.
    """
    own = {
        "hcam": {"chunk": CHUNK, "overlap": 0, "top_k": 16, "slots": 1 + -(-LONGEST // CHUNK)},
        "trxl": {"window": EXTRA + UNROLL},
        "none": {"window": CHUNK},
    }
    weights = {"policy": 0.1, "baseline": 1.0, "reconstruction": 1.0}
    return Config(
        task=TaskConfig(task=TASK),
        agent=AgentConfig(encoder=EncoderConfig(vision="resnet"), memory=memory_of(memory, {}, own)),
        learner=LearnerConfig(unroll=UNROLL),
        objective=ObjectiveConfig(
            **(weights if memory == "trxl" else dict.fromkeys(weights, 0.3)),  # type: ignore[arg-type]
            entropy=1e-4,
        ),
        optimiser=OptimiserConfig(learning_rate=2e-4),
    )


def fast(memory: str) -> Config:
    """The paper's task and agent, half as wide, with settings for one GPU: many environments, many minibatches.

    An agent that finds its way needs 40 to 70 steps for an episode of training and some 320 for the longest that are
    evaluated: 40 chunks of 16 steps hold twice as many. An object is some 15 steps away, and so is the horizon. Images
    are half as wide and high as the paper's, since the encoder would take most of the time. An agent begins to recall
    where all is within reach, and to walk where every step that leads nearer pays: the mixture has such levels, and the
    curriculum leaves them when they are mastered. Both need their settings. An agent walks only if the reconstruction
    of sentences does not drown what it sees, and it began to recall only where entropy kept it choosing among objects
    whose names it did not know yet (docs/log/2026-11-20-words-reconstruction.md).
    """
    base = paper(memory)
    own = {"hcam": {"slots": KEPT // CHUNK}}
    return replace(
        base,
        task=TaskConfig(
            task=TASK,
            levels=(*TRAINING_LEVELS, *EASY_LEVELS),
            weights=(1.0, 1.0, 1.0, 2.0, 3.0),
            options={"width": 48, "height": 36},
        ),
        agent=replace(
            base.agent,
            encoder=replace(base.agent.encoder, center=BRIGHTNESS),
            memory=replace(base.agent.memory, width=256, **own.get(memory, {})),
            heads=HeadsConfig(hidden=256),
        ),
        learner=LearnerConfig(environments=1024, unroll=UNROLL, minibatches=16, curriculum=True),
        objective=ObjectiveConfig(
            discount=0.95,
            lambda_=0.9,
            policy=1.0,
            baseline=0.5,
            entropy=0.01,
            reconstruction=2.0,
            reconstruct_every=8,
        ),
        optimiser=OptimiserConfig(learning_rate=3e-4, schedule="linear", clip=0.3),
        run=RunConfig(steps=400_000_000, save_every=300.0),
    )


def quickstart(memory: str) -> Config:
    """A small room and a small agent, for two CPU cores: all objects in view and within reach, an image of 32 x 24.

    Local attention reaches 2 layers x (2 - 1) = 2 frames back, and between the last name and the test two distractors
    are lifted, which takes 3 frames at least: only the memory can know what was called how.
    """
    own = {
        "hcam": {"chunk": 4, "slots": 30, "top_k": 4, "window": 2},
        "trxl": {"window": 96},
        "none": {"window": 2},
    }
    return Config(
        task=TaskConfig(task=TASK, levels=("quick_distractors2",), options={"width": 32, "height": 24}),
        agent=AgentConfig(
            encoder=EncoderConfig(
                vision="cnn", channels=(16,), kernel_sizes=(4,), strides=(4,), blocks=(1,), language=32, word=16
            ),
            memory=memory_of(memory, {"width": 64, "layers": 2, "heads": 4, "mlp": 2}, own),
            heads=HeadsConfig(hidden=64),
        ),
        learner=LearnerConfig(environments=64, unroll=32, minibatches=16),
        objective=ObjectiveConfig(
            discount=0.95, policy=1.0, baseline=0.5, entropy=0.01, reconstruction=5.0, reconstruct_every=2
        ),
        optimiser=OptimiserConfig(learning_rate=1e-3, schedule="linear"),
        run=RunConfig(steps=4_000_000, log_every=5.0, save_every=60.0),
    )


# Numbers: appendix "Detailed results", table "Numerical results from main experiments/figures": mean and standard
# deviation over 3 runs, average over evaluations during the last 1 % of training. The levels of training are a figure.
MAIN, OLDER = HELD_OUT_LEVELS[:3], HELD_OUT_LEVELS[3:]


def _reported(*numbers: tuple[float, float]) -> dict[str, Reported]:
    return {level: Reported(*number) for level, number in zip(MAIN, numbers, strict=True)}


EXPERIMENTS = (
    Experiment(
        "hcam",
        "HCAM",
        seeds=(0, 1, 2),
        paper=_reported((93.0, 4.0), (82.8, 6.4), (71.1, 8.0)),
        quote='"HCAM and TrXL could learn the training tasks equally well", but HCAM extrapolates "better to tasks '
        'with 10 distractor phases" and shows "some extrapolation to 20 distractors"; it "is able to generalize well '
        'to recalling words four episodes later".',
        evaluate=HELD_OUT_LEVELS,
    ),
    Experiment(
        "trxl",
        "Gated TransformerXL",
        "trxl",
        seeds=(0, 1, 2),
        paper=_reported((76.7, 12.5), (49.3, 16.5), (48.7, 13.2)),
        quote='"Even though TrXL could not choose the correct objects, it was consistently reaching the end and '
        'choosing some object for a chance at the final reward."',
        evaluate=HELD_OUT_LEVELS,
    ),
    Experiment(
        "lstm",
        "LSTM",
        "lstm",
        paper=_reported((21.0, 18.3), (19.8, 17.4), (22.9, 20.1)),
        quote='"The LSTM-based agents often timed out on these multi-episode evaluations": below chance.',
        evaluate=HELD_OUT_LEVELS,
    ),
)

_memories = ("hcam", "trxl", "lstm")
SECTIONS = (
    Section(
        "Trained on up to 2 distractors",
        "All learn the same mixture of levels: no distractor, one or two between learning and test, and two "
        "easier levels to begin with.",
        _memories,
        TRAINING_LEVELS,
        figure="training",
        hardest="distractors2",
    ),
    Section(
        "Longer episodes, and several in one",
        "Never trained on. In the levels with several episodes, the last test asks for a word of the first one.",
        _memories,
        (*MAIN, *OLDER),
        figure="held-out",
        hardest="episodes2_distractors5",
    ),
)

READING = """\
* The paper's numbers are mean ± standard deviation over 3 runs, each the average over evaluations in the last 1 % of
  training (appendix "Detailed results"). It prints none for the levels of training and for those of its appendix (20
  distractors, 4 episodes with 1, 3 with 5), whose figure was made with a longer local attention window.
* Success is the final test alone, and an episode whose time is up counts as failed: a share below 1/3 says that an
  agent does not get to the test.
* The task is a reconstruction, seen through a ray caster: `docs/tasks/words.md` has every choice that the paper leaves
  open. One second is 4 steps.
* The settings are those of `--preset fast`: the paper's task and agent, narrower, with settings for one GPU
  (`hcam/recipes/words.py`), the same for every memory. Images have half of the published width and height. Training
  begins with two levels that the paper does not have. In `near_distractors0` all objects are in view and within reach;
  in `guided_distractors0` every step pays that leads nearer to an object without a name, or to the one that is asked
  for. No other level has such rewards. A curriculum samples levels in proportion to the variance of their outcome
  (`docs/training.md`). Evaluations play every level equally often.
"""

RECIPE = Recipe(
    task=TASK,
    order=3,
    presets={"quickstart": quickstart, "fast": fast, "paper": paper},
    experiments=EXPERIMENTS,
    sections=SECTIONS,
    reading=READING,
    try_levels=("quick_distractors5", "quick_distractors10"),
)
