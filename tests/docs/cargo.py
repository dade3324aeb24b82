#!/usr/bin/env python3
"""Stands for cargo in a project of the documents: `cargo run --quiet --example NAME` and `cargo test`.

It uses the crates that are compiled for the other tests, by the command in DOCS_RUSTC. cargo itself would compile them
once more, with the features that this project takes alone; `make test-docs FULL=1` has it do that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

BUILT = Path("built")


def compiled(source: Path, *arguments: str) -> Path:
    """The program or library of a file. Ends this process if it does not compile."""
    BUILT.mkdir(exist_ok=True)
    program = BUILT / ("libreview.rlib" if source.name == "lib.rs" else source.stem)
    rustc = json.loads(os.environ["DOCS_RUSTC"])
    if subprocess.run([*rustc, *arguments, "-o", str(program), str(source)], check=False).returncode != 0:
        sys.exit(101)
    return program.absolute()


def main(words: list[str]) -> None:
    os.environ["CARGO_MANIFEST_DIR"] = os.getcwd()
    library = compiled(Path("src/lib.rs"), "--crate-type=rlib", "--crate-name=review")
    uses = f"--extern=review={library}"
    match words:
        case ["run", "--quiet", "--example", name]:
            program = compiled(Path("examples", f"{name}.rs"), uses)
            os.execv(program, [str(program)])
        case ["test"]:
            tests = [compiled(source, uses, "--test") for source in sorted(Path("tests").glob("*.rs"))]
            if not tests:
                sys.exit("tests/docs/cargo.py: the project has no tests")
            sys.exit(max(subprocess.run([test], check=False).returncode for test in tests))
        case _:
            sys.exit(f"tests/docs/cargo.py knows `cargo run --quiet --example NAME` and `cargo test`, not `{words}`")


if __name__ == "__main__":
    main(sys.argv[1:])
