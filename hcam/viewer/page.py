"""One HTML file that holds everything it shows: its data, images, style and script. It asks nobody for anything.

The files in `hcam/viewer/page/` are its parts. The browser is told to run and to load nothing else (a content security
policy), and text from outside never becomes HTML: it travels in JSON, and the script puts it in as text.
"""

import base64
import hashlib
import html
import json
import re
from pathlib import Path
from typing import Any

PARTS = Path(__file__).parent / "page"
SCRIPTS = ("data.js", "frames.js", "timeline.js", "recall.js", "main.js")  # in this order
ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def page(data: dict[str, Any], title: str) -> str:
    """The whole file, from data that is plain JSON."""
    style = _part("watch.css")
    script = '"use strict";\n' + "\n".join(_part(name) for name in SCRIPTS)
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    filled = {
        "{{policy}}": policy,
        "{{title}}": html.escape(title),
        "{{style}}": style,
        "{{data}}": embedded(data),
        "{{script}}": script,
    }
    # All marks in one pass: a content that looks like a mark stays as it is.
    return re.sub(r"\{\{\w+\}\}", lambda found: filled[found[0]], _part("watch.html"))


def embedded(data: Any) -> str:
    """JSON that may stand inside a <script> element, whatever its texts are."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))  # in ASCII, other characters as escapes
    for character, escape in ESCAPED.items():
        text = text.replace(character, escape)
    return text


def _part(name: str) -> str:
    return (PARTS / name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode('ascii')}"
