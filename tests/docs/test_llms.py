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
