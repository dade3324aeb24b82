"""Writes docs/api/python.md and docs/api/node.md, the API of both packages as plain Markdown, from their sources.

The site has the same as pages with links. `--check` fails if one of the files is not up to date.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import griffe
from catalog import ROOT

sys.path.insert(0, str(ROOT / "site"))

from docstrings import INTERNAL, PublicApi

FOLDER = ROOT / "docs" / "api"
SOURCES = ROOT / "bindings-python" / "python"
PYTHON_HEAD = """\
# The Python API

Every public name of `kimi_agent`, generated from the sources by `tools/generate_api.py`. Examples are written as for
`python -m asyncio`, which accepts `await` outside of functions. `agent`, `session` and `turn` are an `Agent`, a
`Session` and a `Turn` of it.

Other languages: [Node](node.md), [Rust](rust.md).
"""
# The modules, and what the file says about each. `kimi_agent.sync` repeats the documentation of `kimi_agent`.
MODULES = {
    "kimi_agent": "",
    "kimi_agent.sync": "The same for programs without coroutines. The documentation is that of `kimi_agent`.",
    "kimi_agent.testing": "Agents for tests: they follow a script or play a recording.",
    "kimi_agent.ray": "Prompts on a cluster of Ray. It needs the extra `ray`.",
}

ALL_MESSAGES = """\
### Message

The base class of all events, requests and content parts.
"""

Item = griffe.Object | griffe.Alias


class WithoutFences(PublicApi):
    """The extension of the site without its fences."""

    def on_object(self, **_: object) -> None:
        """Leaves the docstring as it is."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if a file is not up to date")
    check = parser.parse_args().check
    for name, text in {"python": python(), "node": node()}.items():
        page = FOLDER / f"{name}.md"
        if not check:
            page.write_text(text, encoding="utf-8")
        elif not page.exists() or page.read_text(encoding="utf-8") != text:
            print(f"{page.relative_to(ROOT)} is not up to date: run python tools/generate_api.py", file=sys.stderr)
            return 1
    return 0


def node() -> str:
    command = ["node", str(Path(__file__).with_suffix(".mjs"))]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=True).stdout


def python() -> str:
    loader = griffe.GriffeLoader(search_paths=[SOURCES], docstring_parser="google", allow_inspection=False)
    # As on the site, but examples become blocks below.
    loader.extensions = griffe.load_extensions(WithoutFences())
    loader.load("kimi_agent")
    loader.resolve_aliases()
    parts = [PYTHON_HEAD]
    for name, about in MODULES.items():
        module = loader.modules_collection[name]
        parts.append(f"## `{name}`\n")
        parts += [f"{about}\n"] if about else []
        documented = name != "kimi_agent.sync"
        exported = [module[str(each)] for each in module.exports or () if not str(each).startswith("__")]
        for item in sorted(exported, key=lambda item: (str(item.filepath), item.lineno or 0, item.name)):
            parts += entry(item, documented)
        if name == "kimi_agent":
            parts += [ALL_MESSAGES, *methods(loader.modules_collection["kimi_agent._message.Message"])]
    return "\n".join(parts)


def entry(item: Item, documented: bool) -> Iterator[str]:
    yield f"### {item.name}\n"
    if item.is_class:
        yield block(class_head(item))
        yield from text(item, documented)
        members = [member for member in item.all_members.values() if is_public(member)]
        fields = [member for member in members if member.is_attribute]
        if fields and documented:
            yield "".join(map(field, fields))
        elif fields:
            yield ", ".join(f"`{member.name}`" for member in fields) + "\n"
        yield from methods(item, documented)
    elif item.is_function:
        yield block(signature(item))
        yield from text(item, documented)
    else:
        value = f" = {item.value}" if item.value is not None else ""
        yield block(f"{item.name}{value}")
        yield from text(item, documented)


def methods(item: Item, documented: bool = True) -> Iterator[str]:
    for member in item.all_members.values():
        if member.is_function and is_public(member):
            yield f"#### {item.name}.{member.name}\n"
            yield block(signature(member))
            yield from text(member, documented)


def is_public(member: Item) -> bool:
    if member.name.startswith("_") or not (member.is_attribute or member.is_function):
        return False
    if member.inherited and member.canonical_path.startswith("kimi_agent._message."):
        return False
    # Members of exceptions and containers of Python are known.
    return member.canonical_path.startswith("kimi_agent")


def class_head(item: Item) -> str:
    bases = [str(base) for base in item.bases if str(base).partition("[")[0] not in INTERNAL]
    constructor = item.members.get("__init__")
    head = f"class {item.name}({', '.join(bases)})" if bases else f"class {item.name}"
    if constructor is None or not constructor.is_function or not describes_parameters(item):
        return head
    return f"{head}\n\n{signature(constructor, item.name)}"


def describes_parameters(item: Item) -> bool:
    return item.docstring is not None and "Args:" in item.docstring.value


def field(member: Item) -> str:
    annotation = f": `{member.annotation}`" if member.annotation is not None else ""
    said = " ".join(member.docstring.value.partition(">>>")[0].split()) if member.docstring is not None else ""
    return f"- `{member.name}`{annotation}" + (f". {said}" if said else "") + "\n"


def signature(function: Item, name: str | None = None) -> str:
    forms = [] if function.overloads is None else list(function.overloads)
    return "\n".join(form(each, name) for each in forms or [function])


def form(function: Item, name: str | None) -> str:
    shown: list[str] = []
    kinds = griffe.ParameterKind
    parameters = [each for each in function.parameters if each.name not in ("self", "cls")]
    for at, each in enumerate(parameters):
        before = parameters[at - 1].kind if at else None
        if before is kinds.positional_only and each.kind is not kinds.positional_only:
            shown.append("/")
        if each.kind is kinds.keyword_only and before not in (kinds.keyword_only, kinds.var_positional):
            shown.append("*")
        stars = {kinds.var_positional: "*", kinds.var_keyword: "**"}.get(each.kind, "")
        annotation = f": {each.annotation}" if each.annotation is not None else ""
        default = f" = {each.default}" if each.default is not None and not stars else ""
        shown.append(f"{stars}{each.name}{annotation}{default}")
    if parameters and parameters[-1].kind is kinds.positional_only:
        shown.append("/")
    word = "async def" if "async" in function.labels else "def"
    result = f" -> {function.returns}" if function.returns is not None and name is None else ""
    one = f"{word} {name or function.name}({', '.join(shown)}){result}"
    if name is not None:
        one = one.removeprefix("def ")
    if len(one) <= 120:
        return one
    inner = "".join(f"    {each},\n" for each in shown)
    return f"{one.partition('(')[0]}(\n{inner}){result}"


def text(item: Item, documented: bool) -> Iterator[str]:
    if documented and item.docstring is not None:
        yield plain(item.docstring.value) + "\n"


_SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Attributes):$")
_ENTRY = re.compile(r"^    (?P<name>\*{0,2}\w+): (?P<text>.*)$")


def plain(docstring: str) -> str:
    """A docstring as Markdown: sections are lists, and examples are blocks."""
    lines: list[str] = []
    section, example = "", False
    for line in [*textwrap.dedent(docstring).splitlines(), ""]:
        if example and not line.strip():
            lines.append("```")
            example = False
        elif not example and line.startswith(">>>"):
            lines.append("```pycon")
            example = True
        heading = None if example else _SECTION.match(line)
        if heading is not None:
            section = heading[1]
            lines += [f"**{section}:**", ""]
            continue
        if section and line.strip() and not line.startswith(" "):
            section = ""
        named = _ENTRY.match(line) if section and section not in ("Returns", "Yields") else None
        if named is not None:
            line = f"- `{named['name']}`: {named['text']}"
        elif section and line.strip():
            line = line.strip() if section in ("Returns", "Yields") else f"  {line.strip()}"
        lines.append(line)
    return "\n".join(lines).strip("\n")


def block(code: str) -> str:
    return f"```python\n{code}\n```\n"


if __name__ == "__main__":
    sys.exit(main())
