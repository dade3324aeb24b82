"""Checks the types of all Python programs in the documents at once, with mypy and pyright in their strict modes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from blocks import Block, with_preamble

HERE = Path(__file__).resolve().parent
# A preamble imports more than each block uses, and a block need not use all that it shows.
_RULES = {"typeCheckingMode": "strict", "reportUnusedImport": False, "reportUnusedVariable": False}
_ERROR = re.compile(r"^(?P<file>[^:\n]+\.py):(?P<line>\d+): error: (?P<text>.*)$", re.MULTILINE)
# Programs that need packages which are not here, or another syntax. Their own tests run them.
_LEFT_OUT = {"approvals.py", "sse.py", "notebook.py"}


def mistakes(blocks: list[Block], programs: list[Path], scratch: Path) -> list[str]:
    """Returns the mistakes in the types of the programs.

    Args:
        blocks: The blocks that are run.
        programs: Further programs, which documents show.
        scratch: An empty folder.
    """
    places = _write(blocks, programs, scratch)
    if not places:
        return []
    (scratch / "pyrightconfig.json").write_text(json.dumps(_RULES))
    found = [*_mypy(scratch), *_pyright(scratch)]
    return [f"{places.get(name, name)}: {text}" for name, text in found]


def _write(blocks: list[Block], programs: list[Path], scratch: Path) -> dict[str, str]:
    """Writes the programs. Returns their places by the names of the files."""
    places: dict[str, str] = {}
    for block in blocks:
        if block.language != "python" or "untyped" in block.directives:
            continue
        # Files of a project import each other. Of two with one name, the first is enough.
        name = block.title or f"{block.name}.py"
        if name in places:
            continue
        preamble = block.directives.get("setup")
        source = block.code if preamble is None else with_preamble(block, HERE / "preambles" / f"{preamble}.py")
        (scratch / name).write_text(source, encoding="utf-8")
        places[name] = block.place
    for program in programs:
        if program.name not in _LEFT_OUT:
            name = f"program_{program.name}"
            (scratch / name).write_bytes(program.read_bytes())
            places[name] = f"tests/programs/python/{program.name}"
    return places


def _mypy(scratch: Path) -> list[tuple[str, str]]:
    done = _run(scratch, "mypy", "--strict", "--no-error-summary", "--cache-dir", str(scratch / "cache"), ".")
    found = [(each["file"], f"line {each['line']}: mypy: {each['text']}") for each in _ERROR.finditer(done.stdout)]
    return found if found or done.returncode == 0 else [("mypy", done.stdout + done.stderr)]


def _pyright(scratch: Path) -> list[tuple[str, str]]:
    done = _run(scratch, "pyright", "--outputjson", "--pythonpath", sys.executable)
    try:
        reports = json.loads(done.stdout)["generalDiagnostics"]
    except ValueError:
        return [("pyright", done.stdout + done.stderr)]
    found: dict[tuple[str, int], str] = {}
    for report in reports:
        if report["severity"] == "error":
            line = report["range"]["start"]["line"] + 1
            # The first report about a line explains the others.
            text = report["message"].splitlines()[0]
            found.setdefault((Path(report["file"]).name, line), f"line {line}: pyright: {text}")
    return [(name, text) for (name, _), text in found.items()]


def _run(scratch: Path, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
