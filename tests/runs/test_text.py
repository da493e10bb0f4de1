import pytest
from hypothesis import given
from hypothesis import strategies as st

from hcam.runs.text import printable


@pytest.mark.parametrize("text", ["", "runs/ballet-hcam-1", "[/x]", "x$\\foo$", "café ▁▂ 日本 😀"])
def test_what_can_be_shown_stays_as_it_is(text):
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("a\nb\tc\rd", r"a\nb\tc\rd"),
        ("\x00\x07\x7f\x9b", r"\x00\x07\x7f\x9b"),
        ("a\u202eb", r"a\u202eb"),  # what follows would be written from right to left
        ("a\udcffb", r"a\udcffb"),  # a file's name that is not UTF-8
        ("\u2028\ue000", r"\u2028\ue000"),
    ],
)
def test_what_a_terminal_would_act_on_is_escaped(text, shown):
    assert printable(text) == shown


@given(st.text(st.characters()))
def test_any_text_is_one_line_that_can_be_encoded(text):
    shown = printable(text)
    assert shown.isprintable()
    assert shown.encode("utf-8").decode("utf-8") == shown


def test_any_object_is_text_first():
    assert printable(ValueError("a\nb")) == r"a\nb"
