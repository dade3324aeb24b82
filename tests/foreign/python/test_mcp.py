"""The official Python SDK of MCP as a client of `kimi-agent mcp`, with the scripted agent behind it.

KIMI_SCRIPTED_AGENT is the agent's program, KIMI_AGENT_COMMAND the command.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import tempfile
import unittest
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

AGENT = os.environ["KIMI_SCRIPTED_AGENT"]
COMMAND = os.environ["KIMI_AGENT_COMMAND"]
DIFF = {"type": "diff", "path": "a.txt", "old_text": "old\n", "new_text": "new\n"}


def command(line: str) -> dict[str, Any]:
    approve = {"description": line}
    return {"tool_call": {"name": "Shell", "arguments": {"command": line}, "approve": approve, "result": "ok"}}


@asynccontextmanager
async def served(turns: list[Any], *arguments: str) -> AsyncIterator[ClientSession]:
    """A client of the server, whose agent `helper` plays these turns."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "script.json")
        script.write_text(json.dumps(turns), "utf-8")
        words = ["mcp", "--agent", f"helper={shlex.join([AGENT, str(script)])}", "-C", folder, *arguments]
        with Path(folder, "stderr").open("w+") as log:
            async with (
                stdio_client(StdioServerParameters(command=COMMAND, args=words), errlog=log) as (read, write),
                ClientSession(read, write) as client,
            ):
                await client.initialize()
                yield client


class Tools(unittest.IsolatedAsyncioTestCase):
    async def test_tools_are_listed(self) -> None:
        async with served([]) as client:
            tools = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
        assert sorted(tools) == ["cancel", "continue", "diff", "run"]
        assert tools["run"]["properties"]["agent"]["enum"] == ["helper"]
        assert tools["continue"]["required"] == ["session", "prompt"]

    async def test_session_goes_on(self) -> None:
        async with served([[{"text": "One."}], [{"text": "Two."}]]) as client:
            first = await client.call_tool("run", {"prompt": "Begin"})
            assert [part.text for part in first.content] == ["One.", "session: helper-1, finished"]
            assert first.structured_content["status"] == "finished"
            second = await client.call_tool("continue", {"session": "helper-1", "prompt": "Go on"})
            assert second.structured_content["text"] == "Two."
            other = await client.call_tool("run", {"prompt": "Begin", "agent": "helper"})
            assert other.structured_content["session"] == "helper-2"

    async def test_schema_gives_a_value(self) -> None:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        async with served([[{"text": '{"n": 3}'}]]) as client:
            result = await client.call_tool("run", {"prompt": "Count", "schema": schema})
        assert result.structured_content["output"] == {"n": 3}
        assert json.loads(result.content[0].text) == {"n": 3}

    async def test_policy_decides_and_progress_is_reported(self) -> None:
        reports: list[str | None] = []

        async def report(progress: float, total: float | None, message: str | None) -> None:
            reports.append(message)

        turns = [[command("git status"), command("rm x"), {"text": "Done."}]]
        async with served(turns, "--policy", "read-only") as client:
            result = await client.call_tool("run", {"prompt": "Look"}, progress_callback=report)
        assert result.structured_content["text"] == "Done."
        [rejected] = result.structured_content["rejected"]
        assert rejected == "rm x"
        assert reports == ["Shell git status", "Shell rm x"]

    async def test_changes_are_those_that_were_reported(self) -> None:
        change = {
            "tool_call": {"name": "Edit", "arguments": {"path": "a.txt"}, "result": {"output": "ok", "display": [DIFF]}}
        }
        async with served([[change, {"text": "Done."}]]) as client:
            await client.call_tool("run", {"prompt": "Edit"})
            diff = await client.call_tool("diff", {"session": "helper-1"})
        [file] = diff.structured_content["files"]
        assert (file["path"], file["old_text"], file["new_text"]) == ("a.txt", "old\n", "new\n")
        assert diff.structured_content["left_out"] == 0

    async def test_cancel_ends_the_turn(self) -> None:
        async with served([[{"text": "Begun."}, {"wait_cancel": True}]]) as client:
            running = asyncio.create_task(client.call_tool("run", {"prompt": "Wait"}))
            while (await client.call_tool("cancel", {"session": "helper-1"})).is_error:
                assert not running.done()
            result = await running
        assert result.structured_content["status"] == "cancelled"

    async def test_mistakes_are_results_for_the_model(self) -> None:
        async with served([[{"text": "One."}]]) as client:
            for name, arguments, expected in [
                ("run", {}, "missing field `prompt`"),
                ("run", {"prompt": "x", "model": "y"}, "unknown field `model`"),
                ("run", {"prompt": "x", "agent": "other"}, "the agents are: helper"),
                ("run", {"prompt": ""}, "`prompt`: it is empty"),
                ("run", {"prompt": "x", "schema": {"type": "nothing"}}, "`schema`: the schema is not a JSON Schema"),
                ("continue", {"session": "helper-99", "prompt": "x"}, "begin one with `run`"),
                ("diff", {"session": 1}, "expected a string"),
            ]:
                result = await client.call_tool(name, arguments)
                assert result.is_error, name
                assert expected in result.content[0].text, (name, arguments)

    async def test_oldest_session_is_closed(self) -> None:
        async with served([[{"text": "One."}]], "--max-sessions", "1") as client:
            for _ in range(2):
                await client.call_tool("run", {"prompt": "Begin"})
            gone = await client.call_tool("continue", {"session": "helper-1", "prompt": "x"})
        assert 'no session "helper-1" is open' in gone.content[0].text

    async def test_sessions_in_use_are_not_exceeded(self) -> None:
        async with served([[{"text": "Begun."}, {"wait_cancel": True}]], "--max-sessions", "1") as client:
            running = asyncio.create_task(client.call_tool("run", {"prompt": "Wait"}))
            other = asyncio.create_task(client.call_tool("run", {"prompt": "Wait"}))
            refused, pending = await asyncio.wait([running, other], return_when=asyncio.FIRST_COMPLETED)
            result = refused.pop().result()
            assert result.is_error
            assert "all 1 sessions are in use" in result.content[0].text
            while (await client.call_tool("cancel", {"session": "helper-1"})).is_error:
                pass
            [last] = pending
            assert (await last).structured_content["status"] == "cancelled"


class Arguments(unittest.TestCase):
    def test_wrong_arguments_are_refused(self) -> None:
        for words, expected in [
            ([], "--agent"),
            (["--agent", "="], "expected a program, or NAME=COMMAND"),
            (["--agent", "x", "--agent", "x"], 'two agents have the name "x"'),
            (["--agent", "x", "--session-id", "s"], "each call of the tool `run` opens a new session"),
            (["--agent", "x", "--max-sessions", "0"], "--max-sessions"),
        ]:
            done = subprocess.run([COMMAND, "mcp", *words], capture_output=True, text=True, check=False)
            assert done.returncode == 2, done.stderr
            assert expected in done.stderr


if __name__ == "__main__":
    unittest.main()
