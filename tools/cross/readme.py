"""Runs README's first program of each language for a target, with the packages from registries on this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from build import Compiler
from common import PIP, ROOT
from registries import Registries
from runners import System
from targets import TARGETS
from trial import run

sys.path.insert(0, str(ROOT / "tests" / "docs"))

from blocks import read

SCRIPT = ROOT / "tests" / "docs" / "scripts" / "friendly.json"
# By the language of a block in README.
PROGRAMS = {"python": "program.py", "js": "program.mjs", "rust": "main.rs"}
EXPECTED = ("I look around.", "[it wants to: Run command `ls`]", "There is a README.")


def try_readme(cargo: Compiler, system: System | None, registries: Registries) -> bool:
    """Says for each program whether it did what it must. Without a system they are only installed and linked."""
    with tempfile.TemporaryDirectory(prefix="kimi-agent-readme-") as scratch:
        folder = Path(scratch)
        for block in reversed(read(ROOT / "README.md", ROOT)):
            if block.language in PROGRAMS:
                (folder / PROGRAMS[block.language]).write_text(block.code, "utf-8")
        install_packages(cargo.name, registries, folder)
        program = compile_rust(cargo, registries, folder)
        if system is None:
            print(f"linked  {cargo.name}: README's programs are installed, and cannot be run here", flush=True)
            return True
        provide_agent(cargo, system, folder)
        commands = {"Rust": [system.run_by(program, folder / "rust.sh")]}
        for language, file in (("Python", PROGRAMS["python"]), ("Node", PROGRAMS["js"])):
            if language in system.interpreters:
                commands[language] = [system.interpreters[language], Path(file)]
        results = [works(f"{cargo.name}: README, {name}", command, folder) for name, command in commands.items()]
    return all(results)


def works(what: str, command: list[Path], folder: Path) -> bool:
    """Whether a program prints what the agent says, and asks for its approval."""
    outcome = run(command, folder, KIMI_AGENT_EXECUTABLE=json.dumps([f".{os.sep}agent", SCRIPT.name]))
    is_right = outcome.is_good and all(text in outcome.text for text in EXPECTED)
    print(f"{'pass' if is_right else 'FAIL'}    {what}", *([] if is_right else [outcome.text]), flush=True)
    return is_right


def install_packages(name: str, registries: Registries, folder: Path) -> None:
    """Installs the packages of Python and Node by their name, as pip and npm of that system would."""
    target = TARGETS[name]
    if target.has_wheel:
        pip = [*PIP, "--no-deps", "--no-cache-dir", *target.pip_options, "--target", folder]
        subprocess.run([*pip, "--index-url", registries.pip, "kimi-agent"], check=True)
    (folder / "package.json").write_text('{"private": true}', "utf-8")
    npm = [shutil.which("npm") or "npm", "install", "--silent", "--no-audit", "--no-fund", *target.npm_options]
    settings = {"npm_config_registry": registries.npm, "npm_config_cache": str(folder / "npm-cache")}
    subprocess.run([*npm, "kimi-agent"], cwd=folder, env={**os.environ, **settings}, check=True)


def compile_rust(cargo: Compiler, registries: Registries, folder: Path) -> Path:
    """Compiles the program in Rust with the crates of the registry, and others in this workspace's versions."""
    project = folder / "project"
    cargo.env["CARGO_REGISTRIES_LOCAL_INDEX"] = registries.cargo
    commands = (
        ["init", "-q", "--bin", "--vcs=none", "--name=program", str(project)],
        ["add", "-q", "--registry=local", "kimi-agent"],
        ["add", "-q", "tokio", "-F", "macros,rt-multi-thread"],
    )
    for command in commands:
        subprocess.run(["cargo", *command], cwd=project if project.exists() else folder, env=cargo.env, check=True)
    shutil.copyfile(folder / PROGRAMS["rust"], project / "src" / "main.rs")
    shutil.copyfile(ROOT / "Cargo.lock", project / "Cargo.lock")
    return executable(cargo.build(folder=project), "program", folder)


def provide_agent(cargo: Compiler, system: System, folder: Path) -> None:
    """Puts the scripted agent and its script next to the programs."""
    products = cargo.build("--locked", "--package=kimi-agent-testing", "--bin=kimi-scripted-agent", "--features=web")
    program = executable(products, "kimi-scripted-agent", folder)
    if system.is_emulated:
        system.run_by(program, folder / "agent")
    else:
        program.rename(folder / f"agent{program.suffix}")
    shutil.copy(SCRIPT, folder)


def executable(products: Path, name: str, folder: Path) -> Path:
    """A copy of a program that cargo built."""
    [program] = [path for path in (products / name, products / f"{name}.exe") if path.exists()]
    return Path(shutil.copy(program, folder))
