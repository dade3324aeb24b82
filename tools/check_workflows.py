"""Checks that the workflows run only what the repository has.

actionlint and zizmor know the language of workflows, not this repository. This program checks the commands of all
steps, with each value of the matrix of their job:

- The targets of `make` are in the Makefile.
- Files exist, and those that are started are executable.
- The scripts of `npm`, the packages of `cargo -p` and the systems of `tools/cross/cross.py` exist.
- A workflow that is called exists.
- Each target that `make test-nightly` runs is run by a workflow.
- A step that runs `make` sets no variable of the environment that the Makefile reads, because make takes its value.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
NIGHTLY = "test-nightly"
# The beginning of each target of Rust that cross.py may get.
SYSTEM = re.compile(r"(?:x86_64|aarch64)-\w")
FILE = re.compile(r"\.?\w[\w.-]*(?:/[\w.-]+)+")


class Repository:
    """The names that a command of a workflow may use."""

    def __init__(self, root: Path) -> None:
        self.root = root
        makefile = (root / "Makefile").read_text("utf-8")
        self.targets = set(re.findall(r"(?m)^([a-z][\w-]*):", makefile))
        self.variables = set(re.findall(r"\$\((\w+)\)", makefile))
        [recipe] = re.findall(rf"(?m)^{NIGHTLY}:.*\n((?:\t.*\n)+)", makefile)
        called = re.findall(r"\$\(MAKE\) (.*)", recipe)
        self.nightly = {target for line in called for target in made(line.split())}
        listed = subprocess.run(["git", "ls-files"], cwd=root, check=True, capture_output=True, text=True)
        files = listed.stdout.splitlines()
        self.folders = {file.split("/")[0] for file in files if "/" in file}
        manifests = [(root / file).read_text("utf-8") for file in files if file.endswith("Cargo.toml")]
        self.crates = {name for text in manifests for name in re.findall(r'(?m)^name = "(.*)"', text)}
        systems = (root / "tools" / "cross" / "targets.py").read_text("utf-8")
        self.systems = set(re.findall(r'(?m)^    "([\w-]+)": Target\(', systems))

    def complaints(self, command: list[str], folder: Path) -> Iterator[str]:
        """Returns the problems of a command that runs in a folder."""
        program, *arguments = command
        if program == "make":
            yield from (f"make {name}: no such target" for name in made(arguments) if name not in self.targets)
        if program == "cargo":
            named = [name for option, name in itertools.pairwise(arguments) if option == "-p"]
            yield from (f"cargo -p {name}: no such package" for name in named if name not in self.crates)
        if program == "npm":
            yield from missing_script(arguments, folder)
        if any(word.endswith("cross.py") for word in command):
            named = [word for word in arguments if SYSTEM.match(word)]
            yield from (f"cross.py {name}: no such target" for name in named if name not in self.systems)
        for word in command:
            # Files of other folders are made by a step before.
            if FILE.fullmatch(word) and word.split("/")[0] in self.folders and not (folder / word).exists():
                yield f"{word}: no such file"
        if FILE.fullmatch(program) and (folder / program).exists() and not os.access(folder / program, os.X_OK):
            yield f"{program} is not executable"


def made(arguments: list[str]) -> list[str]:
    """The targets among the arguments of make."""
    return [word for word in arguments if "=" not in word and not word.startswith("-")]


def missing_script(arguments: list[str], folder: Path) -> Iterator[str]:
    """Names the script that npm is to run and that the package does not have."""
    names = [word for word in arguments if not word.startswith("-")]
    script = names[1] if names[:1] == ["run"] else "test" if names[:1] == ["test"] else None
    manifest = folder / "package.json"
    if script and script not in (json.loads(manifest.read_text("utf-8"))["scripts"] if manifest.exists() else {}):
        yield f"npm {' '.join(names)}: no such script"


def combinations(job: dict[str, Any]) -> list[dict[str, str]]:
    """The values of the matrix of a job."""
    matrix = dict(job.get("strategy", {}).get("matrix", {}))
    include = matrix.pop("include", [])
    lists = [dict(zip(matrix, values, strict=True)) for values in itertools.product(*matrix.values())]
    return [*(lists if matrix else []), *include] or [{}]


def resolve(text: str, values: dict[str, str]) -> str:
    """A text with values of the matrix in place of their names."""
    return re.sub(r"\$\{\{\s*matrix\.(\w+)\s*\}\}", lambda found: str(values.get(found[1], found[0])), text)


def commands(step: dict[str, Any], values: dict[str, str]) -> Iterator[list[str]]:
    """The commands of a step with values of the matrix."""
    text = resolve(step.get("run", ""), values).replace("\\\n", " ")
    for name, value in step.get("env", {}).items():
        text = re.sub(rf'"\${name}"|\${name}\b', lambda _, value=value: resolve(str(value), values), text)
    for line in text.splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        for is_end, command in itertools.groupby(words, lambda word: word in ("&&", "||", "|", ";")):
            if not is_end:
                yield list(command)


def check(root: Path = ROOT) -> list[str]:
    """All that is wrong with the workflows of a repository."""
    repository = Repository(root)
    found = []
    run: set[str] = set()
    for file in sorted((root / ".github" / "workflows").glob("*.yml")):
        for name, job in yaml.safe_load(file.read_text("utf-8"))["jobs"].items():
            where = f"{file.name}, {name}"
            called = job.get("uses", "")
            if called.startswith("./") and not (root / called).exists():
                found.append(f"{where}: {called}: no such file")
            for step, values in itertools.product(job.get("steps", []), combinations(job)):
                folder = root / step.get("working-directory", ".")
                if "make " in step.get("run", ""):
                    taken = sorted(repository.variables.intersection(step.get("env", {})))
                    found += [f"{where}: make would take the variable {name}" for name in taken]
                for command in commands(step, values):
                    run.update(made(command[1:]) if command[0] == "make" else [])
                    found += [f"{where}: {complaint}" for complaint in repository.complaints(command, folder)]
    found += [f"no workflow runs {target} of make {NIGHTLY}" for target in sorted(repository.nightly - run)]
    return list(dict.fromkeys(found))


if __name__ == "__main__":
    complaints = check()
    print("\n".join(complaints), end="\n" if complaints else "")
    sys.exit(1 if complaints else 0)
