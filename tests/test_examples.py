"""Every example runs from start to end, as a user starts it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from examples.first_symbol import FirstSymbol

ROOT = Path(__file__).resolve().parents[1]
# Nobody waits for these numbers: compiling fast matters more than running fast. The settings of conftest.py do not
# reach another process, and optax is not written for strict dtypes.
SETTINGS = {
    "JAX_PLATFORMS": "cpu",
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "JAX_NUMPY_RANK_PROMOTION": "raise",
    "JAX_DEBUG_KEY_REUSE": "1",
    "MPLBACKEND": "agg",
}
STRICT = {"JAX_NUMPY_DTYPE_PROMOTION": "strict"}


def run(script, *options, **settings):
    """What the example prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / script, "--quick", *options],
        env=os.environ | SETTINGS | settings,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_bare_scan(tmp_path):
    printed = run("bare_scan.py", "--out", str(tmp_path / "new"), **STRICT)
    assert re.search(r"^hcam +[\d.]+% +12.5%$", printed, re.MULTILINE)
    assert re.search(r"^none +[\d.]+% +12.5%$", printed, re.MULTILINE)
    assert "the same answer as the unroll to 100.0% of 1024 queries" in printed
    picture = tmp_path / "new" / "recall.png"
    assert f"What the memory recalled: {picture}" in printed
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert re.search(r"equinox_agent.py --memory hcam$", printed.strip())


def test_things(tmp_path):
    assert run("things.py", "--out", str(tmp_path / "things.png"), **STRICT).endswith(": 36 things\n")
    assert (tmp_path / "things.png").read_bytes().startswith(b"\x89PNG")


def test_cities(tmp_path):
    printed = run("cities.py", "--out", str(tmp_path), **STRICT)
    assert re.search(r"^\| Liège \| 9,555 \| 12,297 \| 6,992 \|", printed, re.MULTILINE)
    assert re.search(r"^\| `quick_test` \(200 steps\) \| [\d.]+ ± [\d.]+ \|", printed, re.MULTILINE)
    assert (tmp_path / "cities.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_linen_agent():
    assert re.search(r"^memory hcam: success [\d.]+%, chance 12.5%$", run("linen_agent.py"), re.MULTILINE)


@pytest.mark.slow
def test_equinox_agent():
    printed = run("equinox_agent.py", "--memory", "hcam")
    assert re.search(r"^memory hcam: success [\d.]+%, chance 12.5%$", printed, re.MULTILINE)


def test_first_symbol():
    """Two episodes, the first answered rightly and the second wrongly."""
    env = FirstSymbol(symbols=4, blanks=2)
    key_reset, *keys = jax.random.split(jax.random.key(0), 9)
    obs, state = env.reset(key_reset)
    step, seen = jax.jit(env.step), []
    for time, key in enumerate(keys):
        seen.append(int(obs))
        answer = state.symbol if time < 4 else jnp.where(state.symbol == 0, 1, 0)
        obs, state, reward, done = step(key, state, answer)
        assert bool(done) == (time in (3, 7))
        assert float(reward) == (1.0 if time == 3 else 0.0)
    assert seen == [seen[0], 4, 4, 5, seen[4], 4, 4, 5]
    assert max(seen[0], seen[4]) < env.symbols


def test_perfect_memory():
    """It earns more than an agent without memory does, and needs fewer steps for later goals than for the first."""
    printed = run("perfect_memory.py", **STRICT)
    row = re.search(
        r"^\| planning `torus2` \| ([\d.]+) ± [\d.]+ \| ([\d.]+) \| [\d.]+ \| [\d.]+ \| ([\d.]+) \|$",
        printed,
        re.MULTILINE,
    )
    assert row
    earned, first, *_, tenth = map(float, row.groups())
    assert earned > 30
    assert tenth < first
    assert "| streets `quick_train` |" in printed
