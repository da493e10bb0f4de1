"""What MkDocs does not do by itself for the documentation site (mkdocs.yml names this file under `hooks`).

The pages are written so that they also read well where they lie, in the repository. Hence, while the site is built:

* a file outside docs/ that a page links to comes into the site, and the link leads to it there;
* `<!-- viewer: NAME -->` becomes an episode to watch if docs/viewers/NAME.html exists, and otherwise nothing;
* a link that reads as the name of its file, `[tasks.md](tasks.md)`, reads as the page is called in the navigation;
* the pages of the log are listed beside the others, in the order of their own list;
* the home page has the whole width, and a search lists what explains before what defines.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

HOME, LOG = "index.md", "log/README.md"
BOOST = {"api": 0.15, "log": 0.5}  # in a search: first what explains, then what defines or tells how it came about
LINK = re.compile(r"(?<=\]\()(?P<path>\.\./[^)#\s]+)")  # the target of a Markdown link that goes up
NAMED = re.compile(r"\[[\w/]+\.md\]\((?P<path>[\w/.-]+\.md)(?P<anchor>#[\w-]+)?\)")
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


def _titles(entries: Any) -> dict[str, str]:
    """The titles of pages in the navigation, by path."""
    if isinstance(entries, list):
        return {path: title for entry in entries for path, title in _titles(entry).items()}
    pairs = entries.items() if isinstance(entries, dict) else ()
    return {p: t for title, inside in pairs for p, t in (_titles(inside) or {f"{inside}": title}).items()}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    docs = Path(config.docs_dir)
    for page in files.documentation_pages():
        for found in LINK.finditer(page.content_string):
            outside = _outside(page.src_uri, found["path"])
            if outside and (docs.parent / outside).is_file() and files.get_file_from_path(outside) is None:
                files.append(File(outside, f"{docs.parent}", config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    here, titles = page.file.src_uri, _titles(config.nav)
    if here == HOME:
        page.meta["hide"] = ["navigation", "toc"]
    page.meta["search"] = {"boost": BOOST.get(posixpath.dirname(here), 1)}

    def into_the_site(found: re.Match[str]) -> str:
        outside = _outside(here, found["path"])
        return _relative(outside, here) if outside else found["path"]

    def titled(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(here), found["path"]))
        return f"[{titles[path]}]({found['path']}{found['anchor'] or ''})" if path in titles else found[0]

    def viewer(found: re.Match[str]) -> str:
        uri = f"viewers/{found['name']}.html"
        return _viewer(_relative(uri, here), page) if files.get_file_from_path(uri) else ""

    return VIEWER.sub(viewer, NAMED.sub(titled, LINK.sub(into_the_site, markdown)))


def _outside(page: str, target: str) -> str | None:
    """The path in the repository of a link's target, if it lies outside docs/."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    return None if path.startswith("docs/") else path


def _relative(uri: str, page: str) -> str:
    return posixpath.relpath(uri, posixpath.dirname(page) or ".")


def _viewer(path: str, page: Page) -> str:
    """The pages lie beside each other as their sources do (use_directory_urls is off), so `path` serves both."""
    return f"""## Watch it remember

An episode, played by a trained agent: what it sees and does at each step, and to which moments of the past each layer
of its memory goes back.

<iframe class="viewer" src="{path}" title="Recall viewer: {page.title}" loading="lazy" allowfullscreen></iframe>

[Open the viewer in the whole window]({path})
"""
