"""The parts of an observation as arrays of fixed shape, from what an environment's spaces say; and writing them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

NARROW = {"float64": "float32", "int64": "int32", "uint64": "uint32"}  # JAX's numbers have 32 bits
UNKNOWN = "?"  # the word for all words that are not in a vocabulary
WHOLE = "observation"  # the name of an observation that has no parts


class Part(NamedTuple):
    """Plain numbers and texts, so that it goes through JSON."""

    name: str
    kind: str  # discrete, box, text, or one_hot: a box of small whole numbers, each written as ones and zeros
    shape: Sequence[int]  # of what is written
    dtype: str = "int32"
    low: float = 0.0
    high: float = 0.0
    start: int = 0  # of a discrete part: its lowest value, written as 0
    sizes: Sequence[int] = ()  # one_hot: how many values each channel has
    vocabulary: Sequence[str] = ()  # text: entry 0 is padding, entry 1 any unknown word
    given: Sequence[int] = ()  # one_hot: the shape before


class Choices(NamedTuple):
    """What the user may decide about observations, by options of the environment."""

    one_hot: Mapping[str, Sequence[int]] = {}  # by part: how many values each channel has
    drop: Sequence[str] = ()  # parts that the agent is not shown
    vocabulary: Sequence[str] | None = None  # of all texts; None: collected
    longest: int | None = None  # words of a text; None: those of the longest one met


def describe(space: Any, choices: Choices, texts: Mapping[str, Sequence[str]]) -> list[Part]:
    """The parts of a Gymnasium space, in the order of their names; `texts` are examples of each text."""
    from gymnasium import spaces

    named: dict[str, Any] = dict(space.spaces) if isinstance(space, spaces.Dict) else {WHOLE: space}
    if unknown := sorted((set(choices.one_hot) | set(choices.drop)) - set(named)):
        raise ValueError(f"there is no part {', '.join(unknown)} in the observation: it has {', '.join(named)}.")
    found = [_part(name, part, choices, texts) for name, part in sorted(named.items()) if name not in choices.drop]
    if not found:
        raise ValueError("nothing of the observation is left: drop fewer of its parts.")
    return found


def is_text(space: Any) -> bool:
    """Gymnasium's Text, or another package's space of strings, such as MiniGrid's missions."""
    kind = getattr(space, "dtype", None)
    return kind is str or (isinstance(kind, np.dtype) and kind.kind == "U")


def _part(name: str, space: Any, choices: Choices, texts: Mapping[str, Sequence[str]]) -> Part:
    from gymnasium import spaces

    if name in choices.one_hot:
        return _one_hot(name, space, tuple(choices.one_hot[name]))
    if is_text(space):
        return _text(name, choices, texts.get(name, ()))
    match space:
        case spaces.Discrete():
            return Part(name, "discrete", (), high=float(int(space.n) - 1), start=int(space.start))
        case spaces.MultiBinary():
            return Part(name, "box", tuple(space.shape), "int8", 0, 1)
        case spaces.MultiDiscrete():
            ends: Any = np.add(space.start, space.nvec)
            return _box(name, tuple(space.shape), space.dtype, space.start.min(), ends.max() - 1)
        case spaces.Box():
            return _box(name, tuple(space.shape), space.dtype, space.low.min(), space.high.max())
    raise ValueError(
        "an observation must be Box, Discrete, MultiBinary, MultiDiscrete or Text, or a Dict of these, "
        f"but {name} is {space}: wrap the environment, or leave the part out with --env-arg 'drop=[\"{name}\"]'."
    )


def _box(name: str, shape: tuple[int, ...], kind: Any, low: Any, high: Any) -> Part:
    dtype = NARROW.get(kind.name, "uint8" if kind.name == "bool" else kind.name)
    if np.dtype(dtype).kind in "iu":
        low, high = max(int(low), np.iinfo(dtype).min), min(int(high), np.iinfo(dtype).max)
    return Part(name, "box", shape, dtype, float(low), float(high))


def _one_hot(name: str, space: Any, sizes: tuple[int, ...]) -> Part:
    shape = tuple(getattr(space, "shape", None) or ())
    if not shape or shape[-1] != len(sizes) or space.dtype.kind not in "iu":
        raise ValueError(
            f"one_hot has {len(sizes)} numbers for {name}, which must be whole numbers with as many channels, "
            f"but is {space}."
        )
    return Part(name, "one_hot", (*shape[:-1], sum(sizes)), "uint8", 0, 1, sizes=sizes, given=shape)


def _text(name: str, choices: Choices, examples: Sequence[str]) -> Part:
    words = [split(text) for text in examples]
    vocabulary = choices.vocabulary or sorted({word for text in words for word in text})
    known = [word for word in vocabulary if word not in ("", UNKNOWN)]
    length = choices.longest or max([1, *map(len, words)])
    return Part(name, "text", (length,), vocabulary=("", UNKNOWN, *known))


def split(text: str) -> list[str]:
    """Words in lower case, without the signs around them."""
    return [word for part in text.lower().split() if (word := part.strip(".,;:!?\"'()"))]


class Writer:
    """Writes values of one part into rows of an array."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.numbers = {word: number for number, word in enumerate(part.vocabulary)}
        if part.kind == "one_hot":
            self.sizes = np.array(part.sizes)
            cells = np.arange(math.prod(part.given[:-1]))[:, None] * sum(part.sizes)
            self.offsets = cells + np.cumsum([0, *part.sizes[:-1]])[None]

    def write(self, row: Any, value: Any) -> None:
        """Into `row`, an array of the part's shape; a value that does not fit is refused."""
        part = self.part
        if part.kind == "text":
            ids = [self.numbers.get(word, 1) for word in split(value)][: part.shape[0]]
            row[:] = 0
            row[: len(ids)] = ids
            return
        given = np.asarray(value)
        if given.shape != tuple(part.given or part.shape):
            raise ValueError(
                f"an observation's {part.name} has shape {given.shape}, but observation_space says "
                f"{tuple(part.given or part.shape)}"
            )
        if part.kind == "one_hot":
            self._ones(row, given)
            return
        array = (given - part.start if part.start else given).astype(part.dtype)
        if array.dtype.kind in "iu" and (array != (given - part.start if part.start else given)).any():
            raise ValueError(f"{given.dtype} observations become {part.dtype} here, but {given} does not fit")
        row[...] = array

    def _ones(self, row: Any, given: Any) -> None:
        values = given.reshape(-1, len(self.sizes))
        if ((values < 0) | (values >= self.sizes)).any():
            raise ValueError(f"{self.part.name} holds {values.max(0).tolist()}, which one_hot has no room for")
        row[...] = 0
        row.reshape(-1)[(self.offsets + values).reshape(-1)] = 1
