"""A field's comment is its docstring in the API reference: an extension of griffe (mkdocs.yml names it).

chunk: int = 32  # steps of a chunk: this is found

"""

import io
import tokenize
from typing import Any

import griffe


class Comments(griffe.Extension):
    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        if attr.docstring is None and attr.lines and (text := trailing_comment(attr.lines[-1])):
            attr.docstring = griffe.Docstring(text, lineno=attr.endlineno, parent=attr)


def trailing_comment(line: str) -> str:
    """The text of the comment that ends a line of code, as a sentence."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(line.strip()).readline))
    except tokenize.TokenError:  # the last line of a longer statement
        return ""
    text = next((token.string for token in tokens if token.type == tokenize.COMMENT), "").lstrip("# ")
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", ")")) else ".") if text else ""
