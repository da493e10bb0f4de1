"""A real browser for tests of the pages that hcam makes: Chromium, driven by Playwright, with no way to any other host.

    def test_the_page_opens(open_page, tmp_path):
        visit = open_page(tmp_path / "page.html", width=390, height=844)
        visit.page.keyboard.press("ArrowRight")
        visit.check()

The fixtures are known to every test (tests/conftest.py names this file). Where there is no Chromium, a test that asks
for one is skipped; in continuous integration, which installs it, the test fails instead.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, ViewportSize

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LAPTOP: "ViewportSize" = {"width": 1366, "height": 768}
PHONE: "ViewportSize" = {"width": 390, "height": 844}
FLAGS = [
    "--headless",
    "--no-sandbox",  # which Chromium refuses to root, as containers are; the pages are our own
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
INSIDE = {"file", "data", "blob", "about"}  # schemes that reach no network


@dataclass(frozen=True)
class Visit:
    """An open page, with all that went wrong in it and all that it asked for, from before its first line ran."""

    page: "Page"
    origin: str  # of the page itself: "" for a file
    problems: list[str] = field(default_factory=list)  # errors on the console, uncaught exceptions, failed requests
    requests: list[str] = field(default_factory=list)  # addresses

    def outside(self) -> list[str]:
        """The addresses that the page asked for and that are not its own."""
        return [a for a in self.requests if urlsplit(a).scheme not in INSIDE and origin(a) != self.origin]

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window: 0 where nothing scrolls sideways."""
        width: int = self.page.evaluate("document.scrollingElement.scrollWidth - document.documentElement.clientWidth")
        return width

    def check(self) -> None:
        """Nothing went wrong, and no request left the page."""
        self.page.evaluate("0")  # what is already on its way here arrives before the answer
        assert not self.problems, self.problems
        assert not self.outside(), self.outside()


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """One Chromium for all tests of a session."""
    program = chromium()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("needs Playwright: install hcam[dev]")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: "Browser") -> Iterator[Callable[..., Visit]]:
    """A function that opens a file or an address in a window of its own; all are closed when the test is over.

    `open_page(where, width=1366, height=768, **options)`: the options are those of Playwright's `Browser.new_context`,
    such as color_scheme="dark" or has_touch=True.
    """
    contexts = []

    def opened(where: Path | str, width: int = 1366, height: int = 768, **options: Any) -> Visit:
        address = where.resolve().as_uri() if isinstance(where, Path) else where
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        context.set_default_timeout(20_000)  # two tests may share two cores with a training
        visit = Visit(context.new_page(), origin(address))
        record(visit)
        visit.page.goto(address)
        return visit

    yield opened
    for context in contexts:
        context.close()


def record(visit: Visit) -> None:
    """Keeps what the page complains about and what it asks for."""
    page, problems = visit.page, visit.problems
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("requestfailed", lambda request: problems.append(f"{request.url}: {request.failure}"))
    page.on("request", lambda request: visit.requests.append(request.url))


def origin(address: str) -> str:
    """Scheme and host, or "" for an address without a host."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""


def chromium() -> str:
    """The path of the installed browser; without one, the test is over."""
    return next(filter(None, map(shutil.which, NAMES)), None) or missing(
        "needs Chromium: install Debian's package chromium"
    )


def missing(reason: str) -> NoReturn:
    """Skips; but continuous integration has a browser, and must not go green without it."""
    if "CI" in os.environ:
        pytest.fail(f"This test {reason}.")
    pytest.skip(reason)
