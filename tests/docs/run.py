#!/usr/bin/env python3
"""Runs every block of code in the documents, in an interpreter that has the package: python tests/docs/run.py [WORD …].

With words, only blocks of documents with one of them in their paths. A block is a complete program, or a comment before
it says which preamble completes it. None is passed over in silence: what can't be run says why.
"""

from __future__ import annotations

import collections
import itertools
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import facts
import typed
from blocks import Block, Mistake, read
from harness import usage
from languages import ROOT, Failure, Workshop

SHOWN = ("text", "markdown")
SHELL = ("sh", "bash")
RUN = ("python", "js", "cjs", "ts", "rust", "json", *SHELL)


def documents() -> list[Path]:
    """The documents whose blocks are run. Those in docs/api are made of docstrings, which have their own tests."""
    return sorted(
        [
            ROOT / "README.md",
            ROOT / "CONTRIBUTING.md",
            ROOT / "CHANGELOG.md",
            *(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "api"),
            *ROOT.glob("bindings-*/README.md"),
        ]
    )


def sort(blocks: list[Block]) -> tuple[list[Block], list[Block], list[str]]:
    """The blocks that are run, that are skipped, and that have no known language."""
    run: list[Block] = []
    skipped: list[Block] = []
    mistakes: list[str] = []
    for block in blocks:
        said = block.directives
        if "skip" in said:
            if said["skip"]:
                skipped.append(block)
            else:
                mistakes.append(f"{block.place}: a skip needs a reason")
        elif block.language in SHELL and not said.keys() & {"run", "fails"}:
            mistakes.append(f"{block.place}: shell commands say `run` or `fails`, or `skip` with a reason")
        elif "project" in said and block.language not in SHELL and not block.title:
            mistakes.append(f"{block.place}: a file of a project needs a title")
        elif block.language in RUN:
            run.append(block)
        elif block.language not in SHOWN:
            mistakes.append(f"{block.place}: nobody knows how to run {block.language or 'a block without a language'}")
    return run, skipped, mistakes


def units(blocks: list[Block]) -> list[list[Block]]:
    """Blocks that can run concurrently: each by itself, and those of a project in their order."""
    projects: dict[str, list[Block]] = {}
    for block in blocks:
        for name in block.projects:
            projects.setdefault(name, []).append(block)
    return [*projects.values(), *([block] for block in blocks if not block.projects)]


def try_unit(workshop: Workshop, unit: list[Block], outputs: dict[str, str]) -> list[tuple[Block, str]]:
    """Each block with its problem, or nothing. After a problem, the rest of a project is left out."""
    found: list[tuple[Block, str]] = []
    name = next((name for name in unit[0].projects if all(name in block.projects for block in unit)), None)
    for block in unit:
        found.append((block, try_block(workshop, block, outputs.get(block.place), name)))
        if found[-1][1]:
            break
    return found


def try_block(workshop: Workshop, block: Block, expected: str | None, project: str | None) -> str:
    """The problem of a block, or nothing."""
    try:
        printed = workshop.run(block, project)
    except (Failure, Mistake) as failure:
        return str(failure)
    if expected is not None and printed.strip() != expected.strip():
        return f"it prints\n{printed}where the document says\n{expected}"
    return ""


def _is_chosen(document: Path, words: list[str]) -> bool:
    path = document.relative_to(ROOT).as_posix()
    return not words or any(word in path for word in words)


def _programs() -> list[Path]:
    """The programs in Python that documents show."""
    return [
        path
        for path in (ROOT / "tests/programs/python").glob("*.py")
        if not path.name.startswith(("test_", "conftest"))
    ]


def main(words: list[str]) -> int:
    """Exits with 1 where anything failed."""
    chosen = [path for path in documents() if _is_chosen(path, words)]
    if not chosen:
        usage.stop(
            "docs",
            f"no document has a path with {' or '.join(map(repr, words))}; they are README.md and those in docs/",
        )
    usage.needs("docs", "cargo", "node", "npm")
    usage.needs_package("docs")
    blocks = [block for path in chosen for block in read(path, ROOT)]
    outputs: dict[str, str] = {}
    for before, block in itertools.pairwise(blocks):
        if "output" in block.directives:
            outputs[before.place] = block.code
    run, skipped, failed = sort(blocks)
    with tempfile.TemporaryDirectory(prefix="kimi-agent-docs-") as scratch:
        workshop = Workshop(Path(scratch))
        workshop.prepare(run)
        with ThreadPoolExecutor(max_workers=os.cpu_count() or 2) as pool:
            tried = pool.map(lambda unit: try_unit(workshop, unit, outputs), units(run))
            outcomes = list(itertools.chain.from_iterable(tried))
    failed += [f"{block.place} ({block.language}): {wrong}" for block, wrong in outcomes if wrong]
    passed = sum(not wrong for _, wrong in outcomes)
    looked_up, wrong = facts.mistakes(documents(), ROOT)
    failed += wrong
    with tempfile.TemporaryDirectory(prefix="kimi-agent-types-") as scratch:
        failed += typed.mistakes(run, _programs() if not words else [], Path(scratch))

    for block in skipped:
        print(f"skipped {block.place} ({block.language}): {block.directives['skip']}")
    for failure in failed:
        print(f"FAILED {failure}")
    counts = collections.Counter(block.language for block in run)
    print(f"{len(chosen)} documents: {', '.join(f'{number} {name}' for name, number in sorted(counts.items()))}")
    print(f"{len(outputs)} outputs compared, {len(skipped)} blocks skipped with a reason, {looked_up} facts looked up")
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(usage.reported("docs", lambda: main(sys.argv[1:])))
