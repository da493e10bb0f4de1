"""Text from outside as Markdown: whatever a name holds, a page shows it and nothing in it is markup.

For prose use `escape`, for names and commands `code` and `block`, and put cells into a table with `row`.
"""

import re
from collections.abc import Iterable

from hcam.runs.text import printable

# What means something anywhere in a line. As an entity, a pipe does not end a cell of a table either.
ANYWHERE = {char: f"\\{char}" for char in "\\`*[]<>&~$"} | {"|": "&#124;"}


def escape(text: object) -> str:
    """Returns Markdown that shows this text, in prose or in a cell of a table."""
    shown = "".join(ANYWHERE.get(char, char) for char in printable(text))
    shown = re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", shown)  # inside a word it means nothing
    shown = re.sub(r"^([0-9]{1,9})(?=[.)]( |$))", r"\1\\", shown)  # 1. would begin a list,
    shown = re.sub(r"^(?=[#+=:-])", r"\\", shown)  # # a heading, - a list; = would make a heading of the line above
    shown = shown.replace("://", ":\\//").replace("www.", "www\\.")  # else GitHub makes a link of it
    edges = re.fullmatch(r"( *)(.*?)( *)", shown)  # spaces in front may begin a block of code; it always matches
    return "&#32;" * len(edges[1]) + edges[2] + "&#32;" * len(edges[3]) if edges else shown


def code(text: object) -> str:
    """Returns a code span that shows this text, whatever it holds; in a table, put it there with `row`."""
    shown = printable(text) or " "
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    spaced = shown.startswith("`") or shown.endswith("`") or (shown[0] == shown[-1] == " " and shown.strip())
    return f"{fence} {shown} {fence}" if spaced else f"{fence}{shown}{fence}"


def block(lines: Iterable[object]) -> str:
    """Returns a block of code with these lines."""
    shown = "\n".join(map(printable, lines))
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    return f"{fence}\n{shown}\n{fence}"


def row(*cells: str) -> str:
    """Returns a row of a table; cells are Markdown. A pipe in a cell, also within code, does not end it."""
    inside = (cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
    return f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in inside)}|"
