"""Twelve episodes of the published Ballet, as it plays them: the hashes were measured on the released environment.

Of an episode: the numpy seed of its generator, how many episodes of the same generator came before, and what it drew.
While the instruction says watch, actions do nothing; from then on, `action` three times reaches the target. `sha` is of
all frames, one after another, as uint8; `first` and `last` are of these frames alone. All are cut short.
"""

from typing import Any, NamedTuple


class Golden(NamedTuple):
    seed: int
    dancers: int
    delay: int
    episode: int
    target: int
    instruction: str
    action: int
    frames: int
    sha: str
    first: str
    last: str
    description: dict[str, Any]


_ROWS = """
0 2 16 0 1 zee           2  66 2fa3bacae5391eeba47b4b728f03f3b4 fa011c2a814277b5 890fed5cf8511358
0 2 16 1 1 plus_ccw      5  66 e23f2062b67a877ac53e34aab604f582 3287898d7a3801b6 481e1d5b16d8889e
1 2 48 0 0 circle_ccw    5 130 97c523366635f5b6425f3de702cf6e56 623d0df34d9121e9 df426c0ae58545ca
1 2 48 1 0 diagonal_urdl 7 130 3b9a9b5f1265210b1a139f722e93d567 551d02e305018c08 5ede010c83789490
2 4 16 0 3 chevron_up    5 128 fd2c2fcb8d3cdbf4a3547664bb5e629a
2 4 16 1 1 up_and_down   2 128 40a73b3fbada51fb70805abe2430b597
3 8 16 0 6 times_ccw     5 252 3ab078323919de909baa65cc4f5ac2e0
3 8 16 1 5 chevron_up    1 252 c065eb5daf0879b0d9a361b07837c196
4 8 48 0 5 times_cw      2 508 50b989ba763d46f15afe9b1f5fddd709
4 8 48 1 2 times_ccw     1 508 977dde80e0b50dfb42b770398b77eaa0
5 6 16 0 4 circle_ccw    7 190 214fcf7b484651d3c367babb2b05d05e
5 6 16 1 1 diagonal_uldr 5 190 87f8039e7fdf07ffd46536ed5728bfc0
"""

# A row is a row above; its dancers in the order in which they dance.
_DANCERS = """
28 up_and_down plus orange; 58 zee vertical_stripes yellow
52 zee tee dark_red; 82 plus_ccw empty_square yellow
82 circle_ccw upside_down_u brown; 22 times_ccw inverse_ex red
22 diagonal_urdl empty_circle dark_blue; 25 circle_cw tee teal
28 times_cw h blue; 88 left_and_right inverse_plus green; 85 diagonal_urdl circle cyan; 82 chevron_up triangle pink
52 chevron_up empty_circle dark_red; 58 up_and_down plus rose; 88 diagonal_uldr u light_green; 22 plus_ccw triangle pink
88 diagonal_uldr triangle blue; 22 chevron_up upside_down_u light_green; 28 diagonal_urdl circle olive; \
25 times_cw vertical_stripes pink; 58 left_and_right empty_square brown; 85 circle_cw horizontal_stripes light_yellow; \
82 times_ccw ex purple; 52 zee tee teal
82 plus_ccw upside_down_tee dark_green; 88 chevron_down triangle orange; 52 circle_cw empty_square light_green; \
58 plus_cw upside_down_u teal; 85 up_and_down horizontal_stripes yellow; 28 chevron_up vertical_stripes purple; \
25 diagonal_uldr h cyan; 22 diagonal_urdl empty_circle dark_red
25 circle_cw h green; 85 plus_ccw circle cyan; 28 times_ccw ex purple; 22 chevron_up u dark_red; \
88 diagonal_urdl upside_down_tee blue; 58 times_cw upside_down_u teal; 82 circle_ccw horizontal_stripes dark_blue; \
52 zee empty_circle lavender
52 diagonal_uldr vertical_stripes dark_green; 82 zee empty_circle teal; 28 times_ccw upside_down_u peach; \
85 times_cw upside_down_tee orange; 88 chevron_down inverse_ex red; 22 chevron_up inverse_plus blue; \
58 plus_cw empty_square rose; 25 plus_ccw ex pink
25 times_ccw circle peach; 58 plus_cw upside_down_u lavender; 28 left_and_right triangle blue; \
52 plus_ccw upside_down_tee brown; 22 circle_ccw u olive; 88 circle_cw vertical_stripes teal
58 diagonal_urdl ex blue; 82 diagonal_uldr circle peach; 52 chevron_down horizontal_stripes teal; \
85 plus_ccw inverse_ex rose; 25 up_and_down triangle orange; 22 times_cw empty_circle pink
"""


def _dancer(text: str) -> dict[str, Any]:
    home, dance, shape, color = text.split()
    return {"home": [int(home[0]), int(home[1])], "dance": dance, "shape": shape, "color": color}


def _golden(row: str, dancers: str) -> Golden:
    seed, number, delay, episode, target, instruction, action, frames, sha, *ends = row.split()
    first, last = ends or ("", "")
    cast = [_dancer(text) for text in dancers.split(";")]
    description = {"dancers": cast, "target": int(target), "delay": int(delay)}
    numbers = (int(seed), int(number), int(delay), int(episode), int(target))
    return Golden(*numbers, instruction, int(action), int(frames), sha, first, last, description)


GOLDEN = [_golden(*rows) for rows in zip(_ROWS.strip().splitlines(), _DANCERS.strip().splitlines(), strict=True)]
