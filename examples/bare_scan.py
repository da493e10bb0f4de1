"""A memory in plain JAX: train it to recall, act with it step by step, and look at what it recalls.

An episode shows a few key-value pairs at scattered early steps (B is 3, F is 0), then a long stretch of noise, and at
the very end asks for the value of each key. Attention over the last few steps cannot know: the pairs are long gone.
HCAM has stored the past in chunks; it finds the chunk that matters and looks inside.

    python examples/bare_scan.py    (under a minute on two cores; draws runs/demo/recall.png)
"""

import argparse
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hcam import memory

STEPS, EARLY, PAIRS = 96, 32, 4  # the pairs are shown somewhere in the first 32 steps, the last 4 ask for them
KEYS, VALUES, NOISE = 8, 8, 16  # how many symbols of each kind; a symbol is a number, in this order
ASK = KEYS + VALUES + NOISE  # the question mark

# Both see the last 8 steps, and between a pair and its query lie 60 or more. HCAM recalls 2 chunks of 8 steps as well.
NONE = memory.Local(width=64, layers=1, heads=2, window=8)
HCAM = memory.HCAM(width=64, layers=1, heads=2, window=8, chunk=8, slots=16, top_k=2, form="dense")


class Episode(NamedTuple):
    symbol_t2: jax.Array  # each step shows two symbols: key and value, noise and noise, or key and question mark
    answer_q: jax.Array  # the value that each query asks for
    shown_q: jax.Array  # the step that showed it


def draw_episode(key: jax.Array) -> Episode:
    key_keys, key_values, key_when, key_order, key_noise = jax.random.split(key, 5)
    key_p = jax.random.permutation(key_keys, KEYS)[:PAIRS]
    value_p = jax.random.randint(key_values, (PAIRS,), 0, VALUES)
    when_p = jax.random.permutation(key_when, EARLY)[:PAIRS]
    order_q = jax.random.permutation(key_order, PAIRS)
    symbol_t2 = jax.random.randint(key_noise, (STEPS, 2), KEYS + VALUES, ASK)
    symbol_t2 = symbol_t2.at[when_p].set(jnp.stack([key_p, KEYS + value_p], axis=-1))
    symbol_t2 = symbol_t2.at[-PAIRS:].set(jnp.stack([key_p[order_q], jnp.full(PAIRS, ASK)], axis=-1))
    return Episode(symbol_t2, value_p[order_q], when_p[order_q])


# Symbols are random codes that stay as they are: no gradient flows into a memory, so a query could not teach an
# embedding how to store its answer. (An agent's encoder learns beside the memory: in the paper, by reconstructing.)
CODE_SD = jax.random.normal(jax.random.key(0), (ASK + 1, HCAM.width))
FIRST_T = jnp.arange(STEPS) == 0  # an episode starts at step 0, before which there is nothing to remember


def learn(mem: memory.Memory, params: Any, episode: Episode) -> tuple[jax.Array, memory.Recall]:
    """Scores of every value for every query [Q, V], by one unroll over the whole episode; and what it attended to."""
    x_td = CODE_SD[episode.symbol_t2].sum(1)
    _, y_td, recall = mem.unroll(params["memory"], mem.init_state(), x_td, FIRST_T, recall=True)
    return y_td[-PAIRS:] @ params["out"], recall


def act(mem: memory.Memory, params: Any, episode: Episode) -> jax.Array:
    """The same scores as an agent gets them: step by step, in a scan over a state that keeps its keys and values."""
    x_td = CODE_SD[episode.symbol_t2].sum(1)
    state = mem.cached(params["memory"], mem.init_state())
    _, y_td = jax.lax.scan(lambda state, now: mem.step(params["memory"], state, *now), state, (x_td, FIRST_T))
    return y_td[-PAIRS:] @ params["out"]


def loss(params: Any, mem: memory.Memory, episodes: Episode) -> tuple[jax.Array, jax.Array]:
    """Cross-entropy of the answers, and how many are right. Only the query steps count."""
    score_bqv, _ = jax.vmap(partial(learn, mem, params))(episodes)
    log_right_bq1 = jnp.take_along_axis(jax.nn.log_softmax(score_bqv), episodes.answer_q[..., None], axis=-1)
    return -log_right_bq1.mean(), (score_bqv.argmax(-1) == episodes.answer_q).mean()


class Learner(NamedTuple):
    params: Any
    mean: Any  # Adam's running mean of the gradient
    square: Any  # and of its square
    updates: jax.Array


def update(mem: memory.Memory, learner: Learner, key: jax.Array) -> tuple[Learner, tuple[jax.Array, jax.Array]]:
    """Adam, on 32 new episodes."""
    episodes = jax.vmap(draw_episode)(jax.random.split(key, 32))
    report, grads = jax.value_and_grad(loss, has_aux=True)(learner.params, mem, episodes)
    n = learner.updates + 1
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, learner.mean, grads)
    square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g**2, learner.square, grads)
    rate = 1e-3 * jnp.sqrt(1 - 0.999**n) / (1 - 0.9**n)
    params = jax.tree.map(lambda p, m, s: p - rate * m / (jnp.sqrt(s) + 1e-8), learner.params, mean, square)
    return Learner(params, mean, square, n), report


def train(name: str, mem: memory.Memory, updates: int, key: jax.Array) -> Any:
    """Many updates, a line of progress after every 25."""
    key_params, key_data = jax.random.split(key)
    params = {"memory": jax.jit(mem.init_params)(key_params), "out": jnp.zeros((HCAM.width, VALUES))}
    zeros = jax.tree.map(jnp.zeros_like, params)
    learner, started = Learner(params, zeros, zeros, jnp.float32(0)), time.perf_counter()
    some_updates = jax.jit(partial(jax.lax.scan, partial(update, mem)))
    print(f"\nTraining with memory {name}. The first updates take a few seconds to compile.", flush=True)
    for done in range(0, updates, 25):
        keys = jax.random.split(jax.random.fold_in(key_data, done), min(25, updates - done))
        learner, (loss_n, accuracy_n) = some_updates(learner, keys)
        progress = f"update {done + len(keys):4d}   loss {loss_n.mean():.3f}   accuracy {accuracy_n.mean():6.1%}"
        print(f"{name}   {progress}   {time.perf_counter() - started:5.1f} s", flush=True)
    return learner.params


def draw(episode: Any, score_qv: Any, recall: Any, path: Path) -> None:
    """What the last query recalled: the relevance of each chunk, and the attention inside the most relevant one."""
    from matplotlib import pyplot as plt

    names = [*"ABCDEFGH", *"01234567", *"·" * NOISE, "?"]
    label_t = ["".join(names[symbol] for symbol in symbols) for symbols in episode.symbol_t2.tolist()]
    chunk_k, relevance_k, within_khc = (layers[0][-1] for layers in recall[1:4])  # of the one layer, at the last step
    shown, size = int(episode.shown_q[-1]), HCAM.chunk
    best = range(int(chunk_k[0]) * size, (int(chunk_k[0]) + 1) * size)
    gold: dict[str, Any] = {"color": "#ffe680", "lw": 0, "zorder": 0, "label": f"where “{label_t[shown]}” was shown"}

    figure, (top, strip, bottom) = plt.subplots(3, 1, figsize=(11, 7), height_ratios=(6, 1.2, 6))
    figure.set_layout_engine("constrained", h_pad=0.1)
    asked = f"Asked “{label_t[-1]}” at step {STEPS - 1}, the memory answers {score_qv[-1].argmax()}"
    figure.suptitle(f"{asked}: “{label_t[shown]}” was shown {STEPS - 1 - shown} steps before", fontsize=15)
    top.bar(chunk_k * size + size / 2, relevance_k, width=0.7 * size, color="steelblue", label="recalled chunks")
    top.set(title="First the query finds the chunks that matter …", ylabel="relevance", ylim=(0, 1.1))
    for step, label in enumerate(label_t):
        strip.text(step + 0.5, 0.45, "\n".join(label), ha="center", va="center", fontsize=9, family="monospace")
    strip.set(xlabel=f"step of the episode; a chunk is {size} steps", ylim=(0, 1), yticks=[])
    for axes in (top, strip):
        axes.axvspan(shown // size * size, shown // size * size + size, **gold)
        axes.set(xlim=(0, STEPS), xticks=range(0, STEPS + 1, size))
    bottom.bar(best, within_khc[0].mean(0), width=0.7, color="steelblue", label="attention, mean over heads")
    bottom.axvspan(shown - 0.5, shown + 0.5, **gold)
    bottom.set_xticks(best, [f"{label_t[step]}\nstep {step}" for step in best])
    bottom.set(title="… then it looks inside the best one", ylabel="attention", ylim=(0, 1.1))
    bottom.set_xlim(best[0] - 0.5, best[-1] + 0.5)
    for axes in (top, bottom):
        axes.bar_label(axes.containers[0], fmt="{:.0%}", padding=2)
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a memory to recall, and look at what it recalls.")
    parser.add_argument("--steps", type=int, default=250, help="updates of each memory (default 250)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="folder of the picture (default runs/demo)")
    parser.add_argument("--quick", action="store_true", help="a few updates only, to see that it runs")
    args = parser.parse_args()

    key_none, key_hcam, key_test = jax.random.split(jax.random.key(args.seed), 3)
    test, table = jax.jit(jax.vmap(draw_episode))(jax.random.split(key_test, 256)), "memory   accuracy   chance"
    for name, config, key in (("none", NONE, key_none), ("hcam", HCAM, key_hcam)):
        mem = memory.make(config)
        params = train(name, mem, 3 if args.quick else args.steps, key)
        score_bqv, recall = jax.jit(jax.vmap(partial(learn, mem, params)))(test)
        table += f"\n{name} {(score_bqv.argmax(-1) == test.answer_q).mean():12.1%} {1 / VALUES:8.1%}"
    print(f"\n{table}\n")

    acted_bqv = jax.jit(jax.vmap(partial(act, mem, params)))(test)  # with the last one trained: HCAM
    same = (acted_bqv.argmax(-1) == score_bqv.argmax(-1)).mean()
    print(f"Acting step by step gives the same answer as the unroll to {same:.1%} of {score_bqv[..., 0].size} queries.")
    try:
        episode, score_qv, seen = jax.device_get(jax.tree.map(lambda leaf: leaf[0], (test, score_bqv, recall)))
        draw(episode, score_qv, seen, args.out / "recall.png")
        print(f"What the memory recalled: {args.out / 'recall.png'}")
    except ImportError:
        print("To see what the memory recalled, install matplotlib.")
    python, script = sys.orig_argv[0], sys.argv[0].replace("bare_scan", "equinox_agent")
    print(f"Next, an agent that learns from reward: {python} {script} --memory hcam")


if __name__ == "__main__":
    main()
