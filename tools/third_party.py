#!/usr/bin/env python3
"""Writes what the native files of the packages contain of others: the texts of licences, and a bill of materials.

third_party.py   writes THIRD-PARTY-LICENSES.txt and sbom.cdx.json (CycloneDX) into the folders of both bindings
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BINDINGS = {"kimi-agent-node": "bindings-node", "kimi-agent-python": "bindings-python"}
LICENSES = "THIRD-PARTY-LICENSES.txt"
SBOM = "sbom.cdx.json"
HEAD = "The native file of this package contains the following Rust crates, under the licences below.\n"
_TEXT = re.compile(r"^(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)


def dependencies(metadata: dict[str, Any], root: str) -> list[dict[str, Any]]:
    """Crates of registries that a package is linked with, on any system, by name and version."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    queue = [package["id"] for package in packages.values() if package["name"] == root]
    seen = set(queue)
    while queue:
        for dependency in nodes[queue.pop()]["deps"]:
            linked = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            macro = any("proc-macro" in target["kind"] for target in packages[dependency["pkg"]]["targets"])
            if linked and not macro and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                queue.append(dependency["pkg"])
    found = [packages[each] for each in seen if packages[each]["source"]]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def texts(package: dict[str, Any]) -> list[str]:
    """The licence texts of a crate; of a choice that has MIT, that of MIT."""
    folder = Path(package["manifest_path"]).parent
    files = sorted(path for path in folder.iterdir() if path.is_file() and _TEXT.match(path.name))
    if re.search(r"(^|OR |\()MIT($| OR|\))", package["license"] or ""):
        files = [path for path in files if "mit" in path.name.lower()] or files
    return [path.read_text("utf-8").replace("\r\n", "\n").strip() for path in files]


def licenses(packages: list[dict[str, Any]]) -> str:
    users: dict[str, list[str]] = {}
    for package in packages:
        title = f"{package['name']} {package['version']} ({package['license']})"
        own = texts(package) or [f"No text comes with it. Its source: {package['repository']}"]
        for text in own:
            users.setdefault(text, []).append(title)
    parts = ["\n".join([*names, "", text]) for text, names in sorted(users.items(), key=lambda item: item[1])]
    return HEAD + "".join(f"\n{'=' * 80}\n{part}\n" for part in parts)


def sbom(packages: list[dict[str, Any]], root: str, version: str) -> str:
    components = [
        {
            "type": "library",
            "bom-ref": f"pkg:cargo/{package['name']}@{package['version']}",
            "name": package["name"],
            "version": package["version"],
            "purl": f"pkg:cargo/{package['name']}@{package['version']}",
            # Before SPDX 2.1 a slash was a choice.
            "licenses": [{"expression": re.sub(r" ?/ ?", " OR ", package["license"])}],
        }
        for package in packages
    ]
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "library", "bom-ref": root, "name": root, "version": version}},
        "components": components,
    }
    return json.dumps(document, indent=1) + "\n"


def main() -> None:
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    for root, folder in BINDINGS.items():
        packages = dependencies(metadata, root)
        version = next(each["version"] for each in metadata["packages"] if each["name"] == root)
        for name, text in ((LICENSES, licenses(packages)), (SBOM, sbom(packages, root, version))):
            (ROOT / folder / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
