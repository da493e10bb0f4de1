"""Ballet once more, slowly and differently: plain Python that moves dancers step by step and paints tile by tile."""

import numpy as np

from hcam.envs.render.sprites import COLORS, SHAPES
from hcam.envs.tasks.ballet.choreography import DANCES

DIRECTIONS = {0: (-1, 0), 1: (-1, 1), 2: (0, 1), 3: (1, 1), 4: (1, 0), 5: (1, -1), 6: (0, -1), 7: (-1, -1)}


class SlowBallet:
    def __init__(self, description, tile=9):
        self.tile, self.delay, self.target = tile, description["delay"], description["target"]
        self.limit = description.get("max_steps", 320 if self.delay == 16 else 1024)
        self.dancers = [dict(dancer, at=tuple(dancer["home"])) for dancer in description["dancers"]]
        self.agent, self.frame = (5, 5), 0
        self._dance()

    @property
    def free_at(self):
        return len(self.dancers) * (15 + self.delay)

    def step(self, action):
        """Reward, terminated, truncated."""
        if self.frame >= self.free_at and action in DIRECTIONS:
            row, col = (here + by for here, by in zip(self.agent, DIRECTIONS[action], strict=True))
            if 1 <= row <= 9 and 1 <= col <= 9:
                self.agent = (row, col)
        self.frame += 1
        self._dance()
        on = [number for number, dancer in enumerate(self.dancers) if dancer["at"] == self.agent]
        if on:
            return float(on[0] == self.target), True, False
        return 0.0, False, self.frame >= self.limit

    def _dance(self):
        for number, dancer in enumerate(self.dancers):
            move = self.frame - number * (15 + self.delay)
            if 0 <= move < 16:
                by = DIRECTIONS[int(DANCES[dancer["dance"]][move])]
                dancer["at"] = (dancer["at"][0] + by[0], dancer["at"][1] + by[1])

    @property
    def instruction(self):
        return "watch" if self.frame < self.free_at else self.dancers[self.target]["dance"]

    @property
    def image(self):
        """The whole board and a margin, painted in order; then the part around the agent."""
        margin, tile = 5, self.tile
        board = np.zeros(((11 + 2 * margin) * tile,) * 2 + (3,), np.uint8)

        def paint(at, picture):
            row, col = ((here + margin) * tile for here in at)
            board[row : row + tile, col : col + tile] = picture

        for row in range(11):
            for col in range(11):
                if row in (0, 10) or col in (0, 10):
                    paint((row, col), 40)
        paint(self.agent, 255)
        for dancer in self.dancers:
            paint(dancer["at"], self._sprite(dancer["shape"])[..., None] * np.array(COLORS[dancer["color"]], np.uint8))
        row, col = ((here + margin - 5) * tile for here in self.agent)
        return board[row : row + 11 * tile, col : col + 11 * tile]

    def _sprite(self, shape):
        lit = np.array([[int(bit) for bit in f"{int(row, 16):09b}"] for row in SHAPES[shape].split()], np.uint8)
        return {9: lit, 3: lit[1::3, 1::3], 1: np.ones((1, 1), np.uint8)}[self.tile]
