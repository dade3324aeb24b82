#!/usr/bin/env python3
"""Writes what the native files of the packages contain of others: the texts of licences, and a bill of materials.

third_party.py   writes THIRD-PARTY-LICENSES.txt and sbom.cdx.json (CycloneDX) into the folders of both bindings

The parts are the crates that a binding is linked with, the npm packages in the page of the inspector, Rust's standard
library, and the library that unwinds the stack. The C library is not a part, also not musl: a native file uses that of
the system.
"""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

ROOT = Path(__file__).resolve().parent.parent
BINDINGS = {"kimi-agent-node": "bindings-node", "kimi-agent-python": "bindings-python"}
LICENSES = "THIRD-PARTY-LICENSES.txt"
SBOM = "sbom.cdx.json"
PAGE = ROOT / "core" / "command" / "inspector.html"
HEAD = "The native file of this package contains the following software, under the licences below.\n"
# The systems of the crates in Rust's standard library that no package is for.
ELSEWHERE = re.compile(
    r"sgx|hermit|wasi|wit-|moto|r-efi|vex|xous|unwinding|dlmalloc|getopts|rand|^cc$|shlex|gnu(llvm)?$|_i686_"
)
RUST = "https://github.com/rust-lang/rust"
HOLDERS = "The Rust Project Developers (see https://thanks.rust-lang.org)"
LLVM = "Apache-2.0 WITH LLVM-exception"
# It has the version of zig, which is the linker of the packages for Linux.
ZIG = ROOT / "tools" / "cross" / "requirements.txt"
_TEXT = re.compile(r"^(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)


def dependencies(metadata: dict[str, Any], root: str) -> list[dict[str, Any]]:
    """Crates of registries that a package is linked with, on any system, by name and version.

    `cargo tree` knows them: the metadata unite the features that all packages of the workspace ask for.
    """
    tree = ["cargo", "tree", "--locked", f"--package={root}", "--edges=normal,no-proc-macro", "--target=all"]
    linked = set(output(*tree, "--prefix=none", "--format={p}").replace(" (*)", "").splitlines())
    crates = [package for package in metadata["packages"] if package["source"]]
    found = [package for package in crates if f"{package['name']} v{package['version']}" in linked]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


@dataclass(frozen=True)
class Part:
    """A piece of software in the native files."""

    name: str
    version: str
    license: str
    purl: str
    # The address of the source, for a part that comes without the text of its licence.
    source: str
    texts: list[str] = field(default_factory=list)


def of_crate(package: dict[str, Any]) -> Part:
    """A crate, with the texts of its licence; of a choice that has MIT, that of MIT."""
    folder = Path(package["manifest_path"]).parent
    files = sorted(path for path in folder.iterdir() if path.is_file() and _TEXT.match(path.name))
    if re.search(r"(^|OR |\()MIT($| OR|\))", package["license"] or ""):
        files = [path for path in files if "mit" in path.name.lower()] or files
    found = [path.read_text("utf-8").replace("\r\n", "\n").strip() for path in files]
    # Before SPDX 2.1 a slash was a choice.
    license = re.sub(r" ?/ ?", " OR ", package["license"])
    purl = f"pkg:cargo/{package['name']}@{package['version']}"
    return Part(package["name"], package["version"], license, purl, package["repository"], found)


def of_page(page: str) -> list[Part]:
    """The npm packages in the page of the inspector, which names them with their licences in a comment."""
    comment = re.search(r"(?s)<!--\nThis page contains these packages\.\n\n(.*?)\n-->", page)
    if not comment:
        raise SystemExit(f"{PAGE} does not name its packages: run make inspector")
    titles = list(re.finditer(r"(?m)^((?:@[\w.-]+/)?[\w.-]+) (\d[\w.+-]*) \((.+)\)$", comment[1]))
    ends = [*(title.start() for title in titles[1:]), len(comment[1])]
    return [
        Part(name, version, license, f"pkg:npm/{quote(name)}@{version}", "", [comment[1][title.end() : end].strip()])
        for title, end in zip(titles, ends, strict=True)
        for name, version, license in [title.groups()]
    ]


def of_toolchain() -> list[Part]:
    """Rust's standard library, the crates in it, and the library that zig links to unwind the stack on Linux.

    The texts are in a folder of the toolchain, which packages of some systems leave out.
    """
    documents = Path(output("rustc", "--print", "sysroot")) / "share" / "doc" / "rust"

    def text(name: str) -> list[str]:
        file = documents / "licenses" / f"{name}.txt"
        return [file.read_text("utf-8").strip()] if file.exists() else []

    own = [mit.replace("<year> <copyright holders>", HOLDERS) for mit in text("MIT")]
    version = output("rustc", "--version").split()[1]
    parts = [Part("rust-std", version, "MIT OR Apache-2.0", f"pkg:generic/rust-std@{version}", RUST, own)]
    # The packages that are made on Linux are linked with zig.
    if sys.platform == "linux":
        zig = re.findall(r"(?m)^ziglang==(\S+)", ZIG.read_text("utf-8"))[0]
        texts = [*text("Apache-2.0"), *text("LLVM-exception")]
        parts.append(Part("libunwind of zig", zig, LLVM, f"pkg:pypi/ziglang@{zig}", "https://ziglang.org", texts))
    return [*parts, *of_notices(documents / "COPYRIGHT-library.html")]


def of_notices(page: Path) -> list[Part]:
    """The crates in the standard library, from the page of the toolchain that has their notices."""
    found = []
    for entry in re.split(r"<h3>\W*(?=\w)", page.read_text("utf-8") if page.exists() else "")[1:]:
        name, version = re.findall(r"^([\w-]+?)-(\d[^<]*)</h3>", entry)[0]
        if ELSEWHERE.search(name):
            continue
        license = re.findall(r"<b>License:</b> ([^<]*)</p>", entry)[0]
        notes = re.findall(r"(?s)<code>([^<]*)</code></summary>\s*<pre>(.*?)</pre>", entry)
        chosen = [text for file, text in notes if "mit" in file.lower()] or [text for _, text in notes]
        source = f"https://crates.io/crates/{name}"
        texts = [html.unescape(text).strip() for text in chosen]
        found.append(Part(name, version, license, f"pkg:cargo/{name}@{version}", source, texts))
    return found


def output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def licenses(parts: list[Part]) -> str:
    users: dict[str, list[str]] = {}
    for part in parts:
        for text in part.texts or [f"No text comes with it. Its source: {part.source}"]:
            users.setdefault(text, []).append(f"{part.name} {part.version} ({part.license})")
    sections = ["\n".join([*names, "", text]) for text, names in sorted(users.items(), key=lambda item: item[1])]
    return HEAD + "".join(f"\n{'=' * 80}\n{section}\n" for section in sections)


def sbom(parts: list[Part], root: str, version: str) -> str:
    components = [
        {
            "type": "library",
            "bom-ref": part.purl,
            "name": part.name,
            "version": part.version,
            "purl": part.purl,
            "licenses": [{"expression": part.license}],
        }
        for part in parts
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
    metadata = json.loads(output("cargo", "metadata", "--locked", "--format-version", "1"))
    if not PAGE.exists():
        raise SystemExit(f"{PAGE} is missing, whose packages are named here: run make inspector")
    common = [*of_page(PAGE.read_text("utf-8")), *of_toolchain()]
    for root, folder in BINDINGS.items():
        crates = [of_crate(package) for package in dependencies(metadata, root)]
        # A crate that the standard library has in the same version, too, is one part.
        parts = [*crates, *(part for part in common if part.purl not in {crate.purl for crate in crates})]
        parts.sort(key=lambda part: (part.name, part.version))
        version = next(each["version"] for each in metadata["packages"] if each["name"] == root)
        for name, text in ((LICENSES, licenses(parts)), (SBOM, sbom(parts, root, version))):
            (ROOT / folder / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
