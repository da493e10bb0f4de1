"""Settings for every test: JAX at its strictest, on the CPU, and Hypothesis without a clock."""

import gc
import os
from importlib.metadata import version
from typing import Any

# Before jax is imported, and only a default: `JAX_PLATFORMS=cuda make test` runs the same tests on an accelerator.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

# Compiling is most of what tests do, and most programs run once: unpolished machine code saves a fifth of the time, and
# writing fused operations directly, instead of by way of MLIR, 40 % of the rest. XLA's own passes, which fuse and
# reorder what we wrote, are all there. A flag that XLA does not know would end the process, so it goes by the version.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0"
    + (" --xla_cpu_use_fusion_emitters=false" if tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 12) else ""),
)

import jax
import pytest
from hypothesis import settings

pytest_plugins = ["tests.browser"]  # fixtures for the tests that open a page

# Silent widening, silent broadcasting and a key used twice: so wrong numbers get past a test that checks shapes.
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_debug_key_reuse", True)

# No compiled program outlives the session, whatever the shell says about JAX's own cache: a test must see what the
# code compiles to today. Set HCAM_TEST_CACHE to a folder to trade that for speed while working on the tests.
jax.config.update("jax_compilation_cache_dir", os.environ.get("HCAM_TEST_CACHE"))

# The first example of a property compiles and the others do not, so a deadline would measure XLA. In CI the examples
# are the same in every run: a red build is then always about the change.
settings.register_profile("hcam", deadline=None, derandomize="CI" in os.environ, print_blob=True)
settings.load_profile("hcam")


@pytest.hookimpl(optionalhook=True)  # there is no such hook where xdist is not installed
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """One worker runs all tests of a folder: what they share is compiled and trained once, and not by each.

    Marks for groups would not do: xdist 3.8 writes them into a name of the test that pytest 9.2 does not read.
    """
    if config.getoption("dist") not in ("load", "loadgroup"):
        return None
    from xdist.scheduler.loadscope import LoadScopeScheduling

    class ByFolder(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return nodeid.partition("::")[0].rpartition("/")[0]

    return ByFolder(config, log)


def pytest_collection_finish() -> None:
    """Tracing makes many objects and leaves few: to look for garbage as often as usual takes a tenth longer."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
