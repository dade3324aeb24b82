"""Looks into a wheel, from an interpreter that has it: wheel.py WHEEL VERSION ROOT. Exits with 1 for what is wrong."""

from __future__ import annotations

import importlib.metadata
import json
import sys
import zipfile
from pathlib import Path

NEEDED = ("kimi_agent/py.typed", "kimi_agent/_native.pyi", "kimi_agent/sync.py", "kimi_agent/testing/agent.py",
          "pytest_kimi_agent/__init__.py", "pytest_kimi_agent/py.typed")  # fmt: skip
OF_OTHERS = ("licenses/THIRD-PARTY-LICENSES.txt", "sboms/sbom.cdx.json")
# A crate, the npm packages in the page of the inspector, and what the toolchain adds.
PARTS = {"serde_json", "diff", "preact", "rust-std"}


def complaints(wheel: Path, version: str, root: Path) -> list[str]:
    found = []
    metadata = importlib.metadata.metadata("kimi-agent")
    commands = importlib.metadata.entry_points(group="console_scripts", name="kimi-scripted-agent")
    if not commands or not callable(next(iter(commands)).load()):
        found.append("it installs no command kimi-scripted-agent")
    plugins = [plugin.value for plugin in importlib.metadata.entry_points(group="pytest11")]
    if plugins != ["pytest_kimi_agent"]:
        found.append(f"its plugins of pytest are {plugins}")
    links = {link.partition(",")[0] for link in metadata.get_all("Project-URL") or []}
    found += [f"it has no link to its {name}" for name in ("Homepage", "Repository", "Issues") if name not in links]
    requires = metadata.get_all("Requires-Dist")
    needed = [text for text in requires or [] if "extra ==" not in text]
    if needed:
        found.append(f"it depends on {needed}")
    extras = sorted(metadata.get_all("Provides-Extra") or [])
    if extras != ["otel", "ray", "tools"]:
        found.append(f"its extras are {extras}, not otel, ray and tools")
    if metadata["Version"] != version:
        found.append(f"its version is {metadata['Version']}, the workspace's {version}")
    if "-cp310-abi3-" not in wheel.name:
        found.append(f"it is not for the stable ABI of Python 3.10: {wheel.name}")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        found += [f"{name} is not in it" for name in NEEDED if name not in names]
        info = [name.partition(".dist-info/")[2] for name in names]
        found += [f"{name} is not in its metadata" for name in OF_OTHERS if name not in info]
        texts = {name.rpartition("/")[2]: archive.read(name).decode() for name in names if name.endswith(OF_OTHERS)}
        boms = [json.loads(text) for name, text in texts.items() if name.endswith(".json")]
        parts = {component["name"] for bom in boms for component in bom["components"]}
        found += [f"{part} is not in its bill of materials" for part in sorted(PARTS - parts)]
        licensed = texts.get("THIRD-PARTY-LICENSES.txt", "")
        found += [f"the licence of {part} is not in it" for part in sorted(PARTS) if f"\n{part} " not in licensed]
        strays = [name for name in names if "/tests/" in name or name.endswith((".rs", ".pyc"))]
        found += [f"{name} does not belong in it" for name in strays]
        licenses = [archive.read(name) for name in names if name.endswith("/LICENSE")]
        if licenses != [(root / "LICENSE").read_bytes()]:
            found.append("it does not hold the project's LICENSE")
        readable = [name for name in names if not name.endswith((".so", ".pyd", ".dylib"))]
        here = str(root).encode()
        found += [f"{name} names the place where it was built" for name in readable if here in archive.read(name)]
    return found


def main() -> int:
    found = complaints(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
