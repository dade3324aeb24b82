"""Every link inside the built site leads somewhere, and nothing is loaded from another host.

`make docs` builds the site. rustdoc checks the links of its own pages; here they are targets only.
"""

from __future__ import annotations

import os
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "dist" / "site"
RUST = SITE / "reference" / "api" / "rust"
REPOSITORY = "https://github.com/kimi-agent/kimi-agent/blob/main/"
READMES = ("README.md", "CONTRIBUTING.md", "bindings-python/README.md", "bindings-node/README.md")
# Attributes that load something, by element; `link` loads only some of what it names.
LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}


class Page(HTMLParser):
    """The anchors of a page, its links, and what it loads."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload", "preconnect"):
            self.loaded.add(given["href"])
        if tag in LOADS and LOADS[tag] in given:
            self.loaded.add(given[LOADS[tag]])


@cache
def page(path: Path) -> Page:
    read = Page()
    read.feed(path.read_text("utf-8"))
    return read


def pages() -> list[Path]:
    return sorted(
        path
        for path in SITE.rglob("*.html")
        if RUST not in path.parents or (path.name == "index.html" and path.parent == RUST)
    )


def target(place: Path, link: str) -> Path:
    """The file that a link leads to."""
    path = unquote(urlsplit(link).path)
    if not path:
        return place
    found = SITE / path.lstrip("/") if path.startswith("/") else Path(os.path.normpath(place.parent / path))
    return found / "index.html" if found.is_dir() else found


def problem(place: Path, link: str) -> str:
    """The problem of a link inside the site, or nothing."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return ""
    found = target(place, link)
    if not found.is_file():
        return f"{link}: there is no {found}"
    # The scripts of rustdoc make the anchors of its pages of sources.
    if not parts.fragment or found.suffix != ".html" or RUST in found.parents:
        return ""
    return "" if unquote(parts.fragment) in page(found).anchors else f"{link}: {found} has no such anchor"


def test_site_has_all_sections() -> None:
    for section in ("tutorial", "guides", "cookbook", "reference", "explanation", "evidence"):
        assert (SITE / section / "index.html").is_file()
    assert len(pages()) > 60


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(SITE)))
def test_links_of_page_resolve(path: Path) -> None:
    read = page(path)
    # The page for addresses that do not exist has links from the root of a server.
    assert [found for link in sorted(read.links | read.loaded) if (found := problem(path, link))] == []


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(SITE)))
def test_nothing_is_loaded_from_another_host(path: Path) -> None:
    assert [url for url in sorted(page(path).loaded) if urlsplit(url).netloc] == []


def test_style_sheets_load_nothing_from_another_host() -> None:
    sheets = [path for path in SITE.rglob("*.css") if RUST not in path.parents]
    assert sheets
    for sheet in sheets:
        urls = re.findall(r"(?:@import|url\()\s*[\"']?((?:https?:)?//[^\"')]+)", sheet.read_text("utf-8"))
        assert urls == [], sheet


def test_comments_for_tests_are_not_in_pages() -> None:
    for path in pages():
        assert not re.search(r"<!-- (setup|agent|output|data|run|skip)\b", path.read_text("utf-8")), path


@pytest.mark.parametrize("readme", READMES)
def test_links_of_readme_resolve(readme: str) -> None:
    text = (ROOT / readme).read_text("utf-8")
    links = [link.removeprefix(REPOSITORY) for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    links = [link for link in links if link.startswith("docs/") and ".md" in link]
    for link in links:
        path, _, anchor = link.removeprefix("docs/").partition("#")
        # The files of the API are on the site as they are.
        built = SITE / (path if path.startswith("api/") else re.sub(r"\.md$", ".html", path))
        assert built.is_file(), link
        assert not anchor or anchor in page(built).anchors, link


@pytest.mark.parametrize(
    ("link", "is_wrong"),
    [
        ("index.html", False),
        ("reference/events.html#turnbegin", False),
        ("reference/events.html#nowhere", True),
        ("nowhere.html", True),
        ("https://example.com/", False),
    ],
)
def test_broken_link_is_noticed(link: str, is_wrong: bool) -> None:
    assert bool(problem(SITE / "index.html", link)) == is_wrong
