#!/usr/bin/env python3
"""Writes the READMEs of the packages from the README of the repository, and the measured figures in all of them.

package_readmes.py           writes them
package_readmes.py --check   fails if one of them is out of date

`<!-- [python] -->` … `<!-- [/python] -->` in README.md encloses lines for one package only; `[repository]` is for none.
`<!-- faults -->613<!-- /faults -->` encloses a figure, which is looked up in the pages of docs/evidence.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EVIDENCE = ROOT / "docs" / "evidence"
HOST = "https://github.com/kimi-agent/kimi-agent/blob/main/"
RAW = "https://raw.githubusercontent.com/kimi-agent/kimi-agent/main/"
PACKAGES = {
    "python": ("kimi-agent for Python", ROOT / "bindings-python" / "README.md"),
    "node": ("kimi-agent for Node", ROOT / "bindings-node" / "README.md"),
    "rust": ("kimi-agent for Rust", ROOT / "core" / "kimi-agent" / "README.md"),
}
NOTE = "<!-- Written by tools/package_readmes.py from README.md. -->\n\n"
_SECTION = re.compile(r"^<!-- \[(\w+)\] -->\n(.*?)^<!-- \[/\1\] -->\n", re.MULTILINE | re.DOTALL)
_FIGURE = re.compile(r"<!-- (\w+) -->([^<]*)<!-- /\1 -->")
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


class Missing(Exception):
    """A figure is not in the page where it should be."""


def figures() -> dict[str, str]:
    """The figures in README.md, by name."""
    performance = (EVIDENCE / "performance.md").read_text("utf-8")
    reliability = (EVIDENCE / "reliability.md").read_text("utf-8")

    bulk = _found(r"^### Events, in bulk\n(.*?)^###", performance)

    def cost(client: str) -> str:
        return _found(rf"^\| {re.escape(client)} \| ([0-9.]+)", bulk)

    def ratio(client: str, peer: str) -> str:
        row = rf"^\| events, in bulk: kimi-agent, {client} \| [^|]* of {re.escape(peer)} \| \**([0-9.]+)"
        return _found(row, performance)

    by_hand = [
        ratio("Rust", "tokio + serde by hand"),
        ratio("Python", "asyncio + orjson in batches"),
        ratio("Node", "JSON.parse in batches"),
    ]
    return {
        "byhand": f"{min(by_hand, key=float)} to {max(by_hand, key=float)}",
        "faults": _found(r"^([0-9,]+) faults in [0-9]+ families", reliability),
        "node": cost("kimi-agent, Node"),
        "official": cost("official Node SDK"),
        "python": cost("kimi-agent, Python"),
        "rust": cost("kimi-agent, Rust"),
    }


def _found(pattern: str, page: str) -> str:
    found = re.search(pattern, page, re.MULTILINE | re.DOTALL)
    if found is None:
        raise Missing(f"docs/evidence has nothing like {pattern}")
    return found[1]


def with_figures(text: str, known: dict[str, str]) -> str:
    """The text with today's figures."""
    return _FIGURE.sub(lambda found: f"<!-- {found[1]} -->{known[found[1]]}<!-- /{found[1]} -->", text)


def of_package(text: str, package: str) -> str:
    """The README of a package: only its language, figures without their marks, and absolute links."""
    title, _ = PACKAGES[package]
    text = _SECTION.sub(lambda found: found[2] if found[1] == package else "", text)
    text = _FIGURE.sub(r"\2", text)
    text = _LINK.sub(_absolute, text)
    # The language has its own package, so its name needs no heading.
    text = re.sub(r"^### (Python|Node|Rust)\n\n", "", text, flags=re.MULTILINE)
    text = text.replace("Each program prints", "The program prints").replace(
        "which is part of each package", "which is part of the package"
    )
    return NOTE + re.sub(r"\A# .*\n", f"# {title}\n", text)


def _absolute(found: re.Match[str]) -> str:
    image, label, target = found.groups()
    if re.match(r"https?:|#", target):
        return found[0]
    return f"{image}[{label}]({RAW if image else HOST}{target})"


def main(arguments: list[str]) -> int:
    """Writes the files; with --check it only compares them."""
    readme = ROOT / "README.md"
    text = with_figures(readme.read_text("utf-8"), figures())
    wanted = {readme: text} | {path: of_package(text, package) for package, (_, path) in PACKAGES.items()}
    stale = [path for path, content in wanted.items() if not path.exists() or path.read_text("utf-8") != content]
    if arguments == ["--check"]:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date: run tools/package_readmes.py")
        return 1 if stale else 0
    for path in stale:
        path.write_text(wanted[path], "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
