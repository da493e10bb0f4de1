"""What MkDocs does not do by itself for the documentation site (mkdocs.yml names this file under `hooks`).

The pages are written so that they also read well where they lie, in the repository. Hence, while the site is built:

* a link that leads out of docs/ gets the file into the site;
* `<!-- viewer: NAME -->` becomes an episode to watch, where docs/viewers/NAME.html exists, and nothing where it does not;
* the pages of the log are listed beside the others, in the order of their own list;
* the home page has the whole width.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ELSEWHERE = "repository"  # where the site keeps files from outside docs/
LOG = "log/README.md"
LINK = re.compile(r"(?<=\]\()(?P<path>\.\./[^)#\s]+)")  # the target of a Markdown link that goes up
VIEWER = re.compile(r"^<!-- viewer: (?P<name>[\w-]+) -->$", flags=re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    listed = re.findall(r"\]\(([\w-]+\.md)\)", (Path(config.docs_dir) / LOG).read_text(encoding="utf-8"))
    pages = [LOG, *(f"log/{name}" for name in listed)]
    config.nav = [_with_log(entry, pages) for entry in config.nav or []]
    return config


def _with_log(entry: Any, pages: list[str]) -> Any:
    """The entry of the navigation, with `pages` in place of a list that holds the log alone."""
    if isinstance(entry, dict):
        return {title: _with_log(inside, pages) for title, inside in entry.items()}
    if isinstance(entry, list):
        return pages if entry == [LOG] else [_with_log(inside, pages) for inside in entry]
    return entry


def on_files(files: Files, config: MkDocsConfig) -> Files:
    docs = Path(config.docs_dir)
    for page in files.documentation_pages():
        for found in LINK.finditer(page.content_string):
            outside = _outside(page.src_uri, found["path"])
            source = docs.parent / (outside or "")
            uri = f"{ELSEWHERE}/{outside}"
            if outside and source.is_file() and files.get_file_from_path(uri) is None:
                files.append(File.generated(config, uri, abs_src_path=f"{source}"))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    here = page.file.src_uri
    if page.is_homepage:
        page.meta["hide"] = ["navigation", "toc"]

    def into_the_site(found: re.Match[str]) -> str:
        outside = _outside(here, found["path"])
        return _relative(f"{ELSEWHERE}/{outside}", here) if outside else found["path"]

    def viewer(found: re.Match[str]) -> str:
        uri = f"viewers/{found['name']}.html"
        return _viewer(_relative(uri, here), page) if files.get_file_from_path(uri) else ""

    return VIEWER.sub(viewer, LINK.sub(into_the_site, markdown))


def _outside(page: str, target: str) -> str | None:
    """The path in the repository of a link's target, if it lies outside docs/."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    return None if path.startswith("docs/") else path


def _relative(uri: str, page: str) -> str:
    return posixpath.relpath(uri, posixpath.dirname(page) or ".")


def _viewer(path: str, page: Page) -> str:
    """The pages lie beside each other as their sources do (use_directory_urls is off), so `path` serves both."""
    return f"""## Watch it remember

An episode, played by a trained agent: what it sees and does at each step, and which moments of the past each layer of its
memory goes back to.

<iframe class="viewer" src="{path}" title="Recall viewer: {page.title}" loading="lazy" allowfullscreen></iframe>

[Open the viewer in the whole window]({path})
"""
