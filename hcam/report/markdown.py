"""Markdown from any text."""


def escape(text: str) -> str:
    return text.replace("|", "/")


def code(text: str) -> str:
    return f"`{text}`"


def row(*cells: str) -> str:
    return f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in cells)}|"
