"""A short document of paragraphs, tables and pictures, as Markdown and as one HTML page.

All text in it is plain and may come from outside: both forms show it and nothing in it is markup. The page holds its
pictures and loads nothing.
"""

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hcam.report.markdown import escape, row
from hcam.runs.files import exists, explained, read_file, write_file
from hcam.runs.text import printable

MADE_BY = "Made by hcam report"  # stands in every file that may be replaced
LIMIT = 64 * 2**20  # bytes of a picture or of a document

STYLE = """
:root { color-scheme: light dark; --ink: #1d1d1f; --faint: #6b6b70; --line: #d9d9de; --ground: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8ea; --faint: #a0a0a6; --line: #3c3c42; --ground: #18181b; }
}
body { margin: 2rem auto; max-width: 64rem; padding: 0 1rem; color: var(--ink); background: var(--ground);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
p, footer { color: var(--faint); max-width: 46rem; }
div { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.35rem 0 0.35rem 1.2rem; text-align: right; vertical-align: top; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { padding-left: 0; text-align: left; white-space: normal; overflow-wrap: anywhere;
  min-width: 7rem; max-width: 20rem; }
tr.strong td { font-weight: 600; }
img { max-width: 100%; background: #ffffff; border-radius: 6px; }
footer { margin-top: 3rem; font-size: 0.85rem; }
"""


Cell = str | tuple[str, ...]  # one line or several


@dataclass(frozen=True)
class Table:
    head: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    strong: frozenset[int] = frozenset()  # the rows that others belong to


@dataclass(frozen=True)
class Picture:
    file: Path  # .svg or .png, beside the document
    shows: str  # for those who do not see it


@dataclass(frozen=True)
class Heading:
    text: str


Block = str | Heading | Table | Picture  # a text is a paragraph


def markdown(title: str, blocks: Sequence[Block]) -> str:
    parts = [f"# {escape(title)}", *map(_markdown, blocks), f"{MADE_BY}."]
    return "\n\n".join(parts) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading(text):
            return f"## {escape(text)}"
        case Picture(file, shows):
            return f"![{escape(shows)}]({file.name})"
        case Table(head, rows, strong):
            lines = [row(*map(_cell, head)), row(*["---"] * len(head))]
            for number, cells in enumerate(rows):
                first, *rest = map(_cell, cells)
                lines.append(row(f"**{first}**" if number in strong and first else first, *rest))
            return "\n".join(lines)
        case _:
            return escape(block)


def _cell(cell: Cell) -> str:
    return "<br>".join(map(escape, lines_of(cell)))


def lines_of(cell: Cell) -> Sequence[str]:
    return (cell,) if isinstance(cell, str) else cell


def page(title: str, blocks: Sequence[Block]) -> str:
    """One HTML page, without scripts; a browser may not load anything for it."""
    allowed = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    shown = _html(title)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{allowed}">
<meta name="generator" content="{MADE_BY}">
<title>{shown}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{shown}</h1>
{chr(10).join(map(_block, blocks))}
<footer>{MADE_BY}.</footer>
</body>
</html>
"""


def _html(text: str) -> str:
    return html.escape(printable(text))


def _block(block: Block) -> str:
    match block:
        case Heading(text):
            return f"<h2>{_html(text)}</h2>"
        case Picture(file, shows):
            kind = "svg+xml" if file.suffix == ".svg" else "png"
            data = base64.b64encode(read_file(file, LIMIT)).decode("ascii")
            return f'<img alt="{_html(shows)}" src="data:image/{kind};base64,{data}">'
        case Table(head, rows, strong):
            lines = [f"<tr>{''.join(f'<th>{_lines(cell)}</th>' for cell in head)}</tr>"]
            for number, cells in enumerate(rows):
                kind = ' class="strong"' if number in strong else ""
                lines.append(f"<tr{kind}>{''.join(f'<td>{_lines(cell)}</td>' for cell in cells)}</tr>")
            return f"<div tabindex='0'><table>\n{chr(10).join(lines)}\n</table></div>"
        case _:
            return f"<p>{_html(block)}</p>"


def _lines(cell: Cell) -> str:
    return "<br>".join(map(_html, lines_of(cell)))


def refuse_foreign(*files: Path) -> None:
    """Raises ValueError where a file of this name was not made here, before anything is replaced."""
    for file in files:
        if exists(file) and not (file.is_file() and MADE_BY.encode() in read_file(file, LIMIT, follow=False)):
            raise ValueError(
                f"{file} exists already and was not made by `hcam report`: move it away, or choose another folder with "
                "--out."
            )


def write(title: str, blocks: Sequence[Block], *files: Path) -> None:
    """Writes the document in the form that each name ends in, .md or .html."""
    for file in files:
        text = page(title, blocks) if file.suffix == ".html" else markdown(title, blocks)
        with explained(f"{file} cannot be written"):
            write_file(file, text.encode())
