#!/usr/bin/env python3
"""Checks that the types, functions and methods of the crate kimi-agent have examples, on the pages that rustdoc wrote.

The only argument is the folder of the crate's pages.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

# Items of which a page has its own head, and the sections behind it.
KINDS = ("struct", "enum", "trait", "fn")
HEAD_END = re.compile(
    r'<h2 id="(?:fields|variants|implementations|required-methods|trait-implementations|implementors)"'
)
METHODS = re.compile(r'<h2 id="implementations"(.*?)(?:<h2 id="|\Z)', re.DOTALL)
METHOD = re.compile(r'<section id="method\.(\w+)"')
EXAMPLE = "rust-example-rendered"
# `wire` has messages, which are data. `agent` is one server; its crate and `examples/echo_agent.rs` show it as a whole.
WITHOUT_EXAMPLES = ("wire", "agent")
# Modules that exist only with features of the crate.
OF_FEATURES = ("agent", "testing")


def without_example(page: Path) -> list[str]:
    """Returns the items of a page that have no example."""
    html = page.read_text(encoding="utf-8")
    kind, name = page.name.split(".")[:2]
    missing = [] if EXAMPLE in HEAD_END.split(html)[0] else [f"{kind} {name}"]
    if methods := METHODS.search(html):
        # The text before the first method, then the names of methods and what follows them.
        parts = METHOD.split(methods[1])
        pairs = zip(parts[1::2], parts[2::2], strict=True)
        missing += [f"method {name}::{method}" for method, text in pairs if EXAMPLE not in text]
    return missing


def main(crate: Path) -> int:
    pages = [
        page
        for page in sorted(crate.rglob("*.html"))
        if page.name.split(".")[0] in KINDS and page.parent.name not in WITHOUT_EXAMPLES
    ]
    if not pages:
        print(f"rustdoc has written no pages into {crate}", file=sys.stderr)
        return 1
    undocumented = [name for name in OF_FEATURES if not (crate / name).is_dir()]
    if undocumented:
        print(f"rustdoc ran without the features {', '.join(undocumented)}", file=sys.stderr)
        return 1
    missing = [f"{page.relative_to(crate)}: {item} has no example" for page in pages for item in without_example(page)]
    print("\n".join(missing), end="\n" if missing else "", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
