"""Extracts packages of Debian, also of another release or machine, without installing them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path


def mirror() -> str:
    """The address that this machine takes its packages from."""
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise SystemExit("this takes packages of Debian: run it on Debian, or in a container with it")
    command = ["apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)", "Created-By: Packages"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    found = [line.partition(" ")[2] for line in lines if line.startswith("Debian ") and "security" not in line]
    if not found:
        raise SystemExit("there is no list of Debian's packages: run `apt-get update` as root first")
    return found[0]


def extract(cache: Path, name: str, packages: Iterable[str], *, machine: str = "", suite: str = "") -> Path:
    """Extracts packages and all that they depend on into a folder of the cache, and returns it."""
    root = cache / name
    stamp = root / ".ready"
    wanted = "\n".join([suite, machine, *packages])
    if stamp.exists() and stamp.read_text("utf-8") == wanted:
        return root
    shutil.rmtree(root, ignore_errors=True)
    # As Debian's base-files has them.
    for folder in ("bin", "lib", "lib64", "sbin"):
        (root / "usr" / folder).mkdir(parents=True, exist_ok=True)
        (root / folder).symlink_to(Path("usr") / folder)
    apt = cache / f"{name}.apt"
    config = configuration(apt, machine, suite)
    env = {**os.environ, "APT_CONFIG": str(config)}
    subprocess.run(["apt-get", "-qq", "update"], env=env, check=True)
    install = ["apt-get", "-qq", "install", "--download-only", "--no-install-recommends", "-y", *packages]
    subprocess.run(install, env=env, check=True)
    for archive in (apt / "cache" / "archives").glob("*.deb"):
        subprocess.run(["dpkg", "-x", archive, root], check=True)
    shutil.rmtree(apt)
    stamp.write_text(wanted, "utf-8")
    return root


def configuration(apt: Path, machine: str, suite: str, kind: str = "deb") -> Path:
    """Writes the configuration of an apt that has nothing installed and keeps its files in a folder."""
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (apt / folder).mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()
    lines = [
        f'Dir::State "{apt}/state";',
        f'Dir::State::status "{apt}/status";',
        f'Dir::Cache "{apt}/cache";',
        'APT::Sandbox::User "";',
    ]
    if machine:
        lines += [f'APT::Architecture "{machine}";', f'APT::Architectures {{ "{machine}"; }};']
    if suite:
        (apt / "sources.list").write_text(f"{kind} {mirror()} {suite} main\n", "utf-8")
        lines += [f'Dir::Etc::sourcelist "{apt}/sources.list";', 'Dir::Etc::sourceparts "-";']
    config = apt / "apt.conf"
    config.write_text("\n".join(lines) + "\n", "utf-8")
    return config


def source(cache: Path, name: str, suite: str) -> Path:
    """Unpacks the source of a package, and returns its folder."""
    apt = cache / f"{name}.apt"
    config = configuration(apt, "", suite, kind="deb-src")
    env = {**os.environ, "APT_CONFIG": str(config)}
    subprocess.run(["apt-get", "-qq", "update"], env=env, check=True)
    folder = cache / f"{name}-source"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    subprocess.run(["apt-get", "-qq", "source", "--download-only", name], cwd=folder, env=env, check=True)
    shutil.rmtree(apt)
    [archive] = folder.glob("*.orig.tar.xz")
    subprocess.run(["tar", "-xf", archive, "--strip-components=1"], cwd=folder, check=True)
    return folder
