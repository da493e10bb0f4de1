"""Settings for any task, in particular for one without a recipe: a small agent that a CPU trains in minutes."""

from hcam.agent import AgentConfig
from hcam.agent.encoder import EncoderConfig
from hcam.agent.heads import HeadsConfig
from hcam.config import Config, RunConfig, TaskConfig
from hcam.envs.environment import Environment
from hcam.learning.learner import LearnerConfig
from hcam.learning.objectives import ObjectiveConfig
from hcam.learning.optimiser import OptimiserConfig
from hcam.recipes.recipe import memory_of

CHUNK = 16
MAX_SLOTS = 64


def general(task: TaskConfig, env: Environment, memory: str) -> Config:
    """As many chunks as the longest episode fills, where the environment says how long that is."""
    lengths = [env.max_steps_in_episode(level) for level in task.level_names(env)]
    longest = max((length for length in lengths if length), default=0)
    slots = min(MAX_SLOTS, max(4, -(-longest // CHUNK))) if longest else MAX_SLOTS // 2
    sizes = {"width": 64, "layers": 2, "heads": 4, "mlp": 2}
    own = {
        "hcam": {"chunk": CHUNK, "slots": slots, "top_k": min(4, slots)},
        "trxl": {"window": 4 * CHUNK},
        "epn": {"items": 4 * CHUNK},
        "none": {"window": CHUNK},
    }
    return Config(
        task=task,
        agent=AgentConfig(
            encoder=EncoderConfig(vision="cnn", language=32, word=16),
            memory=memory_of(memory, sizes, own),
            heads=HeadsConfig(hidden=64),
        ),
        learner=LearnerConfig(environments=64, unroll=32, minibatches=4),
        objective=ObjectiveConfig(discount=0.95, policy=1.0, baseline=0.5, entropy=0.01, reconstruction=1.0),
        optimiser=OptimiserConfig(learning_rate=1e-3, schedule="linear"),
        run=RunConfig(steps=5_000_000, save_every=60.0),
    )
