"""Trains on 1 and on 8 emulated devices and writes what came of it: `python -m tests.learning.spread OUT CASE ...`.

In a process of its own, because the number of devices is decided before JAX begins.
"""

import os
import sys
from pathlib import Path
from typing import Any

FLAGS = "--xla_backend_optimization_level=0 --xla_force_host_platform_device_count=8"

SIZES = ["first_symbol", "--levels", "blanks2", "blanks1", "--schedule", "constant", "--unroll", "6", "--hidden", "8"]
SIZES += ["--environments", "16", "--minibatches", "2", "--width", "8", "--layers", "1"]
HCAM = ["--mlp", "1", "--heads", "2", "--chunk", "2", "--slots", "2", "--top-k", "1", "--window", "2"]
CASES = {
    "lstm": ["--memory", "lstm", "--curriculum"],
    "hcam": ["--memory", "hcam", "--curriculum", *HCAM],
    "trxl": ["--memory", "trxl", "--mlp", "1", "--heads", "2", "--window", "4"],
    "whole": ["--memory", "lstm", "--minibatches", "1", "--epochs", "2"],
    "seeds": ["--memory", "lstm", "--curriculum", "--seeds", "2"],
    "supervised": ["--memory", "lstm", "--objective", "cross_entropy"],
}
UPDATES = 4


def update_on(learner: Any, config: Any) -> tuple[Any, Any]:
    """A new state, and the program of an update, on the devices of a learner."""
    import jax
    import jax.numpy as jnp

    from hcam.learning.devices import EVERYWHERE
    from hcam.training import compiled

    every_seed = jax.vmap(lambda seed: learner.init(jax.random.key(seed)))
    init = jax.jit(learner.devices.spread(every_seed, config.learner.minibatches, given=EVERYWHERE))
    state_s = init(jnp.arange(config.run.seeds, dtype=jnp.int32))
    return state_s, compiled(config, learner, state_s)


class Run:
    """A run on so many devices, and what its updates have reported."""

    def __init__(self, case: str, count: int) -> None:
        from hcam.cli.train import parse
        from hcam.learning.devices import Devices
        from hcam.training import make_learner

        config = parse([*SIZES, *CASES[case]]).config
        learner = make_learner(config, devices=Devices(count))
        self.devices, self.minibatches, self.told = learner.devices, config.learner.minibatches, list[Any]()
        self.state_s, self.program = update_on(learner, config)

    def update(self) -> None:
        import jax

        self.state_s, metrics_s = self.program(self.state_s)
        self.told.append(jax.device_get(metrics_s))

    def whole(self) -> Any:
        return self.devices.whole(self.state_s)

    def go_on_from(self, whole_s: Any) -> None:
        self.state_s = self.devices.place(whole_s, self.minibatches)


def as_arrays(run: Run) -> dict[str, Any]:
    """Every array of the state, and of what each update reported; and how often the program sums over devices."""
    import jax
    import numpy as np

    whole_s = run.whole()
    tree = {"state": whole_s._replace(key=jax.random.key_data(whole_s.key)), "told": run.told}
    found = {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}
    text = run.program.as_text()
    return found | {"collectives": np.array([text.count(f" {name}(") for name in ("all-reduce", "all-gather")])}


def main(out: Path, cases: list[str]) -> None:
    import jax
    import numpy as np

    for case in cases:
        one, eight = Run(case, 1), Run(case, 8)
        for run in (one, eight):
            for _ in range(UPDATES):
                run.update()
            np.savez(out / f"{case}-{run.devices.count}.npz", **as_arrays(run))
        saved_by_one, saved_by_eight = (jax.tree.map(lambda leaf: leaf.copy(), run.whole()) for run in (one, eight))
        one.go_on_from(saved_by_eight)
        eight.go_on_from(saved_by_one)
        for run in (one, eight):
            run.update()
            np.savez(out / f"{case}-{run.devices.count}-crossed.npz", **as_arrays(run))


if __name__ == "__main__":
    os.environ["XLA_FLAGS"], os.environ["JAX_PLATFORMS"] = FLAGS, "cpu"
    main(Path(sys.argv[1]), sys.argv[2:])
