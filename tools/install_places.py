"""Installs Podman and an ssh server, with which the tests run agents in places, on machines of CI with Debian."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

PROGRAMS = {"podman": "podman", "runc": "runc", "catatonit": "catatonit", "sshd": "openssh-server"}
"""The programs, with the packages of Debian that have them."""
# Some are in directories that are not on the PATH of every user.
PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/libexec/podman"])


def main() -> int:
    """Exits with 0 also if they cannot be had: the tests that need them then say so."""
    missing = [package for program, package in PROGRAMS.items() if not shutil.which(program, path=PATH)]
    if sys.platform != "linux" or not missing:
        return 0
    if not os.environ.get("CI") or os.getuid() != 0 or not shutil.which("apt-get"):
        print(f"the tests of containers and ssh need: apt-get install {' '.join(missing)}")
        return 0
    # No server is started with its package.
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for words in (["update"], ["install", "-y", *missing]):
        done = subprocess.run(["apt-get", "-qq", *words], env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"apt-get {words[0]} has failed: {done.stderr[-1000:]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
