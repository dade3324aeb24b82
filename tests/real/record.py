#!/usr/bin/env python3
"""Records what real kimi-cli releases say, for the core's tests: `tests/recorded/<release>/<case>.wire`.

    tests/real/record.py                             every release and case; takes about half an hour
    tests/real/record.py --releases 1.5,1.30.0       some releases
    tests/real/record.py --only replay               cases with "replay" in their names

Each case is played through the SDK (its Rust runner) by the harness, with `tee.py` before the agent. Lines with `>`
went to the agent, lines with `<` came from it. A case that fails leaves the recording as it was. Of a case with several
processes the last is kept. At last `thin.py` drops the recordings that show nothing of their own.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent
RECORDED = TESTS / "recorded"
sys.path.insert(0, str(TESTS))

from harness import play, releases, runners  # noqa: E402
from harness.scenario import Scenario, load, numbers  # noqa: E402

from real import thin  # noqa: E402

# Of tests/real/cases what shows something on the wire, and of tests/recorded/cases what only a recording needs.
CASES = (
    "text", "reject_with_feedback", "cancel_in_stream", "cancel_with_approval_pending", "external_tool",
    "external_tool_unknown_schema", "hooks_allow", "hooks_prompt_and_stop", "max_steps", "mcp_server",
    "model_answers_401", "model_answers_500", "plan_mode", "question_answered", "replay", "resume", "steer", "subagent",
    "tools", "subagent_unasked", "background_task", "mcp_failed", "mcp_loading", "media",
)  # fmt: skip
# The releases that a case of tests/recorded/cases is for: from one on, and before another.
FOR = {
    "background_task": ("1.23", "2"),
    "mcp_failed": ("1.13", "1.14"),
    "mcp_loading": ("1.17", "2"),
    "media": ("0.80", "2"),
    "subagent_unasked": ("0.46", "0.59"),
}
# Agents list some twenty commands in each handshake; nothing is learnt from more than this.
COMMANDS = 1

# UUIDs, and hexadecimal ids of 12 and 32 digits.
_ID = re.compile(
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    r"|\b(?=[0-9a-f]*[0-9])[0-9a-f]{12}(?:[0-9a-f]{20})?\b"
)
_TIME = re.compile(r'("(?:created_at|wait_s|duration_ms)":\s?)[0-9]+(\.[0-9]+)?')


def scenario(name: str) -> Scenario:
    folder = RECORDED / "cases" if (RECORDED / f"cases/{name}.json").exists() else TESTS / "real/cases"
    return load(folder / f"{name}.json")[0]


class Cleaner:
    """Takes out of a recording what belongs to the machine and the moment; the same id stays the same."""

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)
        self._ids: dict[str, str] = {}

    def _id(self, found: re.Match[str]) -> str:
        text = found.group()
        if text not in self._ids:
            digits = iter(f"{len(self._ids) + 1:0{len(text.replace('-', ''))}x}")
            self._ids[text] = "".join("-" if letter == "-" else next(digits) for letter in text)
        return self._ids[text]

    def line(self, text: str) -> str:
        text = text.replace(self._directory, "{dir}").replace(sys.executable, "{python}")
        text = text.replace(str(TESTS / "real"), "{tests}")
        text = _ID.sub(self._id, text)
        return self._fewer_commands(_TIME.sub(lambda found: found[1] + ("0.0" if found[2] else "0"), text))

    @staticmethod
    def _fewer_commands(text: str) -> str:
        if '"slash_commands"' not in text:
            return text
        try:
            message = json.loads(text)
        except ValueError:
            return text
        result = message.get("result") or {}
        if len(result.get("slash_commands", [])) <= COMMANDS:
            return text
        result["slash_commands"] = result["slash_commands"][:COMMANDS]
        return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


def last_process(log: Path) -> list[dict[str, Any]]:
    """The lines of the last process that said something."""
    processes: list[list[dict[str, Any]]] = []
    for row in log.read_text("utf-8").split("\n"):
        entry = json.loads(row) if row else None
        if entry and entry["dir"] == "start":
            processes.append([])
        elif entry:
            processes[-1].append(entry)
    spoken = [lines for lines in processes if any(entry["dir"] == "out" for entry in lines)]
    return spoken[-1] if spoken else []


def keep(version: str, name: str, directory: Path, log: Path) -> int:
    cleaner = Cleaner(directory)
    marks = {"in": ">", "out": "<"}
    lines = [f"{marks[entry['dir']]} {cleaner.line(entry['line'])}\n" for entry in last_process(log)]
    # A path that the model's stream cut in two isn't recognised.
    left = [line for line in lines if tempfile.gettempdir() in line or str(Path.home()) in line]
    if left:
        raise SystemExit(f"{version} {name}: a path of this machine stands in it: {left[0]}")
    path = RECORDED / version / f"{name}.wire"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines), "utf-8")
    return path.stat().st_size


def suits(name: str, version: str) -> bool:
    first, after = FOR.get(name, ("0", "2"))
    return numbers(first) <= numbers(version) < numbers(after)


def record(versions: list[str], names: list[str], at_once: int, say: Callable[[str], None]) -> int:
    commands = {"rust": runners.command("rust")}
    failed = 0
    for version in versions:
        chosen = [scenario(name) for name in names if suits(name, version)]
        chosen = [one for one in chosen if releases.cast(one, version).missing is None]
        with tempfile.TemporaryDirectory(prefix="record-") as folder:
            scratch = Path(folder).resolve()

            def through(directory: Path) -> list[str]:
                log = directory.with_name(f"{directory.name}.log")
                return [sys.executable, str(Path(__file__).with_name("tee.py")), str(log)]

            plays = play.play_real(
                chosen, [version], commands, scratch, lambda _: None, at_once=at_once, through=through
            )
            for one in plays:
                complaints = play.judge(one, ["rust"]).complaints
                directory = scratch / f"{version}-rust" / one.scenario.name
                again = directory.with_name(f"{directory.name}-again")
                directory = again if again.exists() else directory
                log = directory.with_name(f"{directory.name}.log")
                if complaints:
                    failed += 1
                    say(f"{version} {one.scenario.name}: FAIL\n{complaints[0]}")
                elif not one.skips:
                    size = keep(version, one.scenario.name, directory, log)
                    say(f"{version} {one.scenario.name}: {size} bytes")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", default=",".join(releases.kimi_cli()))
    parser.add_argument("--only", action="append", default=[], help="part of a case's name; may be repeated")
    parser.add_argument("--at-once", type=int, default=play.AT_ONCE)
    chosen = parser.parse_args()
    names = [name for name in CASES if not chosen.only or any(part in name for part in chosen.only)]
    failed = record(chosen.releases.split(","), names, chosen.at_once, lambda text: print(text, flush=True))
    for path in thin.superfluous(
        RECORDED, {version: releases.release(version).wire for version in releases.kimi_cli()}
    ):
        print(f"{path.relative_to(RECORDED)} shows nothing of its own")
        path.unlink()
    size = sum(path.stat().st_size for path in RECORDED.glob("*/*.wire"))
    print(f"{len(list(RECORDED.glob('*/*.wire')))} recordings, {size} bytes")
    print(f"{failed} failed" if failed else "all recorded")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
