"""What a Markdown parser makes of hostile names: text, and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from hcam.recipes.ballet import RECIPE
from hcam.report import panels
from hcam.report.markdown import block, code, escape, row
from hcam.report.page import chapter
from hcam.runs.text import printable
from tests.report.folders import made

PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])

HOSTILE = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<!-- ", "</td></tr></table>", "&lt;b&gt;", "&#35;",
    "# heading", "## two", "heading\n===", "---", "===", "- list", "* list", "+ list", "1. list", "12) list", "> quote",
    "![image](http://example.org/x.png)", "[link](javascript:alert(1))", "[a]: http://example.org", "<http://x.org>",
    "a|b", "| a | b |", "|---|", "a\\|b", "\\|", "\\", "a\\", "`", "``", "```", "```\ncode\n```", "~~~", "`a|b`",
    "a`b``c", "*a*", "_a_", "a_b_c", "_a_b", "a _b_ c", "é_a_é", "**b**", "~~c~~", "$\\alpha$",
    "    four spaces", "  two  ", " ", "", "\t", "a\n\nb",
    "a\r\nb", "a\x00b", "a\x1b[31mb", "\u202eabc", "\udcff", "a\u2028b", "{{ x }}", "{% raw %}", "<br>", "a  \nb",
    ":---:", "----|----", "` <b> `", " `x` ", "``a`", "x" * 5000, "\\`<b>\\`", "&amp;lt;", "\\&lt;", "www.example.org",
    "https://example.org",
]  # fmt: skip

anything = st.text(st.characters() | st.sampled_from("\\`*_[]<>&~$|#+-=:!.() \n"), max_size=30) | st.sampled_from(
    HOSTILE
)


def flat(tokens: list[Any]) -> list[Any]:
    return [one for token in tokens for one in (token, *flat(token.children or []))]


def paragraph(text: str) -> list[Any]:
    """What is inside the one paragraph that a text must be."""
    tokens = PARSER.parse(text)
    assert [token.type for token in tokens] in (["paragraph_open", "inline", "paragraph_close"], [])
    return (tokens[1].children or []) if tokens else []


def cells(*content: str) -> list[list[Any]]:
    """What is inside the cells of a table's one row."""
    head = [row(*"ab"[: len(content)]), row(*["---"] * len(content))]
    tokens = PARSER.parse("\n".join([*head, row(*content), "", "After."]))
    assert {token.type.removesuffix("_open").removesuffix("_close") for token in tokens} == {
        "table", "thead", "tbody", "tr", "th", "td", "inline", "paragraph"
    }  # fmt: skip
    assert [token.type for token in tokens][-3:] == ["paragraph_open", "inline", "paragraph_close"]
    assert sum(token.type == "td_open" for token in tokens) == len(content)
    found = [tokens[n + 1].children for n, token in enumerate(tokens) if token.type == "td_open"]
    return [children or [] for children in found]


def shown(children: list[Any]) -> str:
    assert {child.type for child in children} <= {"text"}
    return "".join(child.content for child in children)


@given(anything)
def test_escaped_text_is_text(text: str):
    assert shown(paragraph(escape(text))) == printable(text)


@given(anything)
def test_escaped_text_is_text_inside_a_sentence(text: str):
    assert shown(paragraph(f"state: {escape(text)}, more")) == f"state: {printable(text)}, more"


@given(anything)
def test_code_is_one_span(text: str):
    (span,) = paragraph(code(text))
    assert span.type == "code_inline"
    assert span.content == (printable(text) or " ")


@given(anything, anything)
def test_a_row_has_its_cells_and_no_others(left: str, right: str):
    first, second = cells(escape(left), code(right))
    assert shown(first).strip() == printable(left).strip()
    (span,) = second
    assert (span.type, span.content) == ("code_inline", printable(right) or " ")


@given(st.lists(anything, max_size=3))
def test_a_block_holds_its_lines(lines: list[str]):
    tokens = PARSER.parse(block(lines) + "\n\nAfter.")
    assert [token.type for token in tokens] == ["fence", "paragraph_open", "inline", "paragraph_close"]
    assert tokens[0].content == "\n".join(map(printable, lines)) + "\n"
    assert tokens[0].info == ""


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_hostile_gets_through(text: str):
    page = "\n\n".join([escape(text), code(text), f"Runs: {escape(text)} and {code(text)}.", block([text])])
    page += "\n\n" + "\n".join([row("a", "b"), row("---", "---"), row(escape(text), code(text))])
    tokens = flat(PARSER.parse(page))
    kinds = {token.type for token in tokens}
    assert not kinds & {
        "html_block",
        "html_inline",
        "image",
        "link_open",
        "heading_open",
        "em_open",
        "strong_open",
        "s_open",
    }
    assert not kinds & {"bullet_list_open", "ordered_list_open", "blockquote_open", "hr", "code_block", "hardbreak"}
    assert sum(token.type == "fence" for token in tokens) == 1
    assert "<script" not in PARSER.render(page)


def test_plain_names_stay_readable():
    for name in ("NVIDIA H200, 0.1.0", "0.1.0", "2_delay16", "hcam-chunk16-0"):
        assert escape(name) == name
    assert code("results/ballet/hcam-0") == "`results/ballet/hcam-0`"
    assert row("a", "", "b") == "| a | | b |"
    assert block(["a", "b"]) == "```\na\nb\n```"


def test_bare_addresses_are_no_links_on_github():
    """It makes links of them where they stand as they are."""
    assert "://" not in escape("https://example.org")
    assert "www." not in escape("www.example.org")


def test_the_page_of_results_shows_hostile_folders_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Names of folders, texts in `made_by`, options of a run and errors all stand on the page."""
    made(tmp_path / "calm", "hcam", 0)
    names = [name for name in HOSTILE if 0 < len(name) < 200 and not {"/", "\0"} & set(name)]
    for number, name in enumerate(names):
        folder = made(tmp_path / "wild", "hcam", number)
        saved = json.loads((folder / "config.json").read_text())
        saved["made_by"] |= dict.fromkeys(("device", "hcam", "commit"), name)
        saved["config"]["task"]["levels"] = [name]
        saved["config"]["agent"]["heads"]["hidden"] = [name]
        (folder / "config.json").write_text(json.dumps(saved))
        (tmp_path / "wild" / name).mkdir()
    (tmp_path / "wild" / "hcam-0" / "metrics.jsonl").write_text('{"steps": 1, "levels": {"<b>|": 3}}\n')
    monkeypatch.setattr(panels, "draw", lambda *args: None)
    calm, wild = (
        flat(PARSER.parse(chapter(RECIPE, root, tmp_path)[0])) for root in (tmp_path / "calm", tmp_path / "wild")
    )
    assert {token.content for token in wild if token.type.startswith("html")} <= {"<br>", "<br/>"}
    for kind in ("heading_open", "image", "link_open", "table_open", "bullet_list_open", "fence", "hr", "th_open"):
        assert sum(t.type == kind for t in wild) == sum(t.type == kind for t in calm), kind
    shown_names = {token.content for token in wild if token.type == "code_inline"}
    assert {printable(name) for name in names} <= shown_names
