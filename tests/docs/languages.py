"""How blocks of each language are run."""

from __future__ import annotations

import fcntl
import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from blocks import Block, Mistake, with_preamble

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
NODE_PACKAGE = ROOT / "bindings-node"
# No block takes long; this is for one that hangs.
PATIENCE = 180

# What a block in Rust may use: the crate, and those of its dependencies that a program needs.
CRATES = ("kimi_agent", "opentelemetry_sdk", "schemars", "serde", "serde_json", "tokio", "tracing_subscriber")
# The start of an image, which is all that the SDK looks at.
SCREENSHOT = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
TSCONFIG = {
    "compilerOptions": {
        "target": "ES2022",
        "lib": ["ES2022", "ESNext.Disposable"],
        "module": "NodeNext",
        "moduleResolution": "NodeNext",
        "types": ["node"],
        "strict": True,
        "noImplicitReturns": True,
        "noFallthroughCasesInSwitch": True,
        "exactOptionalPropertyTypes": True,
        "skipLibCheck": True,
        "rootDir": "src",
        "outDir": "built",
    },
    "include": ["src"],
}


MANIFEST = f"""
[package]
name = "review"
edition = "2024"

[dependencies]
kimi-agent = {{ path = "{ROOT}/core/kimi-agent", features = ["testing"] }}
tokio = {{ version = "1", features = ["macros", "rt"] }}

[workspace]
"""
# As on the machine of a reader. If `CI` is set, cassettes record nothing by default.
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("CI", "KIMI_RECORD")}


class Failure(Exception):
    """A block does not work."""


class Workshop:
    """Where blocks are built and run."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self._node = scratch / "node"
        self._rust_program: Path | None = None
        self._rust_index: dict[str, int] = {}
        self._typescript_failure = ""
        self._rust_failure = ""

    # --- what several blocks share ---

    def prepare(self, blocks: list[Block]) -> None:
        """Makes agents, and compiles what is compiled together."""
        (self.scratch / "agents").mkdir()
        for script in (HERE / "scripts").glob("*.json"):
            self._make_agent(script)
        modules = self._node / "node_modules"
        modules.mkdir(parents=True)
        (modules / "kimi-agent").symlink_to(NODE_PACKAGE)
        for name in ("zod", "@opentelemetry", "@types"):
            (modules / name).symlink_to(NODE_PACKAGE / "node_modules" / name)
        (modules / ".bin").mkdir()
        (modules / ".bin" / "kimi-agent").symlink_to("../kimi-agent/dist/command.cjs")
        for name in ("jest", "vitest"):
            (modules / ".bin" / name).symlink_to(ROOT / "tests" / "node-runners" / "node_modules" / ".bin" / name)
        alone = [block for block in blocks if not block.projects]
        self._compile_typescript([block for block in alone if block.language == "ts"])
        self._compile_rust([block for block in alone if block.language == "rust"])

    def _make_agent(self, script: Path) -> None:
        agent = self.scratch / "agents" / script.stem
        command = shlex.join([sys.executable, "-m", "kimi_agent.testing.agent", str(script)])
        agent.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        agent.chmod(0o755)

    def _source(self, block: Block, suffix: str) -> str:
        name = block.directives.get("setup")
        if name is None:
            return block.code
        preamble = HERE / "preambles" / f"{name}{suffix}"
        if not preamble.exists():
            raise Mistake(f"{block.place}: there is no preambles/{preamble.name}")
        return with_preamble(block, preamble)

    def _compile_typescript(self, blocks: list[Block]) -> None:
        if not blocks:
            return
        source = self._node / "src"
        source.mkdir()
        for block in blocks:
            (source / f"{block.name}.mts").write_text(self._source(block, ".ts"), encoding="utf-8")
        (self._node / "tsconfig.json").write_text(json.dumps(TSCONFIG))
        compiler = NODE_PACKAGE / "node_modules" / "typescript" / "bin" / "tsc"
        done = _run(["node", str(compiler), "-p", str(self._node)], self._node, {})
        self._typescript_failure = "" if done.returncode == 0 else done.stdout + done.stderr

    def _compile_rust(self, blocks: list[Block]) -> None:
        if not blocks:
            return
        sources = {block.name: self._source(block, ".rs") for block in blocks}
        self._rust_index = {block.place: number for number, block in enumerate(blocks)}
        # Kept, so that a second run compiles only what has changed; one run at a time has it.
        place = ROOT / ".cache" / "doc-blocks"
        place.mkdir(parents=True, exist_ok=True)
        with (place / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _write_program(place, sources)
            own = ["--crate-name=doc_blocks", f"-Cincremental={place / 'built'}"]
            try:
                command = [*self._rustc, *own, "-o", str(self.scratch / "doc-blocks"), "src/main.rs"]
            except Failure as failure:
                self._rust_failure = str(failure)
                return
            done = _run(command, place, {}, patience=1800)
        if done.returncode != 0:
            self._rust_failure = done.stderr
            return
        self._rust_program = self.scratch / "doc-blocks"

    # --- one block ---

    def run(self, block: Block, project: str | None = None) -> str:
        """Runs a block; returns what it prints. Raises `Failure`."""
        if project is not None:
            return self._run_in(self._project(project), block)
        place = self.scratch / "runs" / block.name
        place.mkdir(parents=True)
        (place / "README.md").write_text("# A project\n")
        (place / "screenshot.png").write_bytes(SCREENSHOT)
        (place / "parser.py").write_text("def parse(line):\n    return line.split()\n")
        if block.language == "json":
            return self._json(block, place)
        return self._start(block, self.command(block, place), place)

    def _project(self, name: str) -> Path:
        """The directory of a project, with the packages installed."""
        place = self.scratch / "projects" / re.sub(r"\W+", "_", name)
        if not place.exists():
            place.mkdir(parents=True)
            (place / "node_modules").symlink_to(self._node / "node_modules")
            # Jest's own place for its cache is the folder for temporary files, where it would stay.
            (place / "package.json").write_text('{"jest": {"cacheDirectory": "<rootDir>/.jest"}}', encoding="utf-8")
            (place / "Cargo.toml").write_text(MANIFEST, encoding="utf-8")
            # With the versions that are compiled for the other tests.
            shutil.copy(ROOT / "Cargo.lock", place)
        return place

    @functools.cached_property
    def _rustc(self) -> list[str]:
        """The compiler of programs in Rust. It is asked for when the first block or project is compiled."""
        return _compiler()

    def _cargo(self, path: str) -> dict[str, str]:
        """What a command of a project finds as `cargo`."""
        if os.environ.get("FULL"):
            # With the products of the workspace: cargo compiles only what differs.
            target = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
            return {"CARGO_TARGET_DIR": target, "CARGO_NET_OFFLINE": "true"}
        programs = self.scratch / "programs"
        programs.mkdir(exist_ok=True)
        cargo = programs / "cargo"
        if not cargo.is_symlink():
            cargo.symlink_to(HERE / "cargo.py")
        return {"PATH": f"{programs}{os.pathsep}{path}", "DOCS_RUSTC": json.dumps(self._rustc)}

    def _run_in(self, place: Path, block: Block) -> str:
        """Writes the file of a project, or runs commands there."""
        if block.title:
            file = place / block.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.code, encoding="utf-8")
            return ""
        return self._start(block, self.command(block, place), place)

    def command(self, block: Block, place: Path) -> list[str]:
        """What runs a block, its source written where it has to be. Raises `Failure` where it was not compiled."""
        if block.language == "python":
            program = place / "block.py"
            program.write_text(self._source(block, ".py"), encoding="utf-8")
            return [sys.executable, "-W", "error", str(program)]
        if block.language == "ts":
            if "await using" in block.code:
                raise Mistake(f"{block.place}: readers copy it into JavaScript, where `await using` needs Node 24")
            if self._typescript_failure:
                raise Failure(_about(block, self._typescript_failure))
            return ["node", str(self._node / "built" / f"{block.name}.mjs")]
        if block.language in ("js", "cjs"):
            program = self._node / f"{block.name}.{'mjs' if block.language == 'js' else 'cjs'}"
            program.write_text(self._source(block, ".js"), encoding="utf-8")
            return ["node", str(program)]
        if block.language == "rust":
            if self._rust_failure or self._rust_program is None:
                raise Failure(_about(block, self._rust_failure))
            return [str(self._rust_program), str(self._rust_index[block.place])]
        return ["bash", "-euo", "pipefail", "-c", block.code]

    def _json(self, block: Block, place: Path) -> str:
        try:
            content = json.loads(block.code)
        except ValueError as error:
            raise Failure(f"no JSON: {error}") from None
        if "data" in block.directives:
            return ""
        script = place / "script.json"
        script.write_text(block.code, encoding="utf-8")
        command = [sys.executable, "-m", "kimi_agent.testing.agent", str(script), "--wire"]
        if isinstance(content, dict) and content.get("wire") == "kimi-web":
            if problem := _server_problem(command, place):
                raise Failure(f"no script for the scripted agent: {problem}")
            return ""
        # The agent reads all of its script before it looks at its input, which ends at once.
        done = _run(command, place, {})
        if done.returncode != 0:
            raise Failure(f"no script for the scripted agent: {done.stderr}")
        return ""

    def _start(self, block: Block, command: list[str], place: Path) -> str:
        agent = self.scratch / "agents" / block.directives.get("agent", "friendly")
        if not agent.exists():
            raise Mistake(f"{block.place}: there is no scripts/{agent.name}.json")
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        env = {"KIMI_AGENT_EXECUTABLE": str(agent), "PATH": path}
        if block.projects:
            env |= self._cargo(env["PATH"])
        done = _run(command, place, env, patience=1800 if block.projects else PATIENCE)
        expected = block.directives.get("fails")
        if (done.returncode == 0) != (expected is None):
            raise Failure(f"exit code {done.returncode}\n{done.stdout}{done.stderr}")
        if expected and expected not in done.stdout + done.stderr:
            raise Failure(f"it fails without the text {expected!r}:\n{done.stdout}{done.stderr}")
        return done.stdout


def _compiler() -> list[str]:
    """What compiles a program in Rust with the crates that the other tests have compiled already."""
    build = ["cargo", "programs", "--quiet", "--message-format", "json-render-diagnostics"]
    done = _run(build, ROOT, {}, patience=1800)
    if done.returncode != 0:
        raise Failure(done.stderr)
    libraries: dict[str, Path] = {}
    for line in done.stdout.splitlines():
        message = json.loads(line)
        name = message.get("target", {}).get("name")
        if message["reason"] == "compiler-artifact" and name in CRATES:
            found = [Path(file) for file in message["filenames"] if file.endswith(".rlib")]
            if found and libraries.setdefault(name, found[0]) != found[0]:
                raise Failure(f"there are several of the crate {name}")
    externs = [f"--extern={name}={libraries[name]}" for name in CRATES]
    # Next to this one is whatever they depend on.
    dependencies = f"-Ldependency={libraries['tokio'].parent}"
    return ["rustc", "--edition=2024", dependencies, *externs]


def _write_program(place: Path, sources: dict[str, str]) -> None:
    """A program of all blocks, each a module; its argument says which one it runs."""
    shutil.rmtree(place / "src", ignore_errors=True)
    (place / "src").mkdir()
    report = "pub fn run() -> std::process::ExitCode {\n    std::process::Termination::report(main())\n}\n"
    for name, source in sources.items():
        (place / "src" / f"{name}.rs").write_text(f"{source}\n{report}", encoding="utf-8")
    modules = "".join(f"mod {name};\n" for name in sources)
    cases = "".join(f'        Some("{number}") => {name}::run(),\n' for number, name in enumerate(sources))
    (place / "src" / "main.rs").write_text(
        "#![allow(dead_code, unused)]\n"
        f"{modules}\n"
        "fn main() -> std::process::ExitCode {\n"
        "    match std::env::args().nth(1).as_deref() {\n"
        f"{cases}"
        "        _ => std::process::ExitCode::FAILURE,\n"
        "    }\n"
        "}\n"
    )


def _about(block: Block, output: str) -> str:
    """What a compiler says of one block; of all of them where it says nothing of this one."""
    parts = output.split("\n\n") if f"{block.name}.rs" in output else output.splitlines()
    own = [part for part in parts if block.name in part]
    return "\n\n".join(own) or f"it is not compiled, because of something else:\n{output[:600]}"


def _run(
    command: list[str], place: Path, env: dict[str, str], patience: float = PATIENCE
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            cwd=place,
            env={**_ENVIRONMENT, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patience,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        raise Failure(f"still running after {patience} seconds: {expired.stdout!r}") from None


def _server_problem(command: list[str], place: Path) -> str:
    """Starts a server and ends it when it prints its first line; returns what it wrote to stderr if it ends before."""
    with subprocess.Popen(
        command, cwd=place, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        patience = threading.Timer(PATIENCE, server.kill)
        patience.start()
        started = bool(server.stdout and server.stdout.readline())
        patience.cancel()
        server.kill()
        _, complaint = server.communicate()
    return "" if started else complaint or f"it printed nothing in {PATIENCE} seconds"
