"""What the site has for language models: each page as Markdown, a list of pages, and all of them in one file."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parent.parent.parent
_SPEC = importlib.util.spec_from_file_location("llms", ROOT / "site" / "hooks" / "llms.py")
assert _SPEC is not None
assert _SPEC.loader is not None
llms = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(llms)


def test_every_page_is_listed_and_written(tmp_path: Path) -> None:
    about = "Drive coding agents"
    llms.on_post_build(SimpleNamespace(docs_dir=str(ROOT / "docs"), site_dir=str(tmp_path), site_description=about))
    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+)\)", (tmp_path / "llms.txt").read_text("utf-8"), re.MULTILINE)
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert set(listed) == pages
    assert listed[0] == "index.md"
    whole = (tmp_path / "llms-full.txt").read_text("utf-8")
    for page in listed:
        text = (tmp_path / page).read_text("utf-8")
        assert (text in whole) != page.startswith("api/"), page


def test_directives_of_tests_are_left_out() -> None:
    page = "# Title\n\nThe [first](a.md) paragraph\nhas two lines.\n\n<!-- setup: main -->\n```python\nx = 1\n```\n"
    files = llms.texts({"guides/a.md": page}, "About")
    assert "setup" not in files["guides/a.md"]
    assert "x = 1" in files["guides/a.md"]
    assert "- [Title](guides/a.md): The first paragraph has two lines." in files["llms.txt"]


def test_programs_are_shown_and_files_outside_of_the_documents_are_addresses() -> None:
    page = "# T\n\n[`sse.py`](../../tests/programs/python/sse.py)\n\n[Notes](../../CHANGELOG.md), [agents](agents.md)\n"
    text = llms.texts({"cookbook/a.md": page}, "About")["cookbook/a.md"]
    program = (ROOT / "tests/programs/python/sse.py").read_text("utf-8").rstrip()
    assert f'```python title="tests/programs/python/sse.py"\n{program}\n```\n' in text
    repository = "https://github.com/kimi-agent/kimi-agent/blob/main"
    assert f"[Notes]({repository}/CHANGELOG.md), [agents](agents.md)\n" in text


def test_no_page_has_a_link_to_a_file_that_the_site_lacks(tmp_path: Path) -> None:
    llms.on_post_build(SimpleNamespace(docs_dir=str(ROOT / "docs"), site_dir=str(tmp_path), site_description="About"))
    pages = {path: path.read_text("utf-8") for path in tmp_path.rglob("*.md")}
    outside = [
        f"{path.relative_to(tmp_path)}: {link}"
        for path, text in pages.items()
        for link in re.findall(r"\]\(((?:\.\./)+[^)\s]+)\)", text)
        if not (path.parent / link).resolve().is_relative_to(tmp_path.resolve())
    ]
    assert outside == []
