"""The documentation site, built once: strictly, complete by itself, without a dead link, and used in a real browser."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache, partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import pytest

from tests.browser import LAPTOP, PHONE

ROOT = Path(__file__).resolve().parents[1]
RESOURCES = {"src", "srcset", "poster", "data"}  # attributes that make a browser fetch something at once
LINKS = {"canonical", "prev", "next", "alternate"}  # relations of <link> that are read and not fetched


class Seen(NamedTuple):
    ids: set[str]
    resources: list[str]
    links: list[str]
    images: list[dict[str, str | None]]


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen = Seen(set(), [], [], [])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.seen.ids.update(filter(None, (named.get("id"), named.get("name") if tag == "a" else None)))
        self.seen.resources.extend(named[name] or "" for name in named if name in RESOURCES)
        if tag == "link" and named.get("rel") not in LINKS:
            self.seen.resources.append(named.get("href") or "")
        if tag == "a" and named.get("href") is not None:
            self.seen.links.append(named["href"] or "")
        if tag == "img":
            self.seen.images.append(named)


@cache
def read(page: Path) -> Seen:
    reader = Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    return reader.seen


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", ROOT / "mkdocs.yml", "--site-dir", folder]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # of MkDocs Material, about the time after this MkDocs
    made = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert "WARNING" not in made.stderr, made.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site) -> list[Path]:
    return sorted(page for page in site.rglob("*.html") if page.parent != site / "viewers")


@pytest.fixture(scope="module")
def served(site) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=f"{site}"))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_every_document_has_a_page(site):
    for path in (ROOT / "docs").rglob("*.md"):
        made = site / path.relative_to(ROOT / "docs").with_suffix(".html")
        assert made.exists() or (path.name == "README.md" and made.with_name("index.html").exists()), path


def test_everything_that_a_page_loads_is_in_the_site(site, pages):
    assert len(pages) > 50
    for page in pages:
        for address in read(page).resources:
            if urlsplit(address).scheme == "data":
                continue
            assert not urlsplit(address).netloc, f"{page.relative_to(site)} loads {address}"
            assert target(site, page, address).is_file(), f"{page.relative_to(site)} loads {address}, which is missing"


def fetched(css: str) -> list[str]:
    """The addresses in a style sheet."""
    return re.findall(r"""(?:url\(\s*["']?|@import\s+["'])([^"')\s]+)""", css)


def test_style_sheets_load_nothing_from_elsewhere(site):
    assert fetched("""@import "a.css"; @import url('b.css'); p { background: url(c.png) }""") == [
        "a.css",
        "b.css",
        "c.png",
    ]
    sheets = list(site.rglob("*.css"))
    assert sheets
    for sheet in sheets:
        outside = [address for address in fetched(sheet.read_text(encoding="utf-8")) if urlsplit(address).netloc]
        assert not outside, f"{sheet.name} loads {outside}"


def test_no_link_is_dead(site, pages):
    dead = []
    for page in pages:
        for address in read(page).links:
            parts = urlsplit(address)
            if parts.scheme in ("http", "https"):
                continue
            found = target(site, page, address)
            if not found.is_file() or (parts.fragment and unquote(parts.fragment) not in read(found).ids):
                dead.append(f"{page.relative_to(site)}: {address}")
    assert not dead


def target(site: Path, page: Path, address: str) -> Path:
    path = unquote(urlsplit(address).path)
    found = (page.parent / path).resolve() if path else page
    if page.name == "404.html" and path.startswith("/"):  # it is shown at any address, so it names things from the root
        found = site / (path.lstrip("/") or "index.html")
    return found  # a folder is no page: without a server, a browser would list its files


def test_every_image_says_what_it_shows(site, pages):
    mute = [f"{p.relative_to(site)}: {image}" for p in pages for image in read(p).images if not image.get("alt")]
    # The logo stands beside the name of the site, which says it already.
    assert [image for image in mute if "logo.svg" not in image] == []


def test_the_search_knows_every_page(site, pages):
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    known = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert known == {f"{page.relative_to(site).as_posix()}" for page in pages} - {"404.html"}
    assert (site / "search" / "search_index.js").exists()  # for pages that are opened from the folder


def test_a_field_is_explained_by_its_comment(site):
    page = (site / "api" / "memory.html").read_text(encoding="utf-8")
    assert 'id="hcam.memory.HCAM.chunk"' in page
    assert "HCAM chunk size" in page  # a comment of the code


# In a browser ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["from the folder", "from a server"])
def test_search_leads_to_the_page(site, served, open_page, how):
    visit = open_page(site / "index.html" if how == "from the folder" else f"{served}/index.html", **LAPTOP)
    visit.page.keyboard.press("/")
    visit.page.keyboard.type("blind spot")
    visit.page.locator(".md-search-result__link", has_text="The blind spot.").press("Enter")
    visit.page.wait_for_url("**/memory.html*")
    assert "The blind spot." in visit.page.locator("article").inner_text()
    visit.check()


PAGES = ["index", "getting_started", "tasks/ballet", "tasks/streets", "results", "api/memory", "log/index"]


@pytest.mark.parametrize("page", PAGES)
def test_no_page_scrolls_sideways(site, open_page, page):
    visit = open_page(site / f"{page}.html", **PHONE)
    assert visit.overflow() == 0
    visit.page.set_viewport_size(LAPTOP)
    visit.page.wait_for_function("document.getAnimations().length == 0")  # the drawer becomes a column
    assert visit.overflow() == 0
    visit.check()


def test_light_and_dark(site, open_page):
    def brightness(visit):
        colour = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", colour)[:3]))

    light, dark = (open_page(site / "index.html", **LAPTOP, color_scheme=scheme) for scheme in ("light", "dark"))
    assert brightness(light) > 700 > 100 > brightness(dark)
    light.page.get_by_title("Switch to dark colours").click()
    assert brightness(light) == brightness(dark)
    light.check()


def test_the_keyboard_reaches_the_text_first_and_then_the_pages(site, open_page):
    visit = open_page(site / "tasks" / "objects.html", **LAPTOP)
    visit.page.keyboard.press("Tab")
    visit.page.keyboard.press("Enter")  # "Skip to content"
    assert urlsplit(visit.page.url).fragment == "object-permanence"
    reached = set()
    for _ in range(60):  # the embedded episode has controls of its own
        visit.page.keyboard.press("Tab")
        reached.add(visit.page.evaluate("document.activeElement.getAttribute('href')"))
    assert {"#an-episode", "../log/2026-11-18-objects-quickstart.html", "words.html"} <= reached
    visit.check()


def test_a_phone_has_the_pages_in_a_drawer(site, open_page):
    visit = open_page(site / "index.html", **PHONE, has_touch=True)
    visit.page.locator("label.md-header__button[for=__drawer]").tap()
    visit.page.locator("label.md-nav__title[for=__nav_1]").tap()  # from the pages beside this one up to all
    visit.page.locator("label.md-nav__link[for=__nav_2]").tap()
    visit.page.locator("nav a[href='tasks/match.html']").locator("visible=true").tap()
    visit.page.wait_for_url("**/tasks/match.html")
    visit.check()
