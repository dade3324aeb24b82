#!/usr/bin/env python3
"""Documents crates of the workspace with what `cargo programs` has compiled: rustdoc.py FOLDER CRATE…

`cargo doc` uses nothing of what `cargo build` has made: it checks each dependency once more. Warnings are errors, as in
`make lint`, which runs cargo itself outside of a proof.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
KINDS = {"lib", "rlib", "proc-macro"}


def output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def compiled() -> dict[str, dict[str, Any]]:
    """The libraries and their build scripts as cargo reports them, by the id of the package."""
    libraries: dict[str, dict[str, Any]] = {}
    for line in output("cargo", "programs", "--quiet", "--message-format", "json-render-diagnostics").splitlines():
        message = json.loads(line)
        library = libraries.setdefault(message.get("package_id", ""), {})
        if message["reason"] == "build-script-executed":
            library["script"] = message
        elif message["reason"] == "compiler-artifact" and set(message["target"]["kind"]) & KINDS:
            files = [file for file in message["filenames"] if Path(file).suffix != ".rmeta"]
            library |= {"target": message["target"], "features": message["features"], "file": files[0]}
    return libraries


def arguments(library: dict[str, Any], needs: list[dict[str, Any]], libraries: dict[str, dict[str, Any]]) -> list[str]:
    """The arguments that cargo would give rustdoc for a library with these dependencies."""
    target = library["target"]
    normal = [need for need in needs if any(kind["kind"] is None for kind in need["dep_kinds"])]
    needed = {need["name"]: libraries[need["pkg"]] for need in normal}
    return [
        target["src_path"],
        f"--crate-name={target['name']}",
        f"--edition={target['edition']}",
        "-Dwarnings",
        *(f'--cfg=feature="{name}"' for name in library["features"]),
        *(f"--cfg={name}" for name in library.get("script", {}).get("cfgs", [])),
        *(f"--extern={name}={need['file']}" for name, need in needed.items() if "file" in need),
        *{f"-Ldependency={Path(one['file']).parent}" for one in libraries.values() if "file" in one},
    ]


def main(folder: str, crates: list[str]) -> None:
    libraries = defaultdict(dict, compiled())
    metadata = json.loads(output("cargo", "metadata", "--locked", "--format-version=1"))
    packages = {package["name"]: package for package in metadata["packages"]}
    needs = {node["id"]: node["deps"] for node in metadata["resolve"]["nodes"]}
    for crate in crates:
        package = packages[crate]
        library = libraries[package["id"]]
        script = library.get("script", {})
        variables = {
            "CARGO_PKG_NAME": crate,
            "CARGO_PKG_VERSION": package["version"],
            "CARGO_MANIFEST_DIR": str(Path(package["manifest_path"]).parent),
            "OUT_DIR": script.get("out_dir", ""),
            **dict(script.get("env", [])),
        }
        command = ["rustdoc", f"--out-dir={folder}", *arguments(library, needs[package["id"]], libraries)]
        if subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, check=False).returncode:
            sys.exit(f"the documentation of {crate} cannot be written")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
