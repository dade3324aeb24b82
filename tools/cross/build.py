"""Compiles for a target: the Python wheel, the npm packages, and programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import std
from common import CACHE, ROOT, node_library, programs
from targets import MACOS, TARGETS

QUICK = {"LTO": "off", "CODEGEN_UNITS": "16", "OPT_LEVEL": "0"}
# zig exports all symbols of a DLL that are left, and without this there are too many.
FEWER_SYMBOLS = {"LTO": "fat"}
LIBRARIES = ("libkimi_agent_node.so", "libkimi_agent_node.dylib", "kimi_agent_node.dll")


@dataclass(frozen=True)
class Compiler:
    """Cargo for a target, with its variables of the environment, and the arguments for the standard library."""

    name: str
    env: dict[str, str]
    std: list[str]

    @property
    def has_zig(self) -> bool:
        """Whether zig links for the target. If not, it is the linker that Rust names."""
        return sys.platform == "linux" and TARGETS[self.name].has_zig

    def build(self, *arguments: str, folder: Path = ROOT) -> Path:
        """Compiles what the arguments of cargo say, and returns the folder of the products."""
        command = ["cargo", "zigbuild" if self.has_zig else "build", "--release", *arguments, *self.std]
        target = self.name + (TARGETS[self.name].glibc if self.has_zig else "")
        subprocess.run([*command, "--target", target], cwd=folder, env=self.env, check=True)
        return Path(self.env["CARGO_TARGET_DIR"]) / self.name / "release"


def compiler(name: str, quick: bool) -> Compiler:
    """Prepares cargo and maturin for a target."""
    env = {**os.environ, "PATH": f"{programs('build')}{os.pathsep}{os.environ['PATH']}"}
    env.setdefault("CARGO_TARGET_DIR", str(CACHE / "target"))
    # maturin and cargo name this program as the linker. If each named itself, cargo would compile everything twice.
    env["CARGO_BIN_EXE_cargo-zigbuild"] = str(programs("build") / "cargo-zigbuild")
    if quick:
        settings = {**QUICK, **(FEWER_SYMBOLS if "gnullvm" in name else {})}
        env.update({f"CARGO_PROFILE_RELEASE_{key}": value for key, value in settings.items()})
    flags = f"CARGO_TARGET_{name.upper().replace('-', '_')}_RUSTFLAGS"
    if "musl" in name:
        # A library that is loaded uses the C library of the program.
        env[flags] = "-C target-feature=-crt-static"
    if "msvc" in name:
        # Not every Windows has the C library of Visual C++, and Node brings none.
        env[flags] = "-C target-feature=+crt-static"
    if "apple" in name:
        env["MACOSX_DEPLOYMENT_TARGET"] = MACOS
    if "windows-gnu" in name:
        env["LIBNODE_PATH"] = node_library()
    return Compiler(name, env, std.provide(name, env, CACHE))


def build(cargo: Compiler, out: Path) -> None:
    """Builds the native file of the npm package into `out/native`, and the wheel into `out` if there is one."""
    target = TARGETS[cargo.name]
    gnu = "windows-gnu" in cargo.name

    products = cargo.build("--locked", "--package=kimi-agent-node", *(["--features=napi/dyn-symbols"] if gnu else []))
    library = next(products / each for each in LIBRARIES if (products / each).exists())
    native = out / "native"
    native.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(library, native / f"kimi-agent.{target.npm}.node")

    if not target.has_wheel:
        return
    # With its path, because Windows searches for programs in the PATH of this process.
    wheel = [str(programs("build") / "maturin"), "build", "--release", "--locked", "--sbom-include=sbom.cdx.json"]
    wheel += ["--out", str(out), *cargo.std]
    wheel += ["--target", cargo.name, *(["--zig"] if cargo.has_zig else [])]
    wheel += ["--compatibility", target.compatibility] if "linux" in cargo.name else []
    wheel += ["--features", "pyo3/generate-import-lib"] if gnu else []
    for old in out.glob(target.wheel_pattern):
        old.unlink()
    subprocess.run(wheel, cwd=ROOT / "bindings-python", env=cargo.env, check=True)


def pack(out: Path) -> None:
    """Packs the npm packages of all native files in `out/native`."""
    for old in out.glob("*.tgz"):
        old.unlink()
    npm = shutil.which("npm")
    if not npm:
        raise SystemExit("npm is missing")
    bindings = ROOT / "bindings-node"
    if not (bindings / "node_modules" / "typescript").exists():
        subprocess.run([npm, "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=bindings, check=True)
    subprocess.run([npm, "run", "--silent", "build:ts"], cwd=bindings, check=True)
    subprocess.run(["node", "scripts/pack.mjs", out, out / "native"], cwd=bindings, check=True)
