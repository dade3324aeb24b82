"""Checks the docstrings of the Python package: every public item has one, and it says what a caller needs.

Ruff checks their form. It treats names in modules such as `_session` as private, so this program looks at the names
that programs import: `__all__` of the public modules, and the members of the classes in it.

- Every class, function, method, property, field and type alias has a docstring.
- A function or method documents each parameter, the default of each that has one, and its result. A class that
  programs construct documents the parameters of its constructor, or has fields of their names.
- A class, function or method has an example, which begins with `>>>`.
- Mypy accepts the example: its names exist, and its types fit. `bindings-python/tests/test_doctests.py` runs it.
"""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import griffe

SOURCES = Path(__file__).resolve().parent.parent / "bindings-python" / "python"
MODULES = ("kimi_agent", "kimi_agent.sync", "kimi_agent.testing", "kimi_agent.testing.script", "kimi_agent.ray")
BLOCKING = "kimi_agent.sync"
CONFIG = "examples.ini"
# Handlers in examples need no annotations. Ray is not installed here.
SETTINGS = """
[mypy]
check_untyped_defs = True
[mypy-ray.*]
ignore_missing_imports = True
"""
# Objects that calls return. Programs do not construct them, so their parameters are internal.
RETURNED = {
    "Agent",
    "AgentOpening",
    "Batch",
    "Cassette",
    "EventIterator",
    "Files",
    "FunctionTool",
    "Replay",
    "Session",
    "SessionOpening",
    "Step",
    "Steps",
    "TextStream",
    "Turn",
}
VARIADIC = (griffe.ParameterKind.var_positional, griffe.ParameterKind.var_keyword)

Item = griffe.Object | griffe.Alias


class Checker:
    """Finds what is missing in a package."""

    def __init__(self, sources: Path = SOURCES, modules: tuple[str, ...] = MODULES) -> None:
        # As the site reads them.
        loader = griffe.GriffeLoader(search_paths=[sources], docstring_parser="google", allow_inspection=False)
        loader.load(modules[0])
        loader.resolve_aliases()
        self._sources = sources
        self._modules = [loader.modules_collection[name] for name in modules]
        self._public = {str(name) for module in self._modules for name in module.exports or ()}
        self._seen: set[str] = set()
        # The lines of each example, by the name of its item.
        self.examples: dict[str, list[str]] = {}

    def mistakes(self) -> Iterator[str]:
        """All mistakes, each with the place of the item."""
        for module in self._modules:
            yield from self._of(module, module.path)
            for name in sorted(str(name) for name in module.exports or ()):
                if not name.startswith("__"):
                    yield from self._of(module[name], f"{module.path}.{name}")

    def type_mistakes(self) -> Iterator[str]:
        """What mypy says about the examples, each as a function of its own. Call `mistakes` first."""
        programs: dict[str, list[str]] = {}
        places: dict[tuple[str, int], str] = {}
        for name, example in self.examples.items():
            is_blocking = name.startswith(BLOCKING)
            file = "blocking.py" if is_blocking else "awaiting.py"
            program = programs.setdefault(file, self._imports(is_blocking))
            function = "def" if is_blocking else "async def"
            program.append(f"{function} example_{len(program)}(agent: Agent, session: Session, turn: Turn):")
            for line in ["pass", *example]:
                program.append(f"    {line}")
                places[file, len(program)] = name
        with tempfile.TemporaryDirectory() as folder:
            for file, lines in programs.items():
                (Path(folder) / file).write_text("\n".join(lines), encoding="utf-8")
            (Path(folder) / CONFIG).write_text(SETTINGS, encoding="utf-8")
            command = [sys.executable, "-m", "mypy", f"--config-file={CONFIG}", "--no-error-summary"]
            # Without a cache, which several checks at the same time would share.
            command += [f"--cache-dir={os.devnull}", *programs]
            env = {**os.environ, "MYPYPATH": str(self._sources)}
            done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
        for line in (done.stdout + done.stderr).splitlines():
            file, _, rest = line.partition(":")
            number, _, text = rest.partition(": ")
            place = places.get((file, int(number))) if number.isdigit() else None
            yield f"{place}: the example: {text}" if place else line

    def _imports(self, is_blocking: bool) -> list[str]:
        """The names that examples have; those of the blocking API come before those of the package."""
        modules = [module for module in self._modules if is_blocking or module.path != BLOCKING]
        lines: list[str] = []
        known: set[str] = set()
        for module in sorted(modules, key=lambda module: module.path != BLOCKING):
            names = [str(name) for name in module.exports or () if str(name) not in known]
            lines.append(f"from {module.path} import {', '.join(names)}")
            known.update(names)
        return lines

    def _of(self, item: Item, name: str) -> Iterator[str]:
        """The mistakes of an item and of its members."""
        if item.canonical_path in self._seen:
            return
        self._seen.add(item.canonical_path)
        place = f"{Path(str(item.filepath)).relative_to(self._sources)}:{item.lineno or 1}"
        for problem in self._problems(item, name):
            yield f"{place}: {name}: {problem}"
        for member in item.all_members.values() if item.is_class else ():
            # Members of internal base classes belong to the public class.
            is_elsewhere = member.inherited and member.final_target.parent.name in self._public
            if not member.name.startswith("_") and not is_elsewhere:
                yield from self._of(member, f"{name}.{member.name}")

    def _problems(self, item: Item, name: str) -> Iterator[str]:
        if item.docstring is None or not item.docstring.value.strip():
            if not _is_documented_by_base(item):
                yield "the docstring is missing"
            return
        examples = [example.source for example in doctest.DocTestParser().get_examples(item.docstring.value)]
        self.examples[name] = "".join(examples).splitlines()
        if not item.is_function and not item.is_class:
            return
        yield from _parameters(item)
        if item.is_function and str(item.returns) not in ("None", "NoReturn") and not _says_result(item):
            yield "the result is missing: a section `Returns:`, or a summary that begins with `Returns`"
        if not examples:
            yield "the example is missing: lines that begin with `>>>`"


def _is_documented_by_base(item: Item) -> bool:
    """Whether a base class documents the same member, for example `code` of errors."""
    bases = item.parent.mro() if item.parent is not None and item.parent.is_class else []
    members = [base.members[item.name] for base in bases if item.name in base.members]
    return any(member.docstring is not None for member in members)


def _parameters(item: Item) -> Iterator[str]:
    function, fields = item, set[str]()
    described = _described(item, "parameters")
    if item.is_class:
        function = item.all_members.get("__init__")
        if function is None or not function.is_function or item.name in RETURNED:
            return
        fields = {name for name, one in item.all_members.items() if one.is_attribute and one.docstring}
        for base in item.mro():
            described = _described(base, "parameters") | described
    forms = [*(function.overloads or []), function]
    for parameter in {one.name: one for form in forms for one in form.parameters}.values():
        name, is_variadic = parameter.name, parameter.kind in VARIADIC
        if name in ("self", "cls") or name in fields or (function.overloads and is_variadic):
            continue
        if name not in described:
            yield f"the parameter `{name}` is missing"
        elif parameter.default is not None and not is_variadic and "Default" not in described[name]:
            yield f"the default of `{name}` is missing: `Default: …`"


def _described(item: Item, kind: str) -> dict[str, str]:
    """The entries of a section of a docstring, by their names."""
    # A result has no name, and options of `**options` are documented one by one: griffe would warn of both.
    sections = item.docstring.parse("google", warnings=False) if item.docstring is not None else []
    return {one.name: one.description for section in sections if section.kind.value == kind for one in section.value}


def _says_result(function: Item) -> bool:
    return function.docstring.value.startswith("Returns ") or bool(_described(function, "returns"))


def main() -> int:
    """Prints the mistakes; exits with 1 if there are any."""
    checker = Checker()
    mistakes = [*checker.mistakes(), *checker.type_mistakes()]
    for mistake in mistakes:
        print(mistake, file=sys.stderr)
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
