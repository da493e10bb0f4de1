"""The memories once more, slowly: float64 NumPy, one query, one chunk, one head at a time, the past in plain lists.

Written from the description of the released module and of the paper, not from the package: there is no ring, no clock,
no mask and no cut here, so the two can only agree when both are right. `gap` records how close any top-k decision was:
where two candidates are nearly tied, float32 may choose differently from float64, and a test must not call that wrong.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

MASKED = -1e6


def to_float64(tree: Any) -> Any:
    """Parameters, or anything else nested, as float64 NumPy arrays."""
    if isinstance(tree, dict):
        return {name: to_float64(entry) for name, entry in tree.items()}
    if isinstance(tree, list | tuple):
        return [to_float64(entry) for entry in tree]
    return np.asarray(tree, np.float64)


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def linear(params: dict, x: np.ndarray) -> np.ndarray:
    return x @ params["w"] + params.get("b", 0.0)


def layer_norm(params: dict, x: np.ndarray) -> np.ndarray:
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * params["scale"] + params["offset"]


@cache
def position_code(position: int, width: int) -> np.ndarray:
    angles = [position * 10000.0 ** (-2 * i / width) for i in range(width // 2)]
    return np.array([math.sin(a) for a in angles] + [math.cos(a) for a in angles])


def best_first(logits: np.ndarray, k: int) -> list[int]:
    """The k largest, the lower index first among equals."""
    return sorted(range(len(logits)), key=lambda m: (-logits[m], m))[:k]


def gap_after(logits: np.ndarray, k: int) -> float:
    """How much the last of the k largest leads the first that is left out."""
    falling = sorted(logits, reverse=True)
    return math.inf if k >= len(falling) else float(falling[k - 1] - falling[k])


# ---------------------------------------------------------------------------------------------------------------------
# Recall from chunks
# ---------------------------------------------------------------------------------------------------------------------
class Reading(NamedTuple):
    """One query's recall."""

    output: np.ndarray
    chunk: list[int]
    weight: np.ndarray
    within: np.ndarray  # [K, H, C]
    before: np.ndarray  # [M], the weights before the top k
    gap: float


def read_one(
    params: dict,
    query: np.ndarray,
    keys: np.ndarray,
    contents: np.ndarray,
    allowed: np.ndarray | None,
    *,
    k: int,
    heads: int,
    positions: bool = True,
    order: str = "top_k_then_softmax",
) -> Reading:
    relevance_query = linear(params["relevance_query"], query)
    width = len(relevance_query)
    logits = np.array([relevance_query @ linear(params["relevance_key"], key) / math.sqrt(width) for key in keys])
    if allowed is not None:
        logits = np.where(allowed, logits, MASKED)
    chosen = best_first(logits, k)
    weight = softmax(logits[chosen]) if order == "top_k_then_softmax" else softmax(logits)[chosen]
    output, within = np.zeros(width), []
    for m, w in zip(chosen, weight, strict=True):
        answer, attention = attend_in_chunk(params, query, contents[m], heads, positions)
        output += w * answer
        within.append(attention)
    return Reading(output, chosen, weight, np.array(within), softmax(logits), gap_after(logits, k))


def attend_in_chunk(
    params: dict, query: np.ndarray, content: np.ndarray, heads: int, positions: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Multi-head attention of one query over the C steps of one chunk: the answer [S] and the attention [H, C]."""
    steps, width = content.shape
    if positions:  # the newest step has position 0
        content = np.array([content[c] + position_code(steps - 1 - c, width) for c in range(steps)])
    query, key, value = (linear(params[n], x) for n, x in (("query", query), ("key", content), ("value", content)))
    size = len(query) // heads
    answers, attention = [], []
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        weight = softmax(key[:, part] @ query[part] / math.sqrt(size))
        answers.append(weight @ value[:, part])
        attention.append(weight)
    return linear(params["out"], np.concatenate(answers)), np.array(attention)


def read(params: dict, queries: Any, keys: Any, contents: Any, mask: Any = None, **options: Any) -> np.ndarray:
    """All queries of one environment, [Q, S]."""
    rows = [None] * len(queries) if mask is None else mask
    return np.array(
        [read_one(params, q, keys, contents, row, **options).output for q, row in zip(queries, rows, strict=True)]
    )


# ---------------------------------------------------------------------------------------------------------------------
# The stack: HCAM, TransformerXL and the window alone
# ---------------------------------------------------------------------------------------------------------------------
class Recalled(NamedTuple):
    """What one layer attended to at one step, as `Recall` holds it."""

    window: np.ndarray  # [H, W], age 0 first
    chunk: list[int]
    weight: np.ndarray
    within: np.ndarray
    before: np.ndarray  # [M], newest first


class SlowStack:
    """One environment, one step at a time. `past[l]` lists the inputs of layer l in this episode, nothing else."""

    def __init__(self, config: Any, params: Any):
        self.config, self.params = config, to_float64(params)
        self.window = getattr(config, "window_steps", config.window)
        self.past: list[list[np.ndarray]] = [[] for _ in self.params]
        self.gap = math.inf

    def step(self, x: np.ndarray, first: bool) -> tuple[np.ndarray, list[Recalled]]:
        seen = []
        for layer, params in enumerate(self.params):
            if first:
                self.past[layer] = []
            x, what = self.layer(params, self.past[layer], np.asarray(x, np.float64))
            seen.append(what)
        return x, seen

    def layer(self, params: dict, past: list[np.ndarray], x: np.ndarray) -> tuple[np.ndarray, Recalled]:
        chunks = self.recallable(past)  # before this step is added: a chunk can be recalled once it is complete
        past.append(x)
        sparse = getattr(self.config, "top_k", None) if "block" not in params else None
        answer, attention, gap = attend_window(params["window"], past[-self.window :], self.config.heads, sparse)
        y, self.gap = join(params.get("window_gate"), x, answer), min(self.gap, gap)
        ages = np.zeros((self.config.heads, self.window))
        ages[:, : attention.shape[1]] = attention
        number, weight, within, before = [], np.zeros(0), np.zeros(0), np.zeros(0)
        if "block" in params and chunks:
            reading = self.recall(params["block"], y, chunks)
            y, self.gap = join(params.get("block_gate"), y, reading.output), min(self.gap, reading.gap)
            number, weight, within = [chunks[m][0] for m in reading.chunk], reading.weight, reading.within
            before = reading.before[::-1]
        hidden = np.maximum(linear(params["mlp"]["in"], layer_norm(params["mlp"]["norm"], y)), 0)
        return join(params.get("mlp_gate"), y, linear(params["mlp"]["out"], hidden)), Recalled(
            ages, number, weight, within, before
        )

    def recallable(self, past: list[np.ndarray]) -> list[tuple[int, np.ndarray]]:
        """The complete chunks of the episode so far with their numbers, of which only the last `slots` are kept."""
        if not hasattr(self.config, "chunk"):
            return []
        chunk, stride = self.config.chunk, self.config.chunk - self.config.overlap
        starts = range(0, len(past) - chunk + 1, stride)
        return [(n, np.array(past[s : s + chunk])) for n, s in enumerate(starts)][-self.config.slots :]

    def recall(self, params: dict, y: np.ndarray, chunks: list[tuple[int, np.ndarray]]) -> Reading:
        contents = np.array([content for _, content in chunks])
        return read_one(
            params["read"],
            layer_norm(params["norm"], y),
            contents.mean(1),
            contents,
            None,
            k=min(self.config.top_k, len(chunks)),
            heads=self.config.heads,
            positions=self.config.positions,
            order=self.config.order,
        )


def attend_window(
    params: dict, rows: list[np.ndarray], heads: int, sparse: int | None
) -> tuple[np.ndarray, np.ndarray, float]:
    """TransformerXL's attention of the newest row over all of them: answer [D], attention [H, ages], decision gap."""
    newest_first = [layer_norm(params["norm"], row) for row in reversed(rows)]
    query = linear(params["query"], newest_first[0])
    size, width = len(query) // heads, len(query)
    answers, attention, gap = [], [], math.inf
    for head in range(heads):
        part, logits = slice(head * size, (head + 1) * size), []
        for age, row in enumerate(newest_first):
            content = (query[part] + params["content_bias"][head]) @ linear(params["key"], row)[part]
            position = linear(params["position"], position_code(age, width))[part]
            logits.append((content + (query[part] + params["position_bias"][head]) @ position) / math.sqrt(size))
        kept = best_first(np.array(logits), len(logits) if sparse is None else sparse)
        gap = min(gap, gap_after(np.array(logits), len(kept)))
        weight = np.zeros(len(logits))
        weight[kept] = softmax(np.array(logits)[kept])
        answers.append(sum(w * linear(params["value"], r)[part] for w, r in zip(weight, newest_first, strict=True)))
        attention.append(weight)
    return linear(params["out"], np.concatenate(answers)), np.array(attention), gap


def join(params: dict | None, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Add, or the GRU gate of Parisotto et al. (2020), equation by equation; `offset` is their b_g."""
    if params is None:
        return x + y
    y, width = np.maximum(y, 0), len(x)
    w_reset, w_update, w_candidate = (params["y"]["w"][:, i * width : (i + 1) * width] for i in range(3))
    u_reset, u_update = (params["x"]["w"][:, i * width : (i + 1) * width] for i in range(2))
    reset = sigmoid(y @ w_reset + x @ u_reset)
    update = sigmoid(y @ w_update + x @ u_update - params["offset"])
    candidate = np.tanh(y @ w_candidate + (reset * x) @ params["candidate"]["w"])
    return (1 - update) * x + update * candidate


class SlowLSTM:
    """The same for the LSTM: gates in the order in, forget, candidate, out; each layer adds to what came in."""

    def __init__(self, params: Any):
        self.params = to_float64(params)
        self.hidden: list[Any] = []
        self.cell: list[Any] = []
        self.forget()

    def forget(self) -> None:
        self.hidden, self.cell = [0.0] * len(self.params), [0.0] * len(self.params)

    def step(self, x: np.ndarray, first: bool) -> np.ndarray:
        if first:
            self.forget()
        for layer, params in enumerate(self.params):
            hidden = self.hidden[layer] + np.zeros_like(x)
            into, forget, candidate, out = np.split(linear(params["in"], x) + linear(params["hidden"], hidden), 4)
            self.cell[layer] = sigmoid(forget) * self.cell[layer] + sigmoid(into) * np.tanh(candidate)
            self.hidden[layer] = sigmoid(out) * np.tanh(self.cell[layer])
            x = x + self.hidden[layer]
        return x


class SlowGRU:
    """The same for the GRU: gates in the order reset, update, candidate; the reset gate after the recurrent product."""

    def __init__(self, params: Any):
        self.params = to_float64(params)
        self.hidden: list[Any] = [0.0] * len(self.params)

    def step(self, x: np.ndarray, first: bool) -> np.ndarray:
        if first:
            self.hidden = [0.0] * len(self.params)
        for layer, params in enumerate(self.params):
            before = self.hidden[layer] + np.zeros_like(x)
            mine, theirs = (np.split(linear(params[part], value), 3) for part, value in (("in", x), ("hidden", before)))
            reset, update = sigmoid(mine[0] + theirs[0]), sigmoid(mine[1] + theirs[1])
            self.hidden[layer] = (1 - update) * before + update * np.tanh(mine[2] + reset * theirs[2])
            x = x + self.hidden[layer]
        return x
