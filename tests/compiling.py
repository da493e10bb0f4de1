"""How a test compiles a program that runs long: with LLVM's polish, which tests/conftest.py leaves out elsewhere."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax

jit_polished: Callable[[Any], Any] = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 1})
