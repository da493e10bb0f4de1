"""`hcam bench memory`: what recalling costs, against the released formulation and against full attention."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hcam import __version__, memory
from hcam.benchmarks.measure import Cost, Failed, compare, compile_all, device_name
from hcam.benchmarks.released import released_read
from hcam.memory import checks
from hcam.memory.layers import linear
from hcam.memory.types import Array, Params
from hcam.memory.window import split_heads

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The shape of one measurement."""

    batch: int  # environments learned from at once
    actors: int  # environments acting at once
    unroll: int  # queries per environment in learning
    width: int
    heads: int
    chunk: int
    top_k: int
    layers: int = 4  # of the whole memory, in acting
    dtype: str = "float32"

    def __post_init__(self) -> None:
        checks.positive(**{name: value for name, value in asdict(self).items() if name != "dtype"})
        checks.heads_divide(self.width, self.heads)
        checks.even_width(self.width, "position codes")
        checks.choice(checks.DTYPES, dtype=self.dtype)


ACCELERATOR = Sizes(batch=32, actors=32, unroll=64, width=512, heads=8, chunk=32, top_k=8, dtype="bfloat16")
CPU = Sizes(batch=1, actors=1, unroll=64, width=128, heads=4, chunk=32, top_k=8)
PAPER = {  # name: (chunks, sizes) of the two settings in which the read was first timed
    "18 chunks of 32, k 8, unroll 64": (18, {"unroll": 64, "chunk": 32, "top_k": 8}),
    "24 chunks of 16, k 16, unroll 128": (24, {"unroll": 128, "chunk": 16, "top_k": 16}),
}


class History(NamedTuple):
    """A past to recall from, of B environments."""

    query_bqd: Array
    summary_bmd: Array
    content_bmcd: Array
    target_bqd: Array  # what the output should be: the gradient then waits for the output, as in training


def sizes_here() -> Sizes:
    return CPU if jax.default_backend() == "cpu" else ACCELERATOR


def run(
    sizes: Sizes, lengths: tuple[int, ...], rounds: int, say: Callable[[str], None] = lambda line: None
) -> dict[str, Any]:
    """All measurements, as plain numbers."""
    checks.positive(rounds=rounds)
    short = [length for length in lengths if length < sizes.top_k * sizes.chunk]
    if short or not lengths:
        raise ValueError(
            f"every length must hold top-k chunks, {sizes.top_k * sizes.chunk} steps, but lengths are {lengths}."
        )
    results: dict[str, Any] = {
        "device": device_name(),
        "jax": jax.__version__,
        "hcam": __version__,
        "sizes": asdict(sizes),
        "rounds": rounds,
        "paper": [],
        "read": [],
        "act": [],
    }
    for name, (slots, change) in PAPER.items():
        say(f"read at the paper's shapes: {name}")
        results["paper"].append({"name": name, **measure_read(Sizes(**(asdict(sizes) | change)), slots, rounds)})
    for length in lengths:
        say(f"read, history {length:,}")
        results["read"].append({"length": length, **measure_read(sizes, length // sizes.chunk, rounds)})
    for length in lengths:
        say(f"act, history {length:,}")
        results["act"].append({"length": length, **measure_acting(sizes, length, rounds)})
    return results


def draw_history(key: Array, sizes: Sizes, slots: int) -> History:
    key_query, key_content, key_target = jax.random.split(key, 3)
    draw = partial(jax.random.normal, dtype=sizes.dtype)
    content = draw(key_content, (sizes.batch, slots, sizes.chunk, sizes.width))
    queries = (sizes.batch, sizes.unroll, sizes.width)
    return History(draw(key_query, queries), content.mean(2), content, draw(key_target, queries))


def full_attention(params: Params, history: History, heads: int, implementation: str | None) -> Array:
    """Every query over every step of the same history, with the same inner projections."""
    content_bnd = history.content_bmcd.reshape(history.content_bmcd.shape[0], -1, history.content_bmcd.shape[-1])
    content_bnd = jax.lax.stop_gradient(content_bnd)
    query, key, value = (
        split_heads(linear(params[name], x), heads)
        for name, x in (("query", history.query_bqd), ("key", content_bnd), ("value", content_bnd))
    )
    answer = jax.nn.dot_product_attention(query, key, value, implementation=implementation)  # type: ignore[arg-type]
    return linear(params["out"], answer.reshape(history.query_bqd.shape))


def read_variants(sizes: Sizes) -> dict[str, Callable[[Params, History], Array]]:
    def hcam(params: Params, history: History, form: str) -> Array:
        output = memory.read(params, *history[:3], k=sizes.top_k, heads=sizes.heads, form=form)
        assert isinstance(output, jax.Array)
        return output

    def released(params: Params, history: History, keep_dtype: bool) -> Array:
        output = released_read(params, *history[:3], k=sizes.top_k, heads=sizes.heads, keep_dtype=keep_dtype)
        return output.astype(sizes.dtype)

    full = partial(full_attention, heads=sizes.heads)
    variants: dict[str, Callable[[Params, History], Array]] = {
        "dense": partial(hcam, form="dense"),
        "gather": partial(hcam, form="gather"),
        "released": partial(released, keep_dtype=False),
        "full": partial(full, implementation=None),
    }
    if sizes.dtype == "bfloat16":
        variants["released_bf16"] = partial(released, keep_dtype=True)
        if jax.default_backend() == "gpu":
            variants["full_flash"] = partial(full, implementation="cudnn")
    return variants


def measure_read(sizes: Sizes, slots: int, rounds: int) -> dict[str, Any]:
    """Forward, and forward with backward, of every variant; and how far ours is from the released one."""
    key_params, key_history = jax.random.split(jax.random.key(slots))
    params = memory.init_read(key_params, sizes.width, sizes.width, sizes.width)
    history = draw_history(key_history, sizes, slots)

    def with_gradient(variant: Callable[[Params, History], Array]) -> Callable[[Params, History], Any]:
        def loss(params: Params, query_bqd: Array, history: History) -> Array:
            output = variant(params, history._replace(query_bqd=query_bqd))
            return jnp.square(output - history.target_bqd).astype(jnp.float32).mean()

        return lambda params, history: jax.value_and_grad(loss, (0, 1))(params, history.query_bqd, history)

    variants = read_variants(sizes)
    forward = compile_all(variants, params, history)
    both = compile_all({name: with_gradient(variant) for name, variant in variants.items()}, params, history)
    chosen = memory.choose_form(sizes.unroll, slots, min(sizes.top_k, slots))
    return {
        "slots": slots,
        "chosen": chosen,
        "difference": _difference(forward[chosen], forward["released"], params, history),
        "forward": _plain(compare(forward, params, history, rounds=rounds)),
        "both": _plain(compare(both, params, history, rounds=rounds)),
    }


def _difference(ours: Any, theirs: Any, params: Params, history: History) -> float | None:
    if isinstance(ours, Failed) or isinstance(theirs, Failed):
        return None
    a, b = (f(params, history).astype(jnp.float32) for f in (ours, theirs))
    return float(jnp.linalg.norm(a - b) / jnp.linalg.norm(b))


def measure_acting(sizes: Sizes, length: int, rounds: int, steps: int = 32) -> dict[str, Any]:
    """Seconds per acting step of a whole memory that is `length` steps old, all its slots full."""
    slots = length // sizes.chunk
    shape: dict[str, Any] = {name: getattr(sizes, name) for name in ("width", "heads", "layers")}
    chunks = memory.HCAM(**shape, chunk=sizes.chunk, slots=slots, top_k=min(sizes.top_k, slots))
    hcam = memory.make(chunks, dtype=sizes.dtype)
    trxl = memory.make(memory.TrXL(**shape, window=length), dtype=sizes.dtype)
    cases = {"hcam": (hcam, False), "hcam_cached": (hcam, True), "full": (trxl, False)}
    results: dict[str, Cost | Failed] = {}
    for name, (mem, use_cache) in cases.items():
        key_params, key_state, key_x = jax.random.split(jax.random.key(length), 3)
        params = mem.init_params(key_params)
        state = jax.jit(partial(_lived_through, mem, sizes, length, use_cache))(params, key_state)
        x_tbd = jax.random.normal(key_x, (steps, sizes.actors, sizes.width))
        results[name] = _time_acting(mem, params, state, x_tbd, rounds)
        del state  # the next one needs the room
    return _plain(results)


def _lived_through(mem: memory.Memory, sizes: Sizes, length: int, use_cache: bool, params: Params, key: Array) -> Any:
    """A batch of states that look as if `length` steps had been taken."""
    state = jax.vmap(lambda _: mem.init_state())(jnp.arange(sizes.actors))
    state = state._replace(clock=jnp.full_like(state.clock, length))

    def fill(key: Array, leaf: Array) -> Array:
        return jax.random.normal(key, leaf.shape, leaf.dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    leaves, structure = jax.tree.flatten(state)
    state = jax.tree.unflatten(structure, list(map(fill, jax.random.split(key, len(leaves)), leaves)))
    return jax.vmap(partial(mem.cached, params))(state) if use_cache else state


def _time_acting(mem: memory.Memory, params: Params, state: Any, x_tbd: Array, rounds: int) -> Cost | Failed:
    """The state is given away to each call and taken back, as an actor does: it is never copied."""

    def act(state: Any, params: Params, x_tbd: Array) -> Any:
        first_b = jnp.zeros(x_tbd.shape[1], bool)

        def body(state: Any, x_bd: Array) -> Any:
            return jax.vmap(mem.step, in_axes=(None, 0, 0, 0))(params, state, x_bd, first_b)

        return jax.lax.scan(body, state, x_tbd)

    compiled = jax.jit(act, donate_argnums=0).lower(state, params, x_tbd).compile()
    held = [state]

    def once(params: Params, x_tbd: Array) -> Array:
        held[0], y_tbd = compiled(held[0], params, x_tbd)
        assert isinstance(y_tbd, jax.Array)
        return y_tbd

    once.memory_analysis = compiled.memory_analysis  # type: ignore[attr-defined]
    cost = compare({"act": once}, params, x_tbd, rounds=rounds)["act"]
    return cost._replace(seconds=cost.seconds / x_tbd.shape[0]) if isinstance(cost, Cost) else cost


def _plain(costs: dict[str, Cost | Failed]) -> dict[str, Any]:
    return {name: cost._asdict() for name, cost in costs.items()}
