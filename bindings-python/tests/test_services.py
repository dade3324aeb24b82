"""Handlers of files and terminals: cancelled as soon as their requests need no answer any more."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from support import open_session

from kimi_agent import Session, SessionOpening, TerminalRequest, TerminalResult
from kimi_agent import sync as blocking
from kimi_agent.testing import scripted_agent

CREATE: dict[str, Any] = {"type": "terminal/create", "payload": {"command": "serve"}}
CANCEL = {"raw": '{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":0}}'}
FILE = {"path": "/a"}
# The option, the action that has it called, the request alone, and the action by which the agent gives the request up.
KINDS: list[tuple[str, Any, Any, Any]] = [
    ("on_read_file", {"read_file": FILE}, {"type": "fs/read_text_file", "payload": FILE}, CANCEL),
    (
        "on_write_file",
        {"write_file": {**FILE, "content": ""}},
        {"type": "fs/write_text_file", "payload": {**FILE, "content": ""}},
        CANCEL,
    ),
    *(
        (
            "on_terminal",
            {"terminal": {"command": "serve"}},
            CREATE,
            {"request": {"type": f"terminal/{end}", "payload": {"terminalId": "terminal-1"}}},
        )
        for end in ("kill", "release")
    ),
]


class Hanging:
    """A handler that waits until it is cancelled."""

    def __init__(self, begun: Path) -> None:
        self.begun = begun
        self.has_begun = asyncio.Event()
        self.was_cancelled = asyncio.Event()

    async def __call__(self, request: Any) -> Any:
        self.has_begun.set()
        self.begun.touch()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.was_cancelled.set()
            raise


def opened(option: str, handler: Any, *actions: Any) -> SessionOpening:
    return open_session([*actions], script={"wire": "acp"}, dialect="acp", **{option: handler})


@pytest.mark.parametrize(("option", "action", "request_", "give_up"), KINDS)
async def test_cancelled_turn_cancels_handler(
    tmp_path: Path, option: str, action: Any, request_: Any, give_up: Any
) -> None:
    handler = Hanging(tmp_path / "begun")
    async with opened(option, handler, action) as session:
        turn = session.prompt("Go")
        await handler.has_begun.wait()
        await turn.cancel()
        await handler.was_cancelled.wait()
        result = await turn.result()
    assert (result.status, result.handler_failures) == ("cancelled", [])


@pytest.mark.parametrize(("option", "action", "request_", "give_up"), KINDS)
async def test_agent_cancel_request_cancels_handler(
    tmp_path: Path, option: str, action: Any, request_: Any, give_up: Any
) -> None:
    handler = Hanging(tmp_path / "begun")
    actions = [{"request": request_, "wait": False}, {"wait_file": str(handler.begun)}, give_up, {"text": "on"}]
    async with opened(option, handler, *actions) as session:
        result = await session.prompt("Go").result()
        await handler.was_cancelled.wait()
    assert (result.text, result.handler_failures) == ("on", [])


@pytest.mark.parametrize(("option", "action", "request_", "give_up"), KINDS)
async def test_closed_session_cancels_handler(
    tmp_path: Path, option: str, action: Any, request_: Any, give_up: Any
) -> None:
    handler = Hanging(tmp_path / "begun")
    async with opened(option, handler, action) as session:
        # Held, or it would be cancelled at once.
        turn = session.prompt("Go")
        await handler.has_begun.wait()
    await handler.was_cancelled.wait()
    assert (await turn.result()).status == "cancelled"


async def test_terminal_command_ends_with_session(tmp_path: Path) -> None:
    handler = Hanging(tmp_path / "begun")
    session: Session
    async with opened("on_terminal", handler, {"request": CREATE}, {"wait_file": str(handler.begun)}) as session:
        await session.prompt("Go").result()
        assert not handler.was_cancelled.is_set()
    await handler.was_cancelled.wait()


def test_late_result_of_killed_terminal_is_dropped(tmp_path: Path) -> None:
    begun, killed = tmp_path / "begun", threading.Event()
    ends: list[str] = []

    def run(request: TerminalRequest) -> TerminalResult:
        begun.touch()
        killed.wait()
        ends.append(request.id)
        return TerminalResult("late", 0)

    about = {"terminalId": "terminal-1"}
    actions = [
        {"request": CREATE},
        {"wait_file": str(begun)},
        {"request": {"type": "terminal/kill", "payload": about}},
        {"request": {"type": "terminal/wait_for_exit", "payload": about}},
        {"text": "{{last.signal}}"},
    ]
    agent = scripted_agent({"wire": "acp", "turns": [actions]})
    with blocking.create_session(executable=agent, dialect="acp", on_terminal=run) as session:
        try:
            result = session.prompt("Go").result()
        finally:
            killed.set()
    assert (result.text, result.handler_failures) == ("SIGKILL", [])
