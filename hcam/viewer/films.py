"""Pictures in a row as a file that moves: .gif with pillow, .mp4 with av; and text that has to fit."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

COLOURS = 64  # of a .gif


def write_gif(pictures: Sequence[Image.Image], path: Path, pauses: Sequence[int], shared: bool = False) -> None:
    """Shows each picture for as many milliseconds, and begins anew. `shared`: with the same colours in all of them."""
    chosen = _palette(pictures) if shared else None
    palette = [
        picture.quantize(COLOURS, dither=Image.Dither.NONE)
        if chosen is None
        else picture.quantize(palette=chosen, dither=Image.Dither.NONE)
        for picture in pictures
    ]
    palette[0].save(path, save_all=True, append_images=palette[1:], duration=list(pauses), loop=0)


def _palette(pictures: Sequence[Image.Image]) -> Image.Image:
    """The colours of a few pictures, evenly chosen, side by side: what stays the same then looks the same."""
    few = [pictures[place] for place in np.linspace(0, len(pictures) - 1, min(8, len(pictures))).astype(int)]
    montage = Image.fromarray(np.concatenate([np.asarray(picture) for picture in few], axis=1))
    return montage.quantize(2 * COLOURS, dither=Image.Dither.NONE)


def write_mp4(pictures: Iterable[Image.Image], path: Path, fps: int) -> None:
    """Shows `fps` pictures a second; their sides must be even."""
    av = video_library()
    with av.open(str(path), "w") as video:
        stream = None
        for picture in pictures:
            if stream is None:
                stream = video.add_stream("libx264", rate=fps, options={"crf": "18"})
                stream.width, stream.height, stream.pix_fmt = *picture.size, "yuv420p"
            video.mux(stream.encode(av.VideoFrame.from_ndarray(np.asarray(picture), format="rgb24")))
        if stream is not None:
            video.mux(stream.encode())


def video_library() -> Any:
    try:
        import av
    except ImportError as error:
        raise ValueError('.mp4 needs av, which `pip install "hcam[video]"` brings; .gif needs nothing.') from error
    return av


def fitted(text: str, width: float, font: Any) -> str:
    """The end of a text that is too long: what is asked for comes last in a sentence."""
    if font.getlength(text) <= width:
        return text
    words = text.split()[1:]
    while words and font.getlength(" ".join(("…", *words))) > width:
        words = words[1:]
    return " ".join(("…", *words))
