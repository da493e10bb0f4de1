"""The browser that other tests look through must see what goes wrong."""

import os
import shutil

import pytest

from tests.browser import LAPTOP, PHONE, chromium

PAGE = """<!doctype html><title>{title}</title><meta name="viewport" content="width=device-width">
<body style="margin: 0"><div style="width: {width}px">dance</div><script>{code}</script>"""


@pytest.fixture
def page(tmp_path):
    def written(title="a page", width=100, code=""):
        path = tmp_path / "page.html"
        path.write_text(PAGE.format(title=title, width=width, code=code))
        return path

    return written


def test_a_faultless_page_passes(open_page, page):
    visit = open_page(page(), **PHONE)
    visit.check()
    assert visit.page.title() == "a page"
    assert visit.requests == [page().as_uri()]
    assert visit.overflow() == 0


@pytest.mark.parametrize(
    "code",
    [
        "console.error('no dance')",
        "throw Error('no dance')",
        "document.body.append(Object.assign(new Image(), {src: 'https://example.org/no_dance.png'}))",
        "document.body.append(Object.assign(new Image(), {src: 'no_dance.png'}))",
    ],
    ids=["error on the console", "exception", "another host", "missing file"],
)
def test_what_goes_wrong_is_seen(open_page, page, code):
    visit = open_page(page(code=code), **LAPTOP)
    with pytest.raises(AssertionError, match=r"no.dance"):
        visit.check()
    assert bool(visit.outside()) == ("example.org" in code)


def test_a_page_wider_than_its_window_is_seen(open_page, page):
    assert open_page(page(width=600), **PHONE).overflow() == 210


@pytest.mark.parametrize(("environment", "outcome"), [({}, pytest.skip), ({"CI": "true"}, pytest.fail)])
def test_without_chromium_tests_skip_but_not_in_continuous_integration(monkeypatch, environment, outcome):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(os, "environ", environment)
    with pytest.raises(outcome.Exception, match="Debian's package chromium"):
        chromium()
