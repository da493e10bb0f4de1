"""Made-up episodes for tests of the viewer: every frame has a colour of its own, and weights are drawn at random."""

from typing import Any

import numpy as np

from hcam.envs.environment import Event
from hcam.runs.recording import Attention, Step
from hcam.viewer.frames import Frame
from hcam.viewer.playback import Chunks, Playback, Window

SIDE = 99
EVENTS = [Event(0, 16, "up_and_down"), Event(64, 80, "circle_cw", True), Event(128, 144, "plus_ccw")]


def colour(step: int) -> tuple[int, int, int]:
    return 40 + step % 16 * 13, 40 + step // 16 % 16 * 13, 40 + step // 256 * 60


def frame(step: int, text: str, side: int = SIDE, ending: str = "") -> Frame:
    pixels = np.zeros((side, side, 3), np.uint8)
    pixels[side // 4 : -side // 4, side // 4 : -side // 4] = colour(step)
    return Frame(pixels, text, float(bool(ending)), ending)


def played(
    recall: Any,
    steps: int,
    events: list[Event] = EVENTS,
    words: tuple[str, str] = ("watch", "circle_cw"),
    **changes: Any,
) -> Playback:
    """An episode that is solved at its last step; its question is asked a few steps before."""
    rng, question = np.random.default_rng(0), steps - 4
    policy_ta = rng.dirichlet(np.ones(8), steps).astype(np.float32)
    last_t = np.arange(steps) == steps - 1
    value_t = np.linspace(0, 1, steps).astype(np.float32)
    arrays: Any = (policy_ta.argmax(-1), policy_ta, value_t, Attention(*[None] * 5), last_t.astype(np.float32))
    frames = [frame(t, words[t >= question], ending="done" if t == steps else "") for t in range(steps + 1)]
    arrays += (last_t, np.zeros(steps, bool), last_t)
    steps_t = Step(*arrays)
    made = Playback(frames, steps_t, recall, events, question, question, 1 if recall else 0)
    return made._replace(**changes)


def chunks(steps: int, layers: int = 4, length: int = 32, overlap: int = 0, top: int = 8) -> Chunks:
    """Random recalls of complete chunks, with the weights and relevances of a softmax over all of them."""
    rng, stride = np.random.default_rng(1), length - overlap
    count = max(0, (steps - length) // stride + 1)
    number_tlk = np.full((steps, layers, top), -1, np.int32)
    weight_tlk = np.zeros((steps, layers, top), np.float32)
    within_tlkc = np.zeros((steps, layers, top, length), np.float32)
    relevance_tln = np.zeros((steps, layers, count), np.float32)
    for t in range(length, steps):
        there = (t - length) // stride + 1
        for layer in range(layers):
            relevance = rng.dirichlet(np.full(there, 0.5))
            best = np.argsort(-relevance)[:top]
            relevance_tln[t, layer, :there] = relevance
            number_tlk[t, layer, : len(best)] = best
            weight_tlk[t, layer, : len(best)] = relevance[best] / relevance[best].sum()
            within_tlkc[t, layer, : len(best)] = rng.dirichlet(np.full(length, 0.3), len(best))
    return Chunks(number_tlk, weight_tlk, within_tlkc, relevance_tln, stride, length)


def window(steps: int, layers: int = 2, width: int = 16) -> Window:
    rng = np.random.default_rng(2)
    weight_tlw = rng.dirichlet(np.full(width, 0.5), (steps, layers)).astype(np.float32)
    seen_tw = np.arange(width)[None] <= np.arange(steps)[:, None]
    return Window(weight_tlw * seen_tw[:, None])
