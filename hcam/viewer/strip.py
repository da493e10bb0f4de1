"""An episode as a film of what is recalled: the frame with its instruction, beneath it where the memory goes back to.

The film slows down where what matters is asked for, and there plays the recalled chunk once more.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from hcam.viewer.films import fitted
from hcam.viewer.frames import outcome
from hcam.viewer.playback import Chunks, Playback, event_in, layers, most_attended

WIDTH, MARGIN = 640, 16
PAPER, INK, MUTED, RULE, PANEL = (251, 250, 247), (28, 27, 25), (103, 99, 91), (220, 216, 207), (242, 240, 234)
RECALL, GOOD, BAD = (194, 65, 12), (15, 118, 110), (163, 36, 59)
SCREEN, PICTURE, TOP = 232, 132, 46  # the frame, the chunk that is played again, and where both begin
ARCS, FILM, EVENTS, ROW = 38, 28, 24, 11  # heights of the parts of the timeline
FASTEST = 110  # pictures before the question
SLOWER, SLOW_STEPS = 5, 8  # how much longer each of the steps after the question lasts
ENDING = 2000  # milliseconds of the last picture
ATTENDED = 6  # steps of a memory of single steps that are shown


class Shot(NamedTuple):
    step: int
    again: int | None  # which frame of a recalled chunk is on show; None: the one that is attended to most
    milliseconds: int


def shots(playback: Playback, layer: int, fps: int) -> list[Shot]:
    """The whole episode: fast before its opening step, there the recalled chunk again, and slowly after it."""
    pause, opening, last = round(1000 / fps), playback.opening, playback.length
    found = [Shot(t, None, pause) for t in range(0, opening, max(1, -(-opening // FASTEST)))]
    found += [Shot(opening, again, 2 * pause) for again in replayed(playback, layer, opening)]
    slow = range(opening + 1, min(last, opening + 1 + SLOW_STEPS))
    found += [Shot(t, None, SLOWER * pause) for t in slow]
    found += [Shot(t, None, pause) for t in range(opening + 1 + SLOW_STEPS, last)]
    return [*found, Shot(last, None, ENDING)]


def replayed(playback: Playback, layer: int, step: int) -> list[int | None]:
    """The frames of the most relevant chunk, in order; without one, a single still."""
    recall = playback.recall
    if not isinstance(recall, Chunks) or recall.number_tlk[step, layer, 0] < 0:
        return [None] * 6
    return list(range(recall.length))


def pictures(playback: Playback, layer: int, title: str, taken: list[Shot]) -> Iterator[Image.Image]:
    still = _still(playback, layer, title)
    for shot in taken:
        yield _draw(playback, layer, shot, still.copy())


def height(playback: Playback) -> int:
    total = TOP + SCREEN + 12 + ARCS + FILM + EVENTS + layers(playback.recall) * ROW + 28
    return total + total % 2  # even, for .mp4


def _x(playback: Playback, step: float) -> float:
    return MARGIN + (WIDTH - 2 * MARGIN) * step / max(1, playback.length)


def _base() -> int:
    """Where the row of frames begins."""
    return TOP + SCREEN + 12 + ARCS


def _font(size: float) -> Any:
    return ImageFont.load_default(size)


def _still(playback: Playback, layer: int, title: str) -> Image.Image:
    """What stays the same: the timeline with its frames and events."""
    canvas = Image.new("RGB", (WIDTH, height(playback)), PAPER)
    pen, top, room = ImageDraw.Draw(canvas), _base(), WIDTH - 2 * MARGIN
    wide = max(8, round(FILM * playback.frames[0].pixels.shape[1] / playback.frames[0].pixels.shape[0]))
    count = max(1, room // wide)
    for place in range(count):
        moment = min(playback.length, round((place + 0.5) / count * playback.length))
        small = picture(playback, moment, wide - 1, FILM)
        canvas.paste(small, (round(MARGIN + place * room / count), top))
    taken: list[tuple[float, float]] = []  # places of labels; what matters has the first choice
    for event in sorted(playback.events, key=lambda event: not event.matters):
        begin, end = _x(playback, event.begin), max(_x(playback, event.end), _x(playback, event.begin) + 2)
        pen.rectangle((begin, top + FILM + 3, end, top + FILM + 6), INK if event.matters else RULE)
        font = _font(12)
        shift = 14 if event.matters else 0
        x = min(begin, WIDTH - MARGIN - font.getlength(event.name) - shift)
        after = x + shift + font.getlength(event.name)
        if any(x < other_after + 6 and after + 6 > other for other, other_after in taken):
            continue
        taken.append((x, after))
        if event.matters:
            _star(pen, x + 5, top + FILM + 15)
        pen.text((x + shift, top + FILM + 15), event.name, INK if event.matters else MUTED, font, anchor="lm")
    if playback.question is not None:
        x = _x(playback, playback.question)
        for y in range(top - ARCS + 8, top, 4):
            pen.line((x, y, x, y + 1), INK)
    pen.text((MARGIN, canvas.height - 12), fitted(title, WIDTH - 160, _font(12)), MUTED, _font(12), anchor="lm")
    return canvas


def _draw(playback: Playback, layer: int, shot: Shot, canvas: Image.Image) -> Image.Image:
    pen, step = ImageDraw.Draw(canvas), shot.step
    over, frame = step >= playback.length, playback.frames[step]
    words = outcome(frame._replace(text="")) if over else frame.text
    colour = INK if not over else GOOD if playback.success else BAD
    pen.text((MARGIN, TOP / 2 + 4), fitted(words, SCREEN + 20, _font(21)), colour, _font(21), anchor="lm")
    screen = picture(playback, step, SCREEN, SCREEN)
    canvas.paste(screen, (MARGIN, TOP))
    counted = f"step {min(step, playback.length)} of {len(playback.frames) - 1}"
    pen.text((WIDTH - MARGIN, canvas.height - 12), counted, MUTED, _font(12), anchor="rm")
    if playback.recall is not None:
        shot = shot._replace(step=min(step, playback.length - 1))  # the end goes on showing what was recalled last
        _strips(playback, layer, shot.step, pen)
        if isinstance(playback.recall, Chunks):
            _chunk(playback, playback.recall, layer, shot, canvas, pen)
        else:
            _steps(playback, layer, shot.step, canvas, pen)
    x, top = _x(playback, step), _base()
    pen.line((x, top - 4, x, canvas.height - 26), INK, 2)
    pen.polygon([(x - 5, top - 10), (x + 5, top - 10), (x, top - 3)], INK)
    return canvas


def _strips(playback: Playback, layer: int, step: int, pen: Any) -> None:
    """A row for each layer: the relevance of its chunks, or its attention to single steps."""
    recall, top = playback.recall, _base() + FILM + EVENTS
    for number in range(layers(playback.recall)):
        y = top + number * ROW
        pen.rectangle((MARGIN, y, WIDTH - MARGIN, y + ROW - 3), PANEL)
        if isinstance(recall, Chunks):
            kept = set(recall.number_tlk[step, number].tolist())
            for chunk, weight in enumerate(recall.relevance_tln[step, number].tolist()):
                begin, end = recall.span(chunk)
                if end > step:
                    break
                box = (_x(playback, begin), y, _x(playback, min(end, begin + recall.stride)) - 1, y + ROW - 3)
                pen.rectangle(box, blend(weight**0.5))
                if chunk in kept:
                    pen.line((box[0], box[3], box[2], box[3]), INK, 2)
        else:
            for at, weight in most_attended(playback, step, number, step + 1):
                pen.rectangle((_x(playback, at), y, _x(playback, at + 1), y + ROW - 3), blend(weight**0.5))
        if number == layer:
            pen.rectangle((MARGIN - 2, y - 2, WIDTH - MARGIN + 2, y + ROW - 1), None, INK)


def blend(weight: float) -> tuple[int, int, int]:
    """From the colour of no weight to that of all of it."""
    part = min(1.0, max(0.0, weight))
    red, green, blue = (round(none + part * (full - none)) for none, full in zip(PANEL, RECALL, strict=True))
    return red, green, blue


def _arc(playback: Playback, step: int, target: float, weight: float, pen: Any) -> None:
    """From now back to a moment; the thicker, the more weight."""
    begin, end, base = _x(playback, target), _x(playback, step), _base() - 2
    rise = (ARCS - 4) * (abs(end - begin) / WIDTH) ** 0.5
    along = np.linspace(0, np.pi, 60)
    path = [(begin + (end - begin) * (1 - np.cos(a)) / 2, base - rise * np.sin(a) ** 0.7) for a in along]
    pen.line(path, blend(0.35 + 0.65 * weight), max(1, round(6 * weight)), joint="curve")
    pen.polygon([(begin - 4, base - 6), (begin + 4, base - 6), (begin, base)], blend(0.35 + 0.65 * weight))


def _chunk(playback: Playback, recall: Chunks, layer: int, shot: Shot, canvas: Image.Image, pen: Any) -> None:
    """The most relevant chunk again, large and frame by frame; arcs lead to all that are recalled."""
    step, left = shot.step, MARGIN + SCREEN + 24
    if recall.number_tlk[step, layer, 0] < 0:
        pen.text((left, TOP / 2 + 4), "nothing to recall yet", MUTED, _font(16), anchor="lm")
        return
    pairs = zip(recall.number_tlk[step, layer].tolist(), recall.weight_tlk[step, layer].tolist(), strict=True)
    for chunk, weight in sorted(pairs, key=lambda pair: pair[1]):
        if chunk >= 0 and weight >= 0.01:
            _arc(playback, step, sum(recall.span(chunk)) / 2, weight, pen)
    number, weight = int(recall.number_tlk[step, layer, 0]), float(recall.weight_tlk[step, layer, 0])
    within = recall.within_tlkc[step, layer, 0]
    begin, end = recall.span(number)
    at = int(within.argmax()) if shot.again is None else shot.again
    heading = f"layer {layer + 1} recalls"
    pen.text((left, TOP / 2 + 4), heading, INK, _font(16), anchor="lm")
    large = picture(playback, begin + at, PICTURE, PICTURE)
    canvas.paste(large, (left, TOP))
    pen.rectangle((left - 2, TOP - 2, left + large.width + 1, TOP + large.height + 1), None, RECALL, 2)
    text_x = left + large.width + 14
    pen.text((text_x, TOP), f"{100 * weight:.0f} %", RECALL, _font(30))
    pen.text((text_x, TOP + 42), f"steps {begin} to {end - 1}", INK, _font(14))
    event = event_in(playback.events, begin, end)
    if event:
        shift = 16 if event.matters else 0
        if event.matters:
            _star(pen, text_x + 6, TOP + 72)
        name = fitted(event.name, WIDTH - MARGIN - text_x - shift, _font(15))
        pen.text((text_x + shift, TOP + 64), name, INK, _font(15))
    columns = max(1, min(len(within), -(-len(within) // max(1, -(-len(within) // 16)))))
    lines = -(-len(within) // columns)
    wide = min(84, (WIDTH - MARGIN - left) // columns)
    room = (SCREEN - PICTURE - 14) // lines
    for c, part in enumerate((within / max(within.max(), 1e-9)).tolist()):
        x, y = left + c % columns * wide, TOP + PICTURE + 14 + c // columns * room
        bar = max(1, round(12 * part))
        pen.rectangle((x, y + 12 - bar, x + wide - 2, y + 12), RECALL)
        small = picture(playback, begin + c, wide - 1, room - 16)
        faded = Image.blend(Image.new("RGB", small.size, PAPER), small, 0.3 + 0.7 * part**0.5)
        canvas.paste(faded, (x, y + 14))
        if shot.again == c:
            pen.rectangle((x, y + 14, x + small.width - 1, y + 13 + small.height), None, INK, 2)


def _steps(playback: Playback, layer: int, step: int, canvas: Image.Image, pen: Any) -> None:
    """The steps that are attended to most, in order."""
    left = MARGIN + SCREEN + 24
    pen.text((left, TOP / 2 + 4), f"layer {layer + 1} attends to", INK, _font(16), anchor="lm")
    for place, (at, weight) in enumerate(sorted(most_attended(playback, step, layer, ATTENDED))):
        if at != step and weight >= 0.01:
            _arc(playback, step, at, weight, pen)
        row, column = divmod(place, 3)
        x, y = left + column * 118, TOP + row * 118
        canvas.paste(picture(playback, at, 104, 84), (x, y))
        pen.text((x, y + 88), f"{100 * weight:.0f} %", RECALL, _font(15))
        pen.text((x + 104, y + 90), f"step {at}", MUTED, _font(12), anchor="ra")


def picture(playback: Playback, moment: int, width: int, height: int) -> Image.Image:
    """A frame as large as fits: large pixels stay sharp, small pictures are averaged."""
    pixels = playback.frames[min(moment, playback.length)].pixels
    high, wide = pixels.shape[:2]
    scale = min(width / wide, height / high)
    way = Image.Resampling.NEAREST if scale > 1 else Image.Resampling.BOX
    return Image.fromarray(pixels).resize((max(1, round(wide * scale)), max(1, round(high * scale))), way)


def _star(pen: Any, x: float, y: float) -> None:
    angles = np.arange(10) * np.pi / 5 - np.pi / 2
    pen.polygon([(x + r * np.cos(a), y + 2 + r * np.sin(a)) for a, r in zip(angles, [6, 2.5] * 5, strict=True)], INK)
