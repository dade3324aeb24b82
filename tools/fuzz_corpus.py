#!/usr/bin/env python3
"""Makes inputs for the fuzzing targets of recorded traffic.

usage: fuzz_corpus.py RECORDED CORPUS
"""

import hashlib
import sys
from pathlib import Path

# The byte by which the target `dialect` takes legacy, and the newest version: core/protocol/src/fuzzing/scenario.rs.
LEGACY, NEWEST = b"\x00", b"\x0d"


def main(recorded: Path, corpus: Path) -> None:
    """Writes each line of an agent's once, and each recording whole."""
    count = 0
    for path in sorted(recorded.glob("*/*.wire")):
        text = path.read_bytes()
        put(corpus / "conversation", text)
        count += 1
        dialect = LEGACY if b'"method":"run"' in text else NEWEST
        agents = [line[2:] for line in text.split(b"\n") if line.startswith(b"< ")]
        put(corpus / "shapes", dialect + b"\n".join(agents))
        for line in text.split(b"\n"):
            if line.startswith(b"< "):
                put(corpus / "envelope", line[2:])
                put(corpus / "dialect", dialect + line[2:])
    if not count:
        sys.exit(f"{recorded}: no recordings")
    print(f"{count} recordings, {sum(1 for _ in corpus.glob('*/*'))} inputs")


def put(folder: Path, content: bytes) -> None:
    """Names a file by what is in it, as libFuzzer does."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / hashlib.sha1(content).hexdigest()).write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
