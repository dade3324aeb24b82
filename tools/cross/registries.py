"""Serves the packages of a folder as the registries of pip, npm and cargo do, on this machine."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from common import ROOT

# The crates that a program in Rust depends on, in the order of the Makefile.
CRATES = re.compile(r"(?m)^CRATES := (.*)$")


@dataclass(frozen=True)
class Registries:
    """Their addresses."""

    pip: str
    npm: str
    cargo: str


class Files(SimpleHTTPRequestHandler):
    """Serves files, and says nothing about it."""

    def log_message(self, format: str, *args: Any) -> None:
        """Keeps the log of requests from stderr."""


@contextlib.contextmanager
def serve(packages: Path, folder: Path) -> Iterator[Registries]:
    """Serves the wheels and npm packages of a folder, and the crates of this workspace, until the block ends."""
    wheels = folder / "pip" / "kimi-agent"
    wheels.mkdir(parents=True)
    for wheel in packages.glob("*.whl"):
        (wheels / wheel.name).symlink_to(wheel)
    handler = functools.partial(Files, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        address = f"http://127.0.0.1:{server.server_address[1]}"
        add_crates(folder / "cargo", address)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with npm(packages) as npm_address:
                yield Registries(f"{address}/pip", npm_address, f"sparse+{address}/cargo/")
        finally:
            server.shutdown()
            forget(address)


@contextlib.contextmanager
def npm(packages: Path) -> Iterator[str]:
    """Runs a registry of npm until the block ends, and returns its address."""
    folder = ROOT / "tests" / "registry"
    if not (folder / "node_modules" / "verdaccio").exists():
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=folder, check=True)
    command = ["node", "serve.mjs"]
    env = {**os.environ, "KIMI_AGENT_DIST": str(packages)}
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=folder, env=env, **pipes) as server:
        # It ends when its input is closed, which the end of this block does.
        address = server.stdout.readline().strip() if server.stdout else ""
        if not address:
            raise SystemExit("the registry of npm did not start")
        yield address


def forget(address: str) -> None:
    """Removes what cargo keeps of the crates at an address, at which the next time there may be others."""
    kept = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo") / "registry"
    for config in kept.glob("index/127.0.0.1-*/config.json"):
        if address in config.read_text("utf-8"):
            for kind in ("cache", "index", "src"):
                shutil.rmtree(kept / kind / config.parent.name, ignore_errors=True)


def add_crates(folder: Path, address: str) -> None:
    """Packages the published crates, and writes the index of a registry that has them and nothing else."""
    chosen = CRATES.findall((ROOT / "Makefile").read_text("utf-8"))[0].split()
    command = ["cargo", "package", "-q", "--locked", "--allow-dirty", "--no-verify", *chosen]
    env = {**os.environ, "CARGO_TARGET_DIR": str(folder)}
    subprocess.run(command, cwd=ROOT, env=env, check=True)
    (folder / "config.json").write_text(json.dumps({"dl": f"{address}/cargo/package/{{crate}}-{{version}}.crate"}))
    described = subprocess.run(
        ["cargo", "metadata", "--locked", "--no-deps", "--format-version=1"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for package in json.loads(described.stdout)["packages"]:
        if package["name"] in chosen:
            line = json.dumps(entry(package, folder / "package"))
            file = folder / package["name"][:2] / package["name"][2:4] / package["name"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{line}\n", "utf-8")


def entry(package: dict[str, Any], crates: Path) -> dict[str, Any]:
    """The line of the index for a crate. What it needs for its own tests does not belong there."""
    archive = crates / f"{package['name']}-{package['version']}.crate"
    return {
        "name": package["name"],
        "vers": package["version"],
        "deps": [dependency(each) for each in package["dependencies"] if each["kind"] != "dev"],
        "cksum": hashlib.sha256(archive.read_bytes()).hexdigest(),
        "features": {},
        "features2": package["features"],
        "v": 2,
        "yanked": False,
        "rust_version": package["rust_version"],
    }


def dependency(described: dict[str, Any]) -> dict[str, Any]:
    """A dependency in the words of the index. Crates of the workspace have no source."""
    renamed = described["rename"]
    return {
        "name": renamed or described["name"],
        "package": described["name"] if renamed else None,
        "req": described["req"],
        "features": described["features"],
        "optional": described["optional"],
        "default_features": described["uses_default_features"],
        "target": described["target"],
        "kind": described["kind"] or "normal",
        "registry": described["source"] and described["source"].removeprefix("registry+"),
    }
