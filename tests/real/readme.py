#!/usr/bin/env python3
"""Runs README's first example of each language, as it stands there, with agents that `kimi` may be; and the demo.

    python tests/real/readme.py

A program written from the README knows nothing of the agent it meets: a release of kimi-cli, which speaks Wire, Kimi
Code, which speaks ACP, or the scripted agent. Each is put first on the path, with a scripted model on loopback behind
it. The packages for Python and Node are installed as a reader installs them: the wheel into a new environment, the npm
packages into an empty folder, both from the folder of the built packages, without the network.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "docs")]

from blocks import Block, read  # noqa: E402 (the path has to be set first)
from harness.real import configuration, kimi_code_configuration, toml  # noqa: E402
from languages import Workshop  # noqa: E402

from real import install  # noqa: E402
from real.model import Reply, ScriptedModel  # noqa: E402

LANGUAGES = ("python", "js", "rust")
PACKAGES = ROOT / ".cache" / "packages"
WIRE_RELEASE = "1.51.0"
ACP_RELEASE = "2.1.0"
ANSWER = "There is a README."
# No turn takes long; this is for one that hangs.
PATIENCE = 180
# They would lead the agent elsewhere than to its scripted model.
OVERRULING = ("KIMI_", "OPENAI_", "MOONSHOT_")
Environment = dict[str, str]


def model(tool: str) -> list[Reply]:
    """A turn that runs a command with this tool before it says something, which takes that it sees what came out."""
    command = "touch seen; echo $((6 * 7)) files"
    return [
        {"text": "I look around.", "calls": [{"id": "c1", "name": tool, "arguments": {"command": command}}]},
        {"text": ANSWER, "needs": ["42 files"]},
    ]


def kimi_cli(home: Path, base_url: str) -> tuple[list[Path], Environment]:
    """The path of the kimi-cli release, and the configuration of its model."""
    (kimi,) = install.command(WIRE_RELEASE, say=print)
    share = home / "share"
    share.mkdir()
    (share / "config.toml").write_text(toml(configuration(base_url)), "utf-8")
    # A folder with nothing else in it: an environment has other commands that are not to be found.
    (home / "bin").mkdir()
    (home / "bin" / "kimi").symlink_to(kimi)
    return [home / "bin"], {"KIMI_SHARE_DIR": str(share), "KIMI_CLI_NO_AUTO_UPDATE": "1"}


def kimi_code(home: Path, base_url: str) -> tuple[list[Path], Environment]:
    """The path of Kimi Code, with its Node and the configuration of its model."""
    (kimi,) = install.kimi_code(ACP_RELEASE, say=print)
    own = home / ".kimi-code"
    own.mkdir()
    (own / "config.toml").write_text(toml(kimi_code_configuration(base_url)), "utf-8")
    return [Path(kimi).parent, install.node_of(ACP_RELEASE).parent], {
        "KIMI_CODE_HOME": str(own),
        "KIMI_DISABLE_TELEMETRY": "1",
    }


def scripted(home: Path, _: str) -> tuple[list[Path], Environment]:
    """A `kimi` that is the scripted agent, which needs no model."""
    (home / "bin").mkdir()
    kimi = home / "bin" / "kimi"
    script = ROOT / "tests" / "docs" / "scripts" / "friendly.json"
    kimi.write_text(
        f'#!/bin/sh\nexec {shlex.join([sys.executable, "-m", "kimi_agent.testing.agent", str(script)])} "$@"\n', "utf-8"
    )
    kimi.chmod(0o755)
    return [home / "bin"], {}


Prepare = Callable[[Path, str], tuple[list[Path], Environment]]
AGENTS: dict[str, tuple[Prepare, list[Reply]]] = {
    f"kimi-cli {WIRE_RELEASE}": (kimi_cli, model("Shell")),
    f"Kimi Code {ACP_RELEASE}": (kimi_code, model("Bash")),
    "the scripted agent": (scripted, []),
}


def examples() -> list[Block]:
    """README's first block of each language."""
    blocks = [block for block in read(ROOT / "README.md", ROOT) if "skip" not in block.directives]
    return [next(block for block in blocks if block.language == language) for language in LANGUAGES]


def demo() -> list[Reply]:
    """A turn of the demo with Kimi Code: the program's tool, a file that is read, and the mistake mended."""
    edit = {"path": "prices.py", "old_string": "price * percent / 100", "new_string": "price * (100 - percent) / 100"}
    return [
        {
            "text": "I look up the list price.",
            "calls": [{"id": "c1", "name": "mcp__program__list_price", "arguments": {"item": "tea"}}],
        },
        {"calls": [{"id": "c2", "name": "Read", "arguments": {"path": "prices.py"}}], "needs": ["50"]},
        {"calls": [{"id": "c3", "name": "Edit", "arguments": edit}], "needs": ["price * percent / 100"]},
        {"text": "The tea costs 40."},
    ]


def play_demo(place: Path) -> list[str]:
    """The problem of `AGENT=kimi make demo` with Kimi Code, in all languages."""
    place.mkdir()
    command = [str(ROOT / "tools/demo.sh"), sys.executable, "kimi"]
    with on_path(f"Kimi Code {ACP_RELEASE}", place, demo() * len(LANGUAGES)) as (env, served):
        # The command builds the program in Rust, which is not to look for its tools in the agent's home.
        tools = {"CARGO_HOME": Path.home() / ".cargo", "RUSTUP_HOME": Path.home() / ".rustup"}
        ran = subprocess.run(
            command,
            env={**env, **{name: os.environ.get(name, str(path)) for name, path in tools.items()}},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=len(LANGUAGES) * PATIENCE,
            check=False,
        )
        end = re.compile(r"^finished in 4 steps, 400 tokens in, 40 out$", re.MULTILINE)
        wrong = {
            f"it ends with {ran.returncode}": ran.returncode != 0,
            "a turn does not finish with its steps and tokens": len(end.findall(ran.stdout)) != len(LANGUAGES),
            "a mistake is still there": ran.stdout.count("+     return price * (100 - ") != len(LANGUAGES),
            "the model was asked for less replies": served.unused > 0,
        }
    found = [said for said, is_so in wrong.items() if is_so]
    return [f"{'; '.join(found)}\n{ran.stdout}{ran.stderr}"] if found else []


@contextlib.contextmanager
def on_path(
    agent: str, place: Path, scripted: list[Reply] | None = None
) -> Iterator[tuple[Environment, ScriptedModel]]:
    """The environment of a program that finds this agent under the name `kimi`."""
    prepare, replies = AGENTS[agent]
    replies = scripted or replies
    home = place / "home"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OVERRULING)}
    with ScriptedModel(replies) as served:
        folders, own = prepare(home, served.base_url)
        path = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
        yield {**kept, **own, "HOME": str(home), "NO_PROXY": "127.0.0.1", "PATH": path}, served


class Installed:
    """The packages in a new environment and in a folder with nothing else."""

    def __init__(self, scratch: Path) -> None:
        self._python = scratch / "venv" / "bin" / "python"
        self._node = scratch / "npm"
        self._node.mkdir()
        wheel, *_ = PACKAGES.glob("*.whl")
        npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--offline", *PACKAGES.glob("*.tgz")]
        for command in (
            [sys.executable, "-m", "venv", scratch / "venv"],
            [self._python, "-m", "pip", "install", "-q", "--no-index", wheel],
            npm,
        ):
            subprocess.run(list(map(str, command)), cwd=self._node, check=True, timeout=PATIENCE)

    def command(self, block: Block) -> list[str] | None:
        """The command for a block of these languages, which is written as it is printed; otherwise None."""
        if block.language == "python":
            program = self._node.parent / "hello.py"
            program.write_text(block.code, "utf-8")
            return [str(self._python), str(program)]
        if block.language == "js":
            program = self._node / "hello.mjs"
            program.write_text(block.code, "utf-8")
            return ["node", str(program)]
        return None


def play(workshop: Workshop, installed: Installed, block: Block, agent: str, place: Path) -> list[str]:
    """The problem of this example with this agent."""
    work = place / "work"
    work.mkdir(parents=True)
    (work / "README.md").write_text("# A project\n", "utf-8")
    with on_path(agent, place) as (env, served):
        command = installed.command(block) or workshop.command(block, place)
        # Node itself must stay the one that the package is tested with: the agent's own comes first on its path.
        command[0] = shutil.which(command[0]) or command[0]
        ran = subprocess.run(
            command,
            cwd=work,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        wrong: dict[str, Any] = {
            f"it ends with {ran.returncode}": ran.returncode != 0,
            "it asks for no approval": "[it wants to: " not in ran.stdout,
            f"it does not print {ANSWER!r}": ANSWER not in ran.stdout,
            f"the model was asked for less than {len(AGENTS[agent][1])} replies": served.unused > 0,
            "what was approved did not run": bool(AGENTS[agent][1]) and not (work / "seen").exists(),
        }
    found = [said for said, is_so in wrong.items() if is_so]
    return [f"{'; '.join(found)}\n{ran.stdout}{ran.stderr}"] if found else []


def main() -> int:
    """Exits with 1 where an example failed."""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="kimi-agent-readme-") as scratch:
        workshop = Workshop(Path(scratch))
        blocks = examples()
        workshop.prepare(blocks)
        installed = Installed(Path(scratch))
        for agent in AGENTS:
            for block in blocks:
                wrong = play(
                    workshop, installed, block, agent, Path(scratch) / f"{agent}-{block.language}".replace(" ", "-")
                )
                failed += bool(wrong)
                print(
                    f"{'FAILED' if wrong else 'ok'}: {block.place} ({block.language}) with {agent}", *wrong, flush=True
                )
        wrong = play_demo(Path(scratch) / "demo")
        failed += bool(wrong)
        print(f"{'FAILED' if wrong else 'ok'}: the demo with Kimi Code {ACP_RELEASE}", *wrong, flush=True)
    total = len(AGENTS) * len(blocks) + 1
    print(f"{total - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
