"""table.json: the defects, the tests that notice them, and the page that lists them."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from copy_of_tree import ROOT, refusal
from proofs import Proof, Refused

HERE = Path(__file__).resolve().parent
KEYS = ("name", "area", "commit", "seen", "target", "test")
_BEGIN, _END = "<!-- defects -->\n", "<!-- /defects -->\n"


@dataclass(frozen=True)
class Defect:
    """A defect that was fixed once."""

    name: str
    area: str
    # The commit that fixed it.
    commit: str
    # What a user saw.
    seen: str
    # The target of `make test` that notices it.
    target: str
    test: Proof

    @property
    def patch(self) -> Path:
        return HERE / f"{self.name}.patch"


def load(path: Path = HERE / "table.json") -> list[Defect]:
    """Reads the table.

    Raises:
        Refused: It is malformed.
    """
    try:
        rows = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise Refused(f"{path.name} is not JSON: {error}") from None
    defects: list[Defect] = []
    for row in rows:
        if tuple(row) != KEYS:
            raise Refused(f"an entry of {path.name} has the keys {', '.join(row)}; expected {', '.join(KEYS)}")
        defects.append(Defect(**{**row, "test": Proof.of(row["test"])}))
    return defects


def mistakes(defects: list[Defect]) -> list[str]:
    """Finds patches that do not apply and tests that do not exist, without a build."""
    found: list[str] = []
    known = re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    for defect in defects:
        if not defect.patch.is_file():
            found.append(f"{defect.name}: there is no {defect.patch.name}")
        elif (reason := refusal(ROOT, defect.patch, "--check")) is not None:
            found.append(f"{defect.name}: {reason}")
        if not defect.test.exists():
            found.append(f"{defect.name}: there is no test {defect.test}")
        if defect.target not in known:
            found.append(f"{defect.name}: there is no target {defect.target}")
    names = [defect.name for defect in load()]
    found += [f"{name}: the name is there twice" for name in sorted(set(names)) if names.count(name) > 1]
    patches = sorted(path.stem for path in HERE.glob("*.patch"))
    found += [f"{name}: table.json does not have this patch" for name in patches if name not in names]
    if page().read_text("utf-8") != written_page(load()):
        found.append("README.md: the table is not current; run tests/regressions/run.py --update")
    return found


def page() -> Path:
    return HERE / "README.md"


def written_page(defects: list[Defect]) -> str:
    """The page with the table of today."""
    head, _, rest = page().read_text("utf-8").partition(_BEGIN)
    tail = rest.partition(_END)[2]
    rows = [
        f"| `{one.name}` | {one.area} | {one.seen} | `{one.target}`: `{one.test.name}` |"
        for one in sorted(defects, key=lambda one: (one.area, one.name))
    ]
    table = "\n".join(["| defect | area | seen by users | noticed by |", "| --- | --- | --- | --- |", *rows])
    return f"{head}{_BEGIN}\n{table}\n\n{_END}{tail}"


def commits_exist(defects: list[Defect]) -> list[str]:
    """The defects whose commit this clone does not have. A shallow clone has few."""
    asked = "\n".join(f"{defect.commit}^{{commit}}" for defect in defects)
    argv = ["git", "cat-file", "--batch-check"]
    done = subprocess.run(argv, cwd=ROOT, input=asked, capture_output=True, text=True, check=False)
    return [defect.name for defect, line in zip(defects, done.stdout.splitlines(), strict=False) if "missing" in line]
