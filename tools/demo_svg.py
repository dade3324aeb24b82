#!/usr/bin/env python3
"""Writes docs/assets/demo.svg, an animated picture of what the demo in Python prints: PYTHON demo_svg.py [--check].

The interpreter must have the package. The picture is made of the printed text alone, not of measured times, so that it
is the same in each run. With --check it is only compared with the file.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "assets" / "demo.svg"
COLUMNS = 96
SIZE, WIDTH, HEIGHT, MARGIN = 14, 8.4, 20, 20
# Seconds: between two pieces, before the next line, and how long the whole picture stays.
PIECE, LINE, STAY = 0.12, 0.35, 5.0
# The class of a line, by its first characters.
KINDS = {
    "$ ": "prompt",
    "> ": "prompt",
    "* ": "call",
    "  = ": "result",
    "? ": "question",
    "- ": "removed",
    "+ ": "added",
}
TITLE = "A session in a terminal, driven by demo/demo.py"
STYLE = """\
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#e6edf3;white-space:pre}
.prompt{fill:#fff;font-weight:600}.dim{fill:#8b949e}.call{fill:#79c0ff}.result{fill:#8b949e}
.question{fill:#e3b341}.removed{fill:#ff7b72}.added,.end{fill:#7ee787}
@media (prefers-reduced-motion:reduce){text{animation:none!important}}
"""


def played() -> list[tuple[str, str]]:
    """The lines that a person sees, each with its class."""
    with tempfile.TemporaryDirectory(prefix="kimi-agent-demo-") as folder:
        prices = Path(folder) / "prices.py"
        before = (ROOT / "demo" / "prices.py").read_text("utf-8")
        prices.write_text(before, "utf-8")
        demo = subprocess.run(
            [sys.executable, str(ROOT / "demo" / "demo.py"), folder],
            env={**os.environ, "FORCE_COLOR": "1", "PYTHONUTF8": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            check=True,
        )
        after = prices.read_text("utf-8")
    lines = [("$ python demo.py .", "prompt")]
    lines += [found for line in demo.stdout.splitlines() if line for found in wrapped(line)]
    lines[-1] = (lines[-1][0], "end")
    lines += [("", "text"), ("$ git diff", "prompt")]
    changed = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return lines + [found for line in list(changed)[3:] for found in wrapped(f"{line[0]} {line[1:]}")]


def wrapped(line: str) -> list[tuple[str, str]]:
    """A line in the width of the picture; lines in grey are thoughts."""
    kind = "dim" if "\033[2m" in line else ""
    plain = re.sub(r"\033\[\d*m", "", line)
    kind = kind or next((kind for start, kind in KINDS.items() if plain.startswith(start)), "text")
    indent = re.match(r"(\W )?", plain)
    parts = textwrap.wrap(
        plain, COLUMNS, drop_whitespace=False, subsequent_indent=" " * len(indent[0] if indent else ""), tabsize=4
    )
    return [(part.rstrip(), kind) for part in parts]


def pieces(line: str, kind: str) -> list[str]:
    """The pieces in which a line appears: what a person types or a tool says comes at once."""
    if kind in ("text", "dim"):
        return re.findall(r"\s*\S+(?:\s+\S+)?", line)
    return [line] if line else []


def drawn(lines: list[tuple[str, str]]) -> str:
    """The picture."""
    texts: list[tuple[float, str]] = []
    time = 0.3
    for row, (line, kind) in enumerate(lines):
        column = 0
        for piece in pieces(line, kind):
            start = column + len(piece) - len(piece.lstrip())
            column += len(piece)
            word = piece.strip()
            place = f'x="{MARGIN + start * WIDTH:g}" y="{MARGIN + SIZE + row * HEIGHT}"'
            length = f'textLength="{len(word) * WIDTH:g}"'
            texts.append((time, f'<text class="{kind} a{len(texts)}" {place} {length}>{escape(word)}</text>'))
            time += PIECE
        time += LINE
    whole = time + STAY
    # The first frame is the finished session, which stays for a while: previews show only that frame.
    cleared = STAY / whole
    rules = "".join(
        f"@keyframes k{at}{{0%,{cleared:.3%}{{opacity:1}}"
        f"{cleared + 0.0001:.3%},{cleared + start / whole:.3%}{{opacity:0}}"
        f"{cleared + start / whole + 0.0001:.3%},100%{{opacity:1}}}}"
        f".a{at}{{animation:k{at} {whole:.2f}s infinite}}\n"
        for at, (start, _) in enumerate(texts)
    )
    width, height = 2 * MARGIN + COLUMNS * WIDTH, 2 * MARGIN + len(lines) * HEIGHT
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" role="img">',
            f"<title>{TITLE}</title>",
            f"<style>\n{STYLE}{rules}</style>",
            '<rect width="100%" height="100%" rx="8" fill="#0d1117"/>',
            *(text for _, text in texts),
            "</svg>\n",
        ]
    )


def main(arguments: list[str]) -> int:
    """Writes the picture; with --check it only compares it."""
    picture = drawn(played())
    if arguments == ["--check"]:
        if PICTURE.exists() and PICTURE.read_text("utf-8") == picture:
            return 0
        print(f"{PICTURE.relative_to(ROOT)} is out of date: run `make demo-picture`")
        return 1
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
