#!/usr/bin/env python3
"""Records the run of `docs/guides/inspect-a-run.md` with a real Kimi Code: `docs/assets/repair.jsonl`.

    tests/real/guide.py

The case is `guide.json`. Its model is scripted; the agent, its tools, the rules and the approvals are real.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
RECORDING = TESTS.parent / "docs" / "assets" / "repair.jsonl"
# The server of Kimi Code reports what a subagent does.
RELEASE = "kimi-code-web-2.1.0"
sys.path.insert(0, str(TESTS))

from harness import play, runners  # noqa: E402
from harness.scenario import load  # noqa: E402


def main() -> int:
    """Plays the case, and keeps its recording without what belongs to the test."""
    case = load(Path(__file__).with_name("guide.json"))
    commands = {"python": runners.command("python")}
    with tempfile.TemporaryDirectory(prefix="guide-") as folder:
        scratch = Path(folder).resolve()
        recordings = scratch / "recordings"
        os.environ["KIMI_AGENT_RECORD"] = f"{recordings}{os.sep}"
        (played,) = play.play_real(case, [RELEASE], commands, scratch, lambda text: print(text, flush=True))
        complaints = play.judge(played, list(commands)).complaints
        if complaints:
            print(complaints[0])
            return 1
        (recording,) = recordings.glob("*.jsonl")
        header, entries = recording.read_text("utf-8").split("\n", 1)
    shown = json.loads(header)
    shown["executable"] = ["kimi"]
    del shown["options"]["env"]
    RECORDING.write_text(json.dumps(shown, separators=(",", ":")) + "\n" + entries, "utf-8")
    print(f"{RECORDING.relative_to(TESTS.parent)}: {RECORDING.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
