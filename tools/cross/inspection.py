"""Looks into the packages of a target: their tags, the functions of the system that they need, and their sizes."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import zipfile
from pathlib import Path

from common import programs
from targets import MACOS, Target

OLDEST_GLIBC = (2, 17)
MEGABYTE = 1_000_000
# The mark of the page in a native file: https://www.w3.org/TR/trusted-types/ has this directive.
PAGE = b"require-trusted-types-for"
# Of Mach-O: the number in front of a file for 64 bits, the length of its header, and the command with the oldest macOS.
MACH_O = 0xFEEDFACF
MACH_O_HEADER = 32
BUILD_VERSION = 0x32


def complaints(name: str, target: Target, wheel: Path | None, native: Path) -> list[str]:
    """What is wrong with the packages. Prints their sizes."""
    found = complaints_of_audits(name, wheel) if wheel else []
    if "gnu" in name and "linux" in name:
        versions = re.findall(rb"GLIBC_(\d+)\.(\d+)", native.read_bytes())
        newest = max((int(major), int(minor)) for major, minor in versions)
        if newest > OLDEST_GLIBC:
            found.append(f"{native.name} needs glibc {newest[0]}.{newest[1]}")
    if "windows" in name and b"VCRUNTIME140" in native.read_bytes().upper():
        found.append(f"{native.name} needs the C library of Visual C++, which not every Windows has")
    if "apple" in name:
        files = {native.name: native.read_bytes(), **(libraries(wheel) if wheel else {})}
        found += [
            f"{file} needs macOS {oldest}, and not {MACOS}"
            for file, content in files.items()
            if (oldest := oldest_macos(content)) != MACOS
        ]
    if PAGE not in native.read_bytes():
        found.append(f"{native.name} has no page of the inspector")
    files = [native] if wheel is None else [wheel, native]
    print(f"        {name}: {', '.join(f'{path.name} {path.stat().st_size / MEGABYTE:.1f} MB' for path in files)}")
    return found


def libraries(wheel: Path) -> dict[str, bytes]:
    """The libraries in a wheel, by their names."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name.endswith(".so")}


def oldest_macos(library: bytes) -> str:
    """The oldest macOS that loads a library, as its header says."""
    magic, *_, count, _size, _flags, _reserved = struct.unpack_from("<8I", library)
    place = MACH_O_HEADER
    for _ in range(count if magic == MACH_O else 0):
        kind, length, _platform, version = struct.unpack_from("<4I", library, place)
        if kind == BUILD_VERSION:
            return f"{version >> 16}.{version >> 8 & 0xFF}"
        place += length
    return "unknown"


def complaints_of_audits(name: str, wheel: Path) -> list[str]:
    """What abi3audit finds, and on Linux auditwheel: the tag in the name of the wheel must be the one that it finds."""
    found = []
    abi = subprocess.run(
        [programs("audit") / "abi3audit", "--strict", wheel], capture_output=True, text=True, check=False
    )
    if abi.returncode:
        found.append(f"abi3audit: {abi.stdout}{abi.stderr}")
    if "linux" in name:
        # Only the libraries that the wheel names: those of this machine may be for another C library.
        shown = subprocess.run(
            [programs("audit") / "auditwheel", "show", "--ldpaths", wheel.parent, wheel],
            capture_output=True,
            text=True,
            check=False,
        )
        tag = re.search(r'following\s+platform\s+tag:\s+"([^"]+)"', shown.stdout)
        is_right = needs_only_musl(shown.stdout) if "musl" in name else bool(tag and tag[1] in wheel.name)
        if not is_right:
            found.append(
                f"auditwheel: {wheel.name} is consistent with {tag[1] if tag else shown.stdout + shown.stderr}"
            )
    return found


def needs_only_musl(report: str) -> bool:
    """Whether the wheel needs musl and nothing else. zig calls it `libc.so`, which auditwheel does not know."""
    libraries = re.search(r"are\s+required\s+by\s+the\s+wheel:\s+(\{.*?\})", report, re.DOTALL)
    return libraries is not None and set(json.loads(libraries[1])) == {"libc.so"}
