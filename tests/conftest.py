"""Settings for every test: JAX at its strictest, on the CPU, and Hypothesis without a clock."""

import gc
import os
from importlib.metadata import version
from pathlib import Path

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


ROOT = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker runs all tests of a folder, where no mark says otherwise: what they share is compiled by it alone."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.parent.relative_to(ROOT).as_posix()))


def pytest_collection_finish() -> None:
    """Tracing makes many objects and leaves few: to look for garbage as often as usual takes a tenth longer."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
