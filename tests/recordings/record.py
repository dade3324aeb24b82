"""Writes the recordings of this directory with the scripted agent: `python tests/recordings/record.py`.

The tests of all three languages play them. The tests of each language record its cassette, `of-LANGUAGE.jsonl`, if the
variable `KIMI_RECORD` is `rewrite`. After that, this program makes the cassettes independent of the machine.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

from kimi_agent import create_session
from kimi_agent.testing import scripted_agent

HERE = Path(__file__).parent
SHELL = {"name": "Shell", "arguments": {"command": "ls {{work_dir}}"}, "approve": True, "result": "a.txt"}
TURNS: list[Any] = [
    [{"text": "I look. "}, {"tool_call": SHELL}, {"text": "There is a.txt."}],
    [{"text": "Bye."}],
]
# Over the legacy protocol, an agent cannot ask for approvals.
LEGACY = [[{"text": "There is a.txt."}], [{"text": "Bye."}]]
DIALECTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "wire": ({"turns": TURNS}, {}),
    "legacy": ({"release": "0.58", "turns": LEGACY}, {"dialect": "legacy", "yolo": True}),
    "acp": ({"release": "2.1.0", "turns": TURNS}, {}),
    "kimi-web": ({"turns": TURNS}, {"dialect": "kimi-web"}),
}


async def record(dialect: str) -> None:
    """Records the two turns over this protocol."""
    script, options = DIALECTS[dialect]
    file = HERE / f"{dialect}.jsonl"
    if "yolo" not in options:
        options = {**options, "on_approval": lambda request: "approve"}
    with tempfile.TemporaryDirectory() as work_dir:
        agent = scripted_agent(script)
        async with create_session(executable=agent, work_dir=work_dir, record=file, **options) as session:
            for prompt in ("List the files", "Thanks"):
                await session.prompt(prompt).result()
    make_neutral(file)


def make_neutral(file: Path) -> None:
    """Removes the paths of this machine from the command of the agent."""
    header, rest = file.read_text().split("\n", 1)
    shown = {**json.loads(header), "executable": ["kimi-scripted-agent", "script.json"]}
    file.write_text(json.dumps(shown, separators=(",", ":")) + "\n" + rest)


for name in DIALECTS:
    asyncio.run(record(name))
for language in ("python", "node", "rust"):
    make_neutral(HERE / f"of-{language}.jsonl")
