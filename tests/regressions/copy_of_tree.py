"""A copy of the last commit, with build directories of its own, in which defects are put back."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from proofs import Refused

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
# What git does not know, and a build needs.
LINKED = ("bindings-node/node_modules", "inspector/node_modules", "core/command/inspector.html")
# More than any of them takes on a busy machine: it only ends what hangs.
DEADLINE = 1800.0


@dataclass(frozen=True)
class Copy:
    """A clone, which is always the last commit but for one patch."""

    root: Path
    commit: str

    @staticmethod
    @contextlib.contextmanager
    def made() -> Iterator[Copy]:
        """Makes the copy, or brings that of an earlier run up to date.

        Raises:
            Refused: The tree has changes or is not built, or another run uses the copy.
        """
        _refuse_changes()
        _refuse_missing_build()
        folder = CACHE / "regressions"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Refused("another run uses the copy of the tree; wait for its end") from None
            yield Copy._current(folder / "tree")

    @staticmethod
    def _current(root: Path) -> Copy:
        if not (root / ".git").exists():
            shutil.rmtree(root, ignore_errors=True)
            _git(ROOT, "clone", "-q", "--shared", "--no-checkout", str(ROOT), str(root))
        copy = Copy(root, _git(ROOT, "rev-parse", "HEAD").strip())
        # Files that have not changed keep their times, so cargo compiles only what has.
        _git(root, "clean", "-fdq")
        copy.reset()
        for name in LINKED:
            target = root / name
            if not target.is_symlink():
                target.symlink_to(ROOT / name)
        copy.take_native_files()
        return copy

    def reset(self) -> None:
        """Removes the patch."""
        _git(self.root, "checkout", "-q", "--force", "--detach", self.commit)

    def apply(self, patch: Path) -> str | None:
        """Applies a patch. Returns why it does not apply."""
        return refusal(self.root, patch)

    def run(self, argv: list[str], folder: str = ".", env: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Runs a program in a folder of the copy. Returns its exit code and what it wrote."""
        try:
            done = subprocess.run(
                argv, cwd=self.root / folder, env={**self._environment(), **(env or {})}, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=DEADLINE, check=False,
            )  # fmt: skip
        except FileNotFoundError:
            raise Refused(f"{argv[0]} is not on PATH; `make setup` says what is missing") from None
        except subprocess.TimeoutExpired:
            return 1, f"`{' '.join(argv)}` has not ended after {DEADLINE:.0f} s"
        return done.returncode, done.stdout.decode("utf-8", "replace")

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("KIMI_", "PYTEST_"))}
        python = self.root / "bindings-python" / "python"
        return {
            **kept,
            "CARGO_TARGET_DIR": str(CACHE / "regressions" / "target"),
            # Two builds differ by one patch.
            "CARGO_INCREMENTAL": "1",
            # As `make test-rust` does.
            "PROPTEST_RNG_SEED": "0",
            "PYTHONPATH": str(python),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def take_native_files(self) -> None:
        """The bindings are those that `make build` has built; defects are put into the packages around them."""
        library = next(_site_packages().glob("kimi_agent/_native*"))
        shutil.copy2(library, self.root / "bindings-python/python/kimi_agent" / library.name)
        for archive in sorted((CACHE / "packages").glob("kimi-agent-*-*-*.tgz")):
            with tarfile.open(archive) as packed:
                for member in packed.getmembers():
                    content = packed.extractfile(member) if member.name.endswith(".node") else None
                    if content is not None:
                        (self.root / "bindings-node" / Path(member.name).name).write_bytes(content.read())


def refusal(root: Path, patch: Path, *options: str) -> str | None:
    """Applies a patch to a folder; with `--check` only tries to. Returns why it does not apply."""
    # The lines around the defect may have changed.
    argv = ["git", "apply", "--whitespace=nowarn", "-C0", *options, str(patch)]
    done = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    reason = (done.stderr.strip().splitlines() or ["git apply failed"])[0].removeprefix("error: ")
    return f"the patch does not apply ({reason}); write it again for the code of today"


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(f"`git {' '.join(arguments)}` failed in {folder}: {done.stderr.strip()}")
    return done.stdout


def _refuse_changes() -> None:
    status = _git(ROOT, "status", "--porcelain", "--untracked-files=no", "--", ".", ":!tests/regressions")
    changed = [line[3:] for line in status.splitlines()]
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        raise Refused(
            f"commit or stash {', '.join(changed[:3])}{more} first, because defects are put into the last commit"
        )


def _site_packages() -> Path:
    return Path(sys.prefix, "lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages")


def _refuse_missing_build() -> None:
    present = [
        *_site_packages().glob("kimi_agent/_native*"),
        *(path for path in (ROOT / name for name in LINKED) if path.exists()),
        *(CACHE / "packages").glob("kimi-agent-*-*-*.tgz"),
    ]
    if len(present) < 2 + len(LINKED):
        raise Refused("the packages are not built here; run `make test-regressions`, which builds them")
