#!/usr/bin/env python3
"""Writes docs/api/rust.md, the API of the crate as plain Markdown, from the pages that rustdoc has written.

The argument is the folder of the crate's pages. `--check` fails if the file is not up to date.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "api" / "rust.md"
HEAD = """\
# The Rust API

Every public item of the crate `kimi-agent` with all its features, generated from the pages of rustdoc by
`tools/generate_rust_api.py`. [docs.rs](https://docs.rs/kimi-agent) has the same with links.
[The SDK in Rust](../guides/rust.md) names the features. Examples leave out the lines around them, such as those
that open a `session`.

Other languages: [Python](python.md), [Node](node.md).
"""
KINDS = ("fn", "struct", "enum", "trait", "type", "macro", "constant")
VOID = {"br", "hr", "img", "input", "link", "meta", "wbr"}
# Parts of a page that are for readers with a mouse.
HIDDEN = {"button", "rustdoc-toolbar", "script"}
# Traits of nearly all types, and those that no program names.
USUAL = re.compile(
    r"^(Clone|Copy|Debug|Default|Drop|Eq|Field|Hash|Ord|PartialEq|PartialOrd|Reflect|StructuralPartialEq)\b"
)
# Lists of what other traits bring.
BROUGHT = re.compile(r"(trait|synthetic|blanket)-implementations-list$|deref-methods-")


@dataclass
class Node:
    """An element of a page. Its children are elements and texts."""

    tag: str
    attrs: dict[str, str]
    children: list[Node | str] = field(default_factory=list)

    @property
    def classes(self) -> list[str]:
        return self.attrs.get("class", "").split()

    def elements(self) -> Iterator[Node]:
        return (child for child in self.children if isinstance(child, Node))

    def all(self, test: str) -> Iterator[Node]:
        """Returns the elements below this one with a class, or with an id (`#id`)."""
        for child in self.elements():
            if test in child.classes or (test.startswith("#") and child.attrs.get("id") == test[1:]):
                yield child
            yield from child.all(test)

    def first(self, test: str) -> Node | None:
        return next(self.all(test), None)

    def text(self) -> str:
        if self.tag in HIDDEN or not {"anchor", "doc-anchor", "hideme"}.isdisjoint(self.classes):
            return ""
        return "".join(child if isinstance(child, str) else child.text() for child in self.children)


class Tree(HTMLParser):
    """Makes a tree of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Node("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        for depth in range(len(self.open) - 1, 0, -1):
            if self.open[depth].tag == tag:
                del self.open[depth:]
                return

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", type=Path, help="the folder of the crate's pages")
    parser.add_argument("--check", action="store_true", help="fail if the file is not up to date")
    args = parser.parse_args()
    text = "\n".join([HEAD, *crate(args.pages)])
    if not args.check:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print(
            f"docs/api/rust.md is not up to date: run python tools/generate_rust_api.py {args.pages}", file=sys.stderr
        )
        return 1
    return 0


def crate(pages: Path) -> Iterator[str]:
    folders = [pages, *sorted(path for path in pages.iterdir() if path.is_dir() and (path / "index.html").exists())]
    for folder in folders:
        items = [page for page in folder.glob("*.html") if page.name.split(".")[0] in KINDS]
        if not items:
            continue
        path = "::".join(("kimi_agent", *folder.relative_to(pages).parts))
        yield f"## `{path}`\n"
        about = read(folder / "index.html").first("top-doc")
        if about is not None and folder != pages:
            yield from documentation(about)
        for page in sorted(items, key=lambda page: page.name.split(".")[1]):
            yield from item(page)


def read(page: Path) -> Node:
    tree = Tree()
    tree.feed(page.read_text(encoding="utf-8"))
    found = tree.root.first("#main-content")
    if found is None:
        raise SystemExit(f"{page} is not a page of rustdoc")
    return found


def item(page: Path) -> Iterator[str]:
    name = page.name.split(".")[1]
    content = read(page)
    yield f"### {name}\n"
    declared = content.first("item-decl")
    if declared is not None:
        yield block(declaration(declared))
    about = next((child for child in content.elements() if "top-doc" in child.classes), None)
    if about is not None:
        yield from documentation(about)
    traits = sorted(implemented(content, name))
    if traits:
        yield f"Implements {', '.join(traits)}.\n"
    yield from members(content, name)


def declaration(node: Node) -> str:
    """A declaration without its members, which follow with their documentation."""
    attributes = [flat(each.text()) for each in node.all("code-attribute")]
    text = node.text()
    for attribute in attributes:
        text = text.replace(attribute, "", 1)
    head, _, members = text.strip().partition("\n")
    return "\n".join([*attributes, f"{head} … }}" if members and head.endswith("{") else text.strip()])


def members(content: Node, name: str) -> Iterator[str]:
    """The fields, variants and methods of an item, each with its documentation."""
    said: list[str] = []
    seen = set()
    for member, about in documented(content):
        kind, _, own = member.attrs["id"].partition(".")
        # Implementations of a trait repeat its methods.
        if own in seen:
            continue
        seen.add(own)
        if kind in ("structfield", "variant"):
            text = " ".join(" ".join(documentation(about, is_short=True)).split()) if about is not None else ""
            indent = "  " if ".field." in own else ""
            said.append(f"{indent}- `{signature(member)}`" + (f": {text}" if text else "") + "\n")
        else:
            if said:
                yield "".join(said)
                said = []
            yield f"#### {name}::{own}\n"
            yield block(signature(member))
            if about is not None:
                yield from documentation(about)
    if said:
        yield "".join(said)


def documented(content: Node) -> Iterator[tuple[Node, Node | None]]:
    """Returns members with their documentation, which follows them or the summary that they are in."""
    children = list(content.elements())
    for at, child in enumerate(children):
        after = children[at + 1] if at + 1 < len(children) else None
        about = after if after is not None and "docblock" in after.classes else None
        if BROUGHT.match(child.attrs.get("id", "")):
            continue
        if is_member(child):
            yield child, about
        elif child.tag == "summary":
            yield from ((member, about) for member in child.elements() if is_member(member))
        else:
            yield from documented(child)


def is_member(node: Node) -> bool:
    return bool(re.match(r"(structfield|variant|method|tymethod)\.\w+(\.field\.\w+)?$", node.attrs.get("id", "")))


def implemented(content: Node, name: str) -> Iterator[str]:
    for found in content.all("#trait-implementations-list"):
        for header in found.all("code-header"):
            one = re.match(rf"impl(?:<.*?>)? (.*) for {name}\b", flat(header.text()))
            if header.tag == "h3" and one is not None and not USUAL.match(one[1]):
                trait = one[1].removesuffix("<'de>")
                yield f"`{trait}`"


def signature(member: Node) -> str:
    header = member.first("code-header")
    return flat((header or member).text()).replace("( ", "(").replace(", )", ")")


def flat(text: str) -> str:
    return " ".join(text.replace("\u200b", "").split())


def block(code: str, language: str = "rust") -> str:
    return f"```{language}\n{code.replace(chr(0xA0), ' ').strip(chr(10)).rstrip()}\n```\n"


def documentation(about: Node, is_short: bool = False) -> Iterator[str]:
    """A block of documentation as Markdown. If it is short, it has paragraphs only."""
    for child in about.elements():
        if child.tag in ("div", "details") and "example-wrap" not in child.classes and child.tag != "summary":
            yield from documentation(child, is_short)
        elif child.tag == "p":
            yield inline(child) + "\n"
        elif is_short:
            continue
        elif re.fullmatch(r"h[1-6]", child.tag):
            if flat(child.text()) not in ("Examples", "Example"):
                yield f"**{flat(child.text())}:**\n"
        elif child.tag in ("ul", "ol"):
            yield "".join(f"- {inline(entry)}\n" for entry in child.elements())
        elif child.tag == "table":
            yield table(child)
        elif "example-wrap" in child.classes:
            pre = next((each for each in child.elements() if each.tag == "pre"), None)
            if pre is not None:
                other = next(
                    (name.removeprefix("language-") for name in pre.classes if name.startswith("language-")), "rust"
                )
                yield block(pre.text(), other)


def inline(node: Node) -> str:
    return flat("".join(pieces(node)))


def pieces(node: Node) -> Iterable[str]:
    for child in node.children:
        if isinstance(child, str):
            # rustdoc makes typographic quotes.
            yield child.translate({0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"'})
        elif child.tag == "code":
            yield f"`{child.text()}`"
        elif child.tag in ("strong", "em"):
            yield f"*{inline(child)}*"
        elif child.tag not in HIDDEN and "doc-anchor" not in child.classes:
            yield from pieces(child)


def table(node: Node) -> str:
    rows = [[inline(cell) for cell in row.elements()] for row in rows_of(node)]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], f"|{' --- |' * len(rows[0])}", *lines[1:]]) + "\n"


def rows_of(node: Node) -> Iterator[Node]:
    for child in node.elements():
        if child.tag == "tr":
            yield child
        else:
            yield from rows_of(child)


if __name__ == "__main__":
    sys.exit(main())
