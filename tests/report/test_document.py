"""A document in both its forms: what it holds is shown, and nothing in it is markup."""

import json
import re
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from hcam.report.document import MADE_BY, Heading, Picture, Table, markdown, page, refuse_foreign, write
from hcam.runs.text import printable
from tests.report.test_markdown import HOSTILE


class Read(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)


def read(text):
    reader = Read()
    reader.feed(text)
    return reader


def document(text, picture):
    table = Table(["", text], [[text, (text, "below")], ["", text]], frozenset({0}))
    return [text, Heading(text), table, Picture(picture, text)]


@pytest.fixture
def picture(tmp_path):
    (tmp_path / "a.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
    return tmp_path / "a.svg"


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_hostile_gets_through(text, picture):
    calm, wild = (read(page(one, document(one, picture))) for one in ("calm", text))
    assert [tag for tag, _ in wild.tags] == [tag for tag, _ in calm.tags]
    for (_, one), (_, other) in zip(wild.tags, calm.tags, strict=True):
        assert {name: value for name, value in one.items() if name != "alt"} == {
            name: value for name, value in other.items() if name != "alt"
        }
    assert printable(text).strip() in " ".join(wild.texts)
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    calm_kinds, wild_kinds = (
        [token.type for token in parser.parse(markdown(one, document(one, picture)))] for one in ("calm", text)
    )
    if text.strip():  # of nothing there is no paragraph
        assert wild_kinds == calm_kinds


def test_a_page_loads_nothing_and_holds_its_pictures(picture):
    text = page("title", document("a", picture))
    assert "default-src 'none'" in text
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    assert "<script" not in text  # the picture's own is inside an image, where none runs
    assert "prefers-color-scheme: dark" in text
    (image,) = [attributes for tag, attributes in read(text).tags if tag == "img"]
    assert (image["src"] or "").startswith("data:image/svg+xml;base64,")


def test_rows_that_others_belong_to_stand_out(picture):
    text = page("t", document("a", picture))
    assert text.count('<tr class="strong">') == 1
    assert "| **a** | a<br>below |" in markdown("t", document("a", picture))
    assert "| a<br>below |" in markdown("t", document("a", picture))


def test_files_of_others_are_not_replaced(tmp_path, picture):
    mine = tmp_path / "report.md"
    refuse_foreign(mine)
    write("t", ["a"], mine, tmp_path / "report.html")
    assert all(MADE_BY in (tmp_path / name).read_text() for name in ("report.md", "report.html"))
    refuse_foreign(mine, tmp_path / "report.html")
    mine.write_text("my notes")
    with pytest.raises(ValueError, match=r"report\.md exists already and was not made by `hcam report`: move it away"):
        refuse_foreign(mine)
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(ValueError, match="exists already"):
        refuse_foreign(tmp_path / "folder.html")
    with pytest.raises(OSError, match=r"cannot be written"):
        write("t", ["a"], tmp_path / "nowhere" / "x.md")
    assert json.dumps(mine.read_text()) == '"my notes"'
