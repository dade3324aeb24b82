"""The systems that packages are built for, and how each can be tried on a Linux machine."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import runners

MACOS = "11.0"
MACHINES = {"AMD64": "x64", "ARM64": "arm64", "aarch64": "arm64", "arm64": "arm64", "x86_64": "x64"}
Runner = Callable[[Path], runners.System]


@dataclass(frozen=True)
class Target:
    """A system: the platform of its wheel, and the end of the name of its npm package.

    `emulate` prepares the system that programs are tried with on another machine. Without it, the packages are only
    linked there.
    """

    wheel: str
    npm: str
    emulate: Runner | None = None
    # The oldest glibc, which zig links with if it is at the end of the name of the target.
    glibc: str = ""
    # Whether zig links for it on Linux. It exports all symbols of a DLL, of which there are too many; MinGW does not.
    has_zig: bool = True
    # Whether maturin makes a wheel. With gnullvm it exports a function with a dot in its name, which does not exist:
    # https://github.com/PyO3/maturin/issues/3274
    has_wheel: bool = True
    # The system that has the linker, as in sys.platform. Linux has zig, with which it links for the others.
    linker: str = "linux"

    @property
    def wheel_pattern(self) -> str:
        """Matches the name of the wheel."""
        return f"kimi_agent-*{self.wheel}*.whl"

    @property
    def compatibility(self) -> str:
        """The platform of the wheel without its machine."""
        return self.wheel.removesuffix("_x86_64").removesuffix("_aarch64")

    @property
    def pip_options(self) -> list[str]:
        """Makes pip choose as it would on that system. It refuses a wheel whose tags do not fit."""
        system = ["--platform", self.wheel, "--only-binary=:all:", "--implementation", "cp", "--abi", "abi3"]
        return [*system, "--python-version", "3.10"]

    @property
    def npm_options(self) -> list[str]:
        """Makes npm choose as it would on that system."""
        os, cpu, *libc = self.npm.split("-")
        return [f"--os={os}", f"--cpu={cpu}", f"--libc={'musl' if libc == ['musl'] else 'glibc'}"]

    @property
    def is_here(self) -> bool:
        """Whether this machine runs it."""
        machine = f"{sys.platform}-{MACHINES.get(platform.machine())}"
        if sys.platform == "linux":
            machine += "-gnu" if platform.libc_ver()[0] == "glibc" else "-musl"
        return self.npm.removesuffix("-msvc") == machine

    @property
    def run(self) -> Runner | None:
        """How the packages are tried here."""
        return runners.here if self.is_here else self.emulate if sys.platform == "linux" else None


TARGETS = {
    "x86_64-unknown-linux-gnu": Target("manylinux2014_x86_64", "linux-x64-gnu", glibc=".2.17"),
    "aarch64-unknown-linux-gnu": Target("manylinux2014_aarch64", "linux-arm64-gnu", runners.qemu, glibc=".2.17"),
    "x86_64-unknown-linux-musl": Target("musllinux_1_2_x86_64", "linux-x64-musl", runners.musl),
    "aarch64-unknown-linux-musl": Target("musllinux_1_2_aarch64", "linux-arm64-musl", runners.qemu_musl),
    "x86_64-apple-darwin": Target("macosx_11_0_x86_64", "darwin-x64"),
    "aarch64-apple-darwin": Target("macosx_11_0_arm64", "darwin-arm64"),
    # For tests only: the published packages of Windows are built with MSVC, on Windows.
    "x86_64-pc-windows-gnu": Target("win_amd64", "win32-x64-msvc", runners.wine, has_zig=False),
    "aarch64-pc-windows-gnullvm": Target("win_arm64", "win32-arm64-msvc", has_wheel=False),
    "x86_64-pc-windows-msvc": Target("win_amd64", "win32-x64-msvc", linker="win32"),
    "aarch64-pc-windows-msvc": Target("win_arm64", "win32-arm64-msvc", linker="win32"),
}


def default_targets() -> list[str]:
    """On Linux all targets that zig links, on other systems that of the machine, with the system's own linker."""
    if sys.platform == "linux":
        return [name for name, target in TARGETS.items() if target.linker == "linux"]
    return [name for name, target in TARGETS.items() if target.is_here and "windows-gnu" not in name]
