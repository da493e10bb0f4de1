"""An episode as the data of its page: JSON whose larger parts are compressed bytes.

A weight is stored in two bytes, as 65,535 times its root: so small weights, of which there are many, keep their
differences. What a page shows of a weight is off by less than 0.00002.
"""

import base64
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hcam.viewer import sprites
from hcam.viewer.frames import outcome
from hcam.viewer.playback import Chunks, Playback, Window

LARGEST = 65_535  # of two bytes
EVENT = ("begin", "end", "name", "matters")


def episode_data(playback: Playback, names: Sequence[str], about: dict[str, Any]) -> dict[str, Any]:
    """Plain JSON. `names` are those of the actions; `about` goes in as it is."""
    steps_t, frames = playback.steps_t, playback.frames
    texts = list(dict.fromkeys(frame.text for frame in frames))
    actions = steps_t.policy_a.shape[-1]
    return about | {
        "length": playback.length,
        "success": playback.success,
        "outcome": outcome(frames[-1]._replace(text="")),
        "texts": texts,
        "text": [texts.index(frame.text) for frame in frames],
        "actions": list(names) or [f"action {number}" for number in range(actions)],
        "action": steps_t.action.tolist(),
        "policy": packed(quantised(steps_t.policy_a)),
        "value": rounded(steps_t.value),
        "reward": rounded(steps_t.reward),
        "events": [{part: getattr(event, part) for part in EVENT} for event in playback.events],
        "question": playback.question,
        "opening": playback.opening,
        "layer": playback.layer,
        "frames": _frames(sprites.pack([frame.pixels for frame in frames])),
        "recall": _recall(playback.recall),
    }


def _frames(sheets: sprites.Sheets) -> dict[str, Any]:
    images = [f"data:image/webp;base64,{base64.b64encode(image).decode('ascii')}" for image in sheets.images]
    return sheets._asdict() | {"images": images}


def _recall(recall: Chunks | Window | None) -> dict[str, Any] | None:
    if recall is None:
        return None
    if isinstance(recall, Window):
        layers, window = recall.weight_tlw.shape[1:]
        return {"kind": "window", "layers": layers, "window": window, "weight": packed(quantised(recall.weight_tlw))}
    _, layers, chunks = recall.relevance_tln.shape
    return {
        "kind": "chunks",
        "layers": layers,
        "window": recall.window,
        "chunks": chunks,
        "length": recall.length,
        "stride": recall.stride,
        "top": recall.number_tlk.shape[-1],
        "number": packed(recall.number_tlk.astype("<i2")),
        "weight": packed(quantised(recall.weight_tlk)),
        "within": packed(quantised(recall.within_tlkc)),
        "relevance": packed(quantised(recall.relevance_tln)),
    }


def quantised(weight: Any) -> NDArray[Any]:
    return np.asarray(np.rint(LARGEST * np.sqrt(np.clip(weight, 0, 1))), "<u2")


def restored(stored: NDArray[Any]) -> NDArray[np.float64]:
    """The way back, which the page also goes."""
    return np.asarray((stored / LARGEST) ** 2, np.float64)


def packed(array: NDArray[Any]) -> str:
    """The bytes of an array, in C order and little-endian, through zlib and base64."""
    return base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 9)).decode("ascii")


def rounded(number: Any) -> list[float | None]:
    """Numbers in four digits; null for one that is not finite, which JSON does not have."""
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in number.tolist()]
