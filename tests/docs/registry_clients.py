"""Stands in for npm, uv and cargo as they publish: registry_clients.py PROGRAM ARGUMENT….

A publication becomes a line of the file REGISTRY, such as `npm kimi-agent`, and like a registry it refuses the line a
second time. The publication of the line FAILING fails.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import tarfile
from pathlib import Path

PAGE = Path("core/command/inspector.html")


def archive(name: str, text: str) -> bytes:
    """A compressed archive with one file, of which equal ones have equal bytes."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as packed:
        member = tarfile.TarInfo(name)
        member.size = len(text.encode())
        packed.addfile(member, io.BytesIO(text.encode()))
    return gzip.compress(written.getvalue(), mtime=0)


def crate(name: str, version: str) -> bytes:
    """The package of a crate of the folder."""
    text = PAGE.read_text("utf-8") if name == "kimi-agent-command" else name
    return archive(f"{name}-{version}/inspector.html", text)


def published() -> list[str]:
    """The lines of the registry."""
    return Path(os.environ["REGISTRY"]).read_text("utf-8").splitlines()


def publish(line: str) -> None:
    """Publishes a name, or exits with the error of a registry."""
    if line in published():
        raise SystemExit(f"{line} is published already")
    if line == os.environ["FAILING"]:
        raise SystemExit("the connection was reset")
    with Path(os.environ["REGISTRY"]).open("a", encoding="utf-8") as registry:
        registry.write(f"{line}\n")


def npm(command: str, *arguments: str) -> None:
    """`view NAME@VERSION version` and `publish … TARBALL`."""
    if command == "view":
        name, _, version = arguments[0].rpartition("@")
        if f"npm {name}" not in published():
            raise SystemExit("E404")
        print(version)
        return
    with tarfile.open(arguments[-1]) as packed:
        description = packed.extractfile("package/package.json")
        assert description
        publish(f"npm {json.loads(description.read())['name']}")


def uv(_: str, *arguments: str) -> None:
    """`publish … FILE…`: each needs its attestation. PyPI accepts the same file again."""
    files = [Path(each) for each in arguments if each.startswith("/")]
    packages = [file for file in files if file.suffix != ".attestation"]
    for file in packages:
        if not all(each.is_file() for each in (file, file.with_name(f"{file.name}.publish.attestation"))):
            raise SystemExit(f"{file} or its attestation is missing")
        if f"uv {file.name}" not in published():
            publish(f"uv {file.name}")


def cargo(command: str, *arguments: str) -> None:
    """`info … NAME@VERSION`, `package … --package=NAME…` and `publish … --package=NAME…`."""
    if command == "info":
        name, _, version = arguments[-1].partition("@")
        if f"cargo {name}" not in published():
            raise SystemExit(f"error: could not find `{name}@{version}` in registry")
        return
    if PAGE.exists() and "--allow-dirty" not in arguments:
        raise SystemExit(f"error: 1 files contain changes that were not yet committed into git: {PAGE}")
    names = [each.removeprefix("--package=") for each in arguments if each.startswith("--package=")]
    packages = Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "package"
    for name in names:
        if command == "publish":
            publish(f"cargo {name}")
        else:
            packages.mkdir(parents=True, exist_ok=True)
            version = os.environ["VERSION"]
            (packages / f"{name}-{version}.crate").write_bytes(crate(name, version))


if __name__ == "__main__":
    {"npm": npm, "uv": uv, "cargo": cargo}[sys.argv[1]](*sys.argv[2:])
