"""The official Python SDK of ACP as an editor, in front of `kimi-agent proxy` and the scripted agent.

KIMI_SCRIPTED_AGENT is the agent's program, KIMI_AGENT_COMMAND the command.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import unittest
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, spawn_agent_process, text_block
from acp.interfaces import Client
from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse

AGENT = os.environ["KIMI_SCRIPTED_AGENT"]
COMMAND = os.environ["KIMI_AGENT_COMMAND"]
RULES = 'deny = ["execute(rm *)"]\nallow = ["execute(git status)"]\n'


class Editor(Client):
    """Answers permission requests with an option of one kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.asked: list[str] = []
        self.text = ""

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **kwargs: Any
    ) -> RequestPermissionResponse:
        self.asked.append(tool_call.title)
        for option in options:
            if option.kind == self.kind:
                outcome = AllowedOutcome(outcome="selected", option_id=option.option_id)
                return RequestPermissionResponse(outcome=outcome)
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        if update.session_update == "agent_message_chunk":
            self.text += update.content.text


async def play(line: str, kind: str) -> tuple[Editor, bool, str]:
    """Runs a command behind the proxy. Returns the editor, whether the command ran, and how the turn ended."""
    approve = {"description": line}
    effect = {"write_file": "effect.txt", "content": "x"}
    call = {"name": "Bash", "arguments": {"command": line}, "approve": approve, "effect": effect, "result": "ok"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = {"wire": "acp", "turns": [[{"tool_call": call}, {"text": "After."}]]}
        (folder / "script.json").write_text(json.dumps(script), "utf-8")
        (folder / "policy.toml").write_text(RULES, "utf-8")
        words = ["proxy", "--policy", str(folder / "policy.toml"), "--", AGENT, str(folder / "script.json")]
        editor = Editor(kind)
        env = {**os.environ, "XDG_CONFIG_HOME": name}
        async with spawn_agent_process(editor, COMMAND, *words, env=env) as (agent, _):
            await agent.initialize(protocol_version=PROTOCOL_VERSION)
            session = await agent.new_session(cwd=name, mcp_servers=[])
            turn = await agent.prompt(session_id=session.session_id, prompt=[text_block("go")])
        return editor, (folder / "effect.txt").exists(), turn.stop_reason


class Proxy(unittest.TestCase):
    def test_policy_decides_before_the_editor(self) -> None:
        for line, kind, asked, ran in [
            ("git status", "reject_once", 0, True),
            ("rm -rf x", "allow_once", 0, False),
            ("make", "allow_once", 1, True),
            ("make", "reject_once", 1, False),
        ]:
            with self.subTest(line=line, kind=kind):
                editor, has_run, stop = asyncio.run(play(line, kind))
                assert (len(editor.asked), has_run, stop) == (asked, ran, "end_turn")
                assert ("denied: " in editor.text) == line.startswith("rm")
                assert editor.text.endswith("After.")


if __name__ == "__main__":
    unittest.main()
