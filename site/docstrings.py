"""An extension of griffe for the pages of the Python API.

Examples in docstrings, which begin with `>>>`, become blocks of code. Constructors that only the package calls are left
out, and so are base classes that are not public: their members are shown as those of the public class.
"""

from __future__ import annotations

import ast
import copy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

from check_docstrings import RETURNED

PACKAGE = Path(__file__).resolve().parent.parent / "bindings-python" / "python" / "kimi_agent"


class PublicApi(griffe.Extension):
    """Changes the objects while griffe reads the sources."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None and ">>>" in obj.docstring.value:
            obj.docstring.value = fenced(obj.docstring.value)

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        if cls.name in RETURNED and "__init__" in cls.members:
            cls.del_member("__init__")

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        classes = [cls for module in modules(pkg) for cls in module.classes.values() if not cls.is_alias]
        for cls in classes:
            # The page of messages describes `Message` once.
            for base in (base for base in cls.mro() if base.name in INTERNAL - {"Message"}):
                for name, member in base.members.items():
                    if not name.startswith("_") and name not in cls.members:
                        cls.set_member(name, copy.copy(member))
        for cls in classes:
            cls.bases = [base for base in cls.bases if str(base).partition("[")[0] not in INTERNAL]


def modules(module: griffe.Module) -> Iterator[griffe.Module]:
    """A module and all that are in it."""
    yield module
    for inner in module.modules.values():
        yield from modules(inner)


def fenced(text: str) -> str:
    """The text with fences around each example; an example ends at an empty line."""
    lines: list[str] = []
    indent: str | None = None
    for line in [*text.splitlines(), ""]:
        if indent is not None and not line.strip():
            lines.append(f"{indent}```")
            indent = None
        elif indent is None and line.lstrip().startswith(">>>"):
            indent = line[: len(line) - len(line.lstrip())]
            lines += ["", f"{indent}```pycon"]
        lines.append(line)
    return "\n".join(lines).rstrip("\n")


def internal_classes() -> set[str]:
    """The classes of the package that are not in its `__all__`."""
    public: set[str] = set()
    defined: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                defined.add(node.name)
            elif (
                path.name == "__init__.py"
                and isinstance(node, ast.Assign)
                and ast.unparse(node.targets[0]) == "__all__"
            ):
                public |= set(ast.literal_eval(node.value))
    return defined - public


INTERNAL = internal_classes()
