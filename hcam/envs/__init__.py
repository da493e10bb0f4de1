"""Tasks that need a memory, as pure JAX environments: `make("ballet")`. The contract is in docs/environments.md."""

from hcam.envs.ballet import Ballet
from hcam.envs.environment import Environment
from hcam.envs.probes import PROBES

TASKS: dict[str, type[Environment]] = {"ballet": Ballet, **PROBES}


def make(task: str, **options: object) -> Environment:
    """An environment by name; options are its fields, such as `make("ballet", tile=3)`."""
    if task not in TASKS:
        raise ValueError(f"there is no task {task!r}: choose from {', '.join(TASKS)}.")
    return TASKS[task](**options)


__all__ = ["TASKS", "Ballet", "Environment", "make"]
