"""What the site makes of a page, piece by piece."""

from pathlib import Path

import pytest
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools import site_hooks


@pytest.fixture
def repository(tmp_path):
    """A repository with two pages, a picture outside docs/, and one episode to watch."""
    contents = {
        "docs/index.md": "# Home",
        "docs/speed.md": "![time](../results/bench.png) and [home](index.md)",
        "docs/tasks/duck.md": "[speed](../speed.md)\n\n![time](../../results/bench.png)\n\n<!-- viewer: duck -->",
        "docs/log/README.md": "* [second](2026-b.md)\n* [first](2026-a.md)",
        "docs/viewers/duck.html": "<p>an episode</p>",
        "results/bench.png": "a picture",
    }
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


@pytest.fixture
def config(repository):
    config = MkDocsConfig()
    config.load_dict({"site_name": "a site", "docs_dir": f"{repository / 'docs'}", "use_directory_urls": False})
    config.load_dict({"site_dir": f"{repository / 'site'}"})
    assert config.validate() == ([], [])
    return config


def files(config, *left_out):
    folder = Path(config.docs_dir)
    paths = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    return Files([File(path, f"{folder}", config.site_dir, False) for path in sorted(set(paths) - set(left_out))])


def made(config, files, name):
    """The Markdown that MkDocs gets of a page, and the page."""
    file = files.get_file_from_path(name)
    page = Page(None, file, config)
    return site_hooks.on_page_markdown(file.content_string, page, config, files), page


def test_a_file_from_outside_comes_into_the_site_once(config, repository):
    found = site_hooks.on_files(files(config), config)
    outside = [file for file in found if file.src_uri.startswith("results/")]
    assert [file.src_uri for file in outside] == ["results/bench.png"]
    assert outside[0].abs_src_path == f"{repository / 'results/bench.png'}"


def test_links_lead_to_it_from_every_folder(config):
    found = site_hooks.on_files(files(config), config)
    assert made(config, found, "speed.md")[0] == "![time](results/bench.png) and [home](index.md)"
    markdown = made(config, found, "tasks/duck.md")[0]
    assert "[speed](../speed.md)" in markdown
    assert "![time](../results/bench.png)" in markdown


def test_a_file_that_is_not_there_is_left_to_the_strict_build(config, repository):
    (repository / "results/bench.png").unlink()
    found = site_hooks.on_files(files(config), config)
    assert not [file for file in found if file.src_uri.startswith("results/")]


def test_an_episode_is_embedded_where_there_is_one(config):
    with_it, _ = made(config, files(config), "tasks/duck.md")
    assert '<iframe class="viewer" src="../viewers/duck.html"' in with_it
    assert "](../viewers/duck.html)" in with_it
    without, _ = made(config, files(config, "viewers/duck.html"), "tasks/duck.md")
    assert "viewer" not in without


def test_the_log_is_listed_in_its_own_order(config):
    config.nav = [{"Home": "index.md"}, {"Background": [{"Log": ["log/README.md"]}]}]
    site_hooks.on_config(config)
    log = ["log/README.md", "log/2026-b.md", "log/2026-a.md"]
    assert config.nav == [{"Home": "index.md"}, {"Background": [{"Log": log}]}]


def test_a_link_reads_as_its_page_is_called(config, repository):
    config.nav = [{"Home": "index.md"}, {"Guides": [{"How fast": "speed.md"}, {"Log": ["log/README.md"]}]}]
    page = repository / "docs/tasks/duck.md"
    page.write_text("[speed.md](../speed.md#gpu), [the speed](../speed.md), [2026-a.md](../log/2026-a.md)")
    markdown, _ = made(config, files(config), "tasks/duck.md")
    assert markdown == "[How fast](../speed.md#gpu), [the speed](../speed.md), [2026-a.md](../log/2026-a.md)"


def test_the_home_page_has_the_whole_width(config):
    assert made(config, files(config), "index.md")[1].meta["hide"] == ["navigation", "toc"]
    assert "hide" not in made(config, files(config), "speed.md")[1].meta
