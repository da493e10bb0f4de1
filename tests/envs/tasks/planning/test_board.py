"""The picture of a torus: pixels that must have a colour."""

from hcam.envs.tasks.planning import board
from hcam.envs.tasks.planning.board import AGENT, CELL, GAP, GOAL, SEEN, UNSEEN, WAY


def middle(x, y, side=3):
    return GAP + (side - 1 - y) * (CELL + GAP) + CELL // 2, GAP + x * (CELL + GAP) + CELL // 2


def at(picture, place):
    return tuple(map(int, picture[place]))


def test_cells_agent_goal_and_way():
    """From (0, 0) to the right; the goal is (2, 2)."""
    picture = board.draw(3, [(0, 8), (3, 8)])
    row, column = middle(1, 0)
    assert at(picture, (row, column)) == AGENT
    assert at(picture, (row, column - CELL // 2 - 1)) == WAY
    assert at(picture, (row - CELL // 2, column - CELL // 2)) == SEEN
    assert at(picture, middle(1, 1)) == UNSEEN
    top, right = middle(2, 2)
    assert at(picture, (top, right + CELL // 2 - 2)) == GOAL


def test_a_way_over_the_edge_comes_back_on_the_other_side():
    picture = board.draw(3, [(0, 8), (6, 8)])  # to the left of (0, 0) is (2, 0)
    row = middle(0, 0)[0]
    assert at(picture, (row, 1)) == at(picture, (row, picture.shape[1] - 1)) == WAY
    assert at(picture, middle(1, 0)) == UNSEEN


def test_only_the_way_to_the_present_goal_is_drawn():
    picture = board.draw(3, [(0, 3), (3, 3), (3, 8), (4, 8)])
    row, column = middle(0, 0)
    assert at(picture, (row, column)) == SEEN
    assert at(picture, (middle(1, 0)[0] - CELL // 2, middle(1, 0)[1])) == WAY


def test_two_cells_along_a_side_are_neighbours_twice():
    picture = board.draw(2, [(0, 3), (2, 3)])
    assert at(picture, (middle(0, 0, 2)[0], middle(0, 0, 2)[1] + CELL // 2)) == WAY
