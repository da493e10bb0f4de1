"""In a session with 64 bits (JAX_ENABLE_X64=1) every memory runs, and everything that it carries stays in 32."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SCRIPT = """
import jax, numpy as np
from hcam import memory
from tests.memory.cases import CONFIGS, WIDTH
from tests.memory.own_memory import Trace

jax.config.update("jax_numpy_dtype_promotion", "strict")
assert jax.numpy.ones(1).dtype == "float64"
configs = {name: CONFIGS[name] for name in ("hcam-overlap", "trxl-sparse", "lstm", "gru", "local")}
configs |= {"own": Trace(width=WIDTH), "numpy": memory.HCAM(width=np.int64(8), heads=np.int64(2), layers=1, chunk=4)}

def types(tree):
    return [leaf.dtype.name for leaf in jax.tree.leaves(tree)]

for name, config in configs.items():
    mem = memory.make(config)
    params = jax.jit(mem.init_params)(jax.random.key(0))
    assert set(types(params)) == {"float32"}, name
    empty = mem.init_state()
    assert set(types(empty)) <= {"float32", "int32"}, name
    x, first = np.ones((6, WIDTH), np.float32), np.arange(6) == 2
    state, y = jax.jit(mem.unroll)(params, empty, x, first)
    assert (y.dtype, types(state)) == ("float32", types(empty)), name
    for before in (state, jax.jit(mem.cached)(params, state)):
        after, y = jax.jit(mem.step)(params, before, x[0], False)
        assert (y.dtype, types(after)) == ("float32", types(before)), name
        assert np.isfinite(y).all(), name
    # An input in 64 bits is taken as well, and answered in kind.
    after, y = jax.eval_shape(mem.unroll, params, empty, x.astype(np.float64), first)
    assert (y.dtype, types(after)) == ("float64", types(empty)), name
    loss = lambda params: mem.unroll(params, empty, x, first)[1].sum()
    assert set(types(jax.eval_shape(jax.grad(loss), params))) == {"float32"}, name
print("all run")
"""


def test_every_memory_runs_in_a_session_with_64_bits():
    variables = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "all run"), done.stderr[-2000:]
