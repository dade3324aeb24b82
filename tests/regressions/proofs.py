"""The tests that notice defects: how each kind is built, run and found, and what its failure looks like."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from copy_of_tree import Copy

ROOT = Path(__file__).resolve().parents[2]
# The folders of the crates.
CRATES = {
    "kimi-agent-protocol": "core/protocol",
    "kimi-agent-files": "core/files",
    "kimi-agent-policy": "core/policy",
    "kimi-agent-testing": "core/agent",
    "kimi-agent-entry": "core/entry",
    "kimi-agent-client": "core/client",
    "kimi-agent-command": "core/command",
    "kimi-agent-bridge": "core/bridge",
    "kimi-agent": "core/kimi-agent",
}


class Refused(Exception):
    """The program cannot do what it was asked for; the message says why, and what to do."""


@dataclass(frozen=True)
class Proof:
    """A test. `place` says where it is, and what has to be built for it."""

    kind: str
    place: str
    name: str

    @staticmethod
    def of(data: Mapping[str, str]) -> Proof:
        """Reads `{"cargo": "kimi-agent/session", "name": "turns::x"}`; the key is one of `KINDS`."""
        kinds = [kind for kind in KINDS if kind in data]
        if len(kinds) != 1 or set(data) != {*kinds, "name"}:
            raise Refused(f'a test is {{KIND: place, "name": …}} with KIND of {", ".join(KINDS)}; got {dict(data)}')
        return KINDS[kinds[0]](kinds[0], data[kinds[0]], data["name"])

    def __str__(self) -> str:
        return f"{self.kind}: {self.place}: {self.name}"

    def exists(self) -> bool:
        raise NotImplementedError

    def build(self) -> list[tuple[list[str], str]]:
        """The programs that build what the test needs, and the folders in which they run."""
        return []

    def command(self) -> tuple[list[str], str]:
        """The program that runs this test alone, and the folder in which it runs."""
        raise NotImplementedError

    def passed(self, output: str) -> bool:
        raise NotImplementedError

    def failed(self, output: str) -> bool:
        """Whether this test is among those that failed."""
        raise NotImplementedError

    def missed(self, copy: Copy) -> str | None:
        """Runs the test with the defect. Returns why the defect was not noticed."""
        code, output = self._run(copy)
        if code is None:
            return f"it does not compile with the defect:\n{_end(output)}"
        if code == 0:
            return f"{self} passes with the defect; write a test"
        return None if self.failed(output) else f"{self} failed for another reason:\n{_end(output)}"

    def broken(self, copy: Copy) -> str | None:
        """Runs the test without a defect. Returns why it does not pass."""
        code, output = self._run(copy)
        return None if code == 0 and self.passed(output) else f"{self}\n{_end(output)}"

    def _run(self, copy: Copy) -> tuple[int | None, str]:
        for argv, folder in self.build():
            code, output = copy.run(argv, folder)
            if code:
                return None, output
        argv, folder = self.command()
        return copy.run(argv, folder)


def _end(output: str) -> str:
    return "\n".join(f"    {line}" for line in output.strip().splitlines()[-25:])


class Cargo(Proof):
    """A test of a crate: `kimi-agent` for its unit tests, `kimi-agent/session` for its tests in `tests/session`."""

    def _target(self) -> tuple[str, str]:
        crate, _, binary = self.place.partition("/")
        return crate, binary

    def exists(self) -> bool:
        crate, binary = self._target()
        *modules, name = self.name.split("::")
        root = ROOT / CRATES[crate] / (f"tests/{binary}" if binary else "src")
        files = [root.with_suffix(".rs")] if root.with_suffix(".rs").is_file() else sorted(root.rglob("*.rs"))
        found = [path for path in files if re.search(rf"\bfn {re.escape(name)}\(", path.read_text("utf-8"))]
        # The file is that of one of the modules.
        parts = {*modules, *(f"{module}_tests" for module in modules), "mod", "main", "lib", binary}
        return any(path.stem in parts for path in found)

    def _cargo(self) -> list[str]:
        crate, binary = self._target()
        return [
            "cargo",
            "test",
            "-q",
            "--locked",
            "-p",
            crate,
            "--all-features",
            *(["--test", binary] if binary else ["--lib"]),
        ]

    def build(self) -> list[tuple[list[str], str]]:
        return [([*self._cargo(), "--no-run"], ".")]

    def command(self) -> tuple[list[str], str]:
        return [*self._cargo(), "--", "--exact", self.name], "."

    def passed(self, output: str) -> bool:
        return re.search(r"^test result: ok\. 1 passed", output, re.MULTILINE) is not None

    def failed(self, output: str) -> bool:
        return f"\nfailures:\n    {self.name}\n" in output


class Pytest(Proof):
    """A test of pytest, with the package for Python from the copy."""

    def exists(self) -> bool:
        path = ROOT / self.place
        return path.is_file() and re.search(rf"\bdef {self.name}\(", path.read_text("utf-8")) is not None

    def command(self) -> tuple[list[str], str]:
        return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{self.place}::{self.name}"], "."

    def passed(self, output: str) -> bool:
        return re.search(r"^[1-9][0-9]* passed", output, re.MULTILINE) is not None

    def failed(self, output: str) -> bool:
        # The path is relative to the folder of pytest's configuration.
        return re.search(rf"^FAILED \S*{Path(self.place).name}::{self.name}\b", output, re.MULTILINE) is not None


class Node(Proof):
    """A test of the package for Node."""

    def exists(self) -> bool:
        path = ROOT / self.place
        if not path.is_file():
            return False
        # The titles of some tests have values: `data with ${name} fails one job`.
        titles = re.findall(r"""\btest\((?:"([^"]+)"|'([^']+)'|`([^`]+)`)""", path.read_text("utf-8"))
        patterns = [re.sub(r"\\\$\\\{.*?\\\}", ".+", re.escape(next(filter(None, title)))) for title in titles]
        return any(re.fullmatch(pattern, self.name) for pattern in patterns)

    def build(self) -> list[tuple[list[str], str]]:
        return [(["npm", "run", "--silent", "build:ts"], "bindings-node")]

    def command(self) -> tuple[list[str], str]:
        pattern = f"--test-name-pattern=^{re.escape(self.name).replace('/', '[/]')}$"
        return [
            "node",
            "--test",
            "--test-reporter=tap",
            pattern,
            os.path.relpath(self.place, "bindings-node"),
        ], "bindings-node"

    def passed(self, output: str) -> bool:
        return f"{self.name}\n" in output and re.search(r"^# pass [1-9]", output, re.MULTILINE) is not None

    def failed(self, output: str) -> bool:
        return (
            re.search(rf"^ *(not ok [0-9]+ - |✖ ){re.escape(self.name)}( \(.*\))?$", output, re.MULTILINE) is not None
        )


def _native(package: str, library: str, target: str) -> list[tuple[list[str], str]]:
    """Builds a binding, and puts it where its package looks for it."""
    built = ROOT / ".cache/regressions/target/debug" / f"lib{library}.so"
    return [(["cargo", "build", "-q", "--locked", "-p", package], "."), (["cp", str(built), target], ".")]


class NativePytest(Pytest):
    """A test of the package for Python, with the binding from the copy."""

    def build(self) -> list[tuple[list[str], str]]:
        return _native("kimi-agent-python", "kimi_agent_native", "bindings-python/python/kimi_agent/_native.abi3.so")


class NativeNode(Node):
    """A test of the package for Node, with the binding from the copy."""

    def build(self) -> list[tuple[list[str], str]]:
        name = "bindings-node/kimi-agent.linux-x64-gnu.node"
        return [*super().build(), *_native("kimi-agent-node", "kimi_agent_node", name)]


class Inspector(Node):
    """A unit test of the inspector, which are compiled and run together."""

    def build(self) -> list[tuple[list[str], str]]:
        return []

    def command(self) -> tuple[list[str], str]:
        return ["node", "test/run.mjs"], "inspector"

    def passed(self, output: str) -> bool:
        return self.name in output


class Scenario(Proof):
    """A scenario over Wire in Rust, Python or Node; `place` is the language."""

    def exists(self) -> bool:
        sys.path.insert(0, str(ROOT / "tests"))
        from harness.scenario import load_all  # type: ignore[import-not-found, unused-ignore]

        return any(one.name == self.name for one in load_all(ROOT / "tests/scenarios", [self.name]))

    def build(self) -> list[tuple[list[str], str]]:
        if self.place == "rust":
            return [(["cargo", "programs", "-q"], ".")]
        return [(["npm", "run", "--silent", "build:ts"], "bindings-node")] if self.place == "node" else []

    def command(self) -> tuple[list[str], str]:
        return [sys.executable, "tests/run_scenarios.py", "--languages", self.place, "--only", self.name], "."

    def passed(self, output: str) -> bool:
        return re.search(r"^[1-9][0-9]* passed, 0 failed", output, re.MULTILINE) is not None

    def failed(self, output: str) -> bool:
        return self.name in output and re.search(r"[1-9][0-9]* failed", output) is not None


KINDS = {
    "cargo": Cargo,
    "pytest": Pytest,
    "pytest+native": NativePytest,
    "node": Node,
    "node+native": NativeNode,
    "inspector": Inspector,
    "scenarios": Scenario,
}
