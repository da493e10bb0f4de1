"""A field's comment becomes its docstring."""

import griffe
import pytest

from tools.comments import Comments, trailing_comment


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("width: int = 64  # of the stream", "Of the stream."),
        ('name: str = "#1"  # "memory name", same table', '"memory name", same table.'),
        ("decay: float = 0.9  # (between 0 and 1)", "(between 0 and 1)"),
        ('name: str = "#1"', ""),
        ("width: int = 64", ""),
        (")", ""),
    ],
)
def test_a_comment_becomes_a_sentence(line, text):
    assert trailing_comment(line) == text


CODE = '''
class Trace:
    width: int = 64  # of the stream
    heads: int = 4  # two
    """Attention heads."""
    layers: int = 2
'''


def test_a_docstring_comes_first():
    with griffe.temporary_visited_package(
        "traces", {"__init__.py": CODE}, extensions=griffe.Extensions(Comments())
    ) as package:
        fields = package["Trace"].members
    assert fields["width"].docstring.value == "Of the stream."
    assert fields["heads"].docstring.value == "Attention heads."
    assert fields["layers"].docstring is None
