"""Copies for jobs share their blocks with the original, on file systems that can do that. Needs root, and mkfs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import DEADLINE, program

MIB = 1 << 20
LARGE = 64 * MIB
COPYING = """
def approve(request):
    # Blocks that were not yet written do not count before.
    os.sync()
    print(request.description, os.statvfs(".").f_bavail * os.statvfs(".").f_frsize, flush=True)
    return "approve"
ask = {"tool_call": {"name": "Shell", "approve": {"description": "{{work_dir}}"}, "result": "ok"}}
options = {"executable": scripted_agent([[ask]]), "workspace": "copy", "work_dir": "work", "on_approval": approve}
for result in kimi_agent.sync.run_batch(["a"], **options):
    print(result.status, flush=True)
"""


@pytest.fixture(params=["btrfs", "xfs"])
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A mounted file system in a file."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    mkfs = shutil.which(f"mkfs.{request.param}", path=f"{os.environ['PATH']}:/sbin:/usr/sbin")
    if mkfs is None:
        pytest.skip(f"mkfs.{request.param} is not installed")
    image, folder = tmp_path / "image", tmp_path / "disk"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(400 * MIB)
    subprocess.run([mkfs, image], check=True, capture_output=True)
    mounted = subprocess.run(["mount", "-o", "loop", image, folder], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"the file system cannot be mounted: {mounted.stderr}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def free(folder: Path) -> int:
    os.sync()
    numbers = os.statvfs(folder)
    return numbers.f_bavail * numbers.f_frsize


def test_copy_shares_blocks(disk: Path) -> None:
    (disk / "work").mkdir()
    (disk / "temp").mkdir()
    (disk / "work/large").write_bytes(os.urandom(LARGE))
    before = free(disk)
    running = program(COPYING, disk, TMPDIR=str(disk / "temp"))
    out, err = running.communicate(timeout=DEADLINE)
    copy, *said = out.split()
    assert copy.startswith(str(disk / "temp")), err
    assert said[1:] == ["finished"]
    assert before - int(said[0]) < LARGE // 4
    # A copy of the other kind takes its size.
    (disk / "work/second").write_bytes((disk / "work/large").read_bytes())
    assert before - free(disk) > LARGE // 2
