"""Runs the examples in the package's docstrings.

They are written as for `python -m asyncio`, which accepts `await` outside of functions. They use the names of
`kimi_agent` (in the blocking API those of `kimi_agent.sync`), and without a definition `agent`, `session` and `turn`.
"""

from __future__ import annotations

import ast
import asyncio
import doctest
import importlib
import inspect
import json
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

import kimi_agent
from kimi_agent import sync, testing

pytestmark = pytest.mark.interpreter

MODULES = [
    "kimi_agent",
    *(
        module.name
        for module in pkgutil.walk_packages(kimi_agent.__path__, "kimi_agent.")
        # tests/ray runs the examples that need Ray.
        if not module.name.endswith((".agent", "._native")) and ".ray" not in module.name
    ),
]
BLOCKING = ("kimi_agent.sync", "kimi_agent._blocking")


def fail(code: int, message: str = "refused") -> list[Any]:
    """A script that answers the first prompt with an error."""
    return [[{"error": {"code": code, "message": message}}]]


FRIENDLY: list[Any] = [[{"text": "There are 3 files."}]] * 3
WAITING: list[Any] = [[{"wait_cancel": True}]]
ASKING: list[Any] = [[{"tool_call": {"name": "Shell", "approve": {"description": "Run `make`"}}}, {"text": "Done."}]]
NOTIFICATION: dict[str, Any] = {
    "id": "n1", "category": "task", "type": "task.completed", "source_kind": "background_task", "source_id": "bash-1",
    "title": "Tests passed", "body": "", "severity": "success", "created_at": 0.0,
}  # fmt: skip
ACP: dict[str, Any] = {"wire": "acp", "turns": FRIENDLY}
# The scripts that differ from FRIENDLY, by the name of the item that the example belongs to, or by the end of its name.
SCRIPTS: dict[str, Any] = {
    "KimiAgentError": fail(-32003),
    "AgentExited": [[{"stderr": "out of memory"}, {"exit": 7}]],
    "ProtocolError": [[{"text": "x" * 5000}]],
    "Timeout": WAITING,
    "RpcError": fail(-32050, "the disk is full"),
    "TurnInProgress": WAITING,
    "LlmNotSet": fail(-32001),
    "LlmNotSupported": fail(-32002),
    "LlmServiceError": fail(-32003),
    "AuthExpired": fail(-32004),
    "AuthMethod": {
        "wire": "acp",
        "login": {"required": False, "methods": [{"id": "api-key", "name": "API Key"}]},
        "turns": fail(-32004),
    },
    "ContextTooLong": fail(-32003, "prompt is too long"),
    "AnswerTruncated": {"wire": "acp", "turns": [{"actions": [{"text": "Once upon a"}], "status": "truncated"}]},
    "AnswerRefused": {"wire": "acp", "turns": [{"actions": [], "status": "refused"}]},
    "TurnCancelled": WAITING,
    "Turn.cancel": WAITING,
    "Session.cancel": WAITING,
    "Turn.steer": [[{"wait_steer": True}, {"text": "You said: {{steer}}"}]],
    "Turn.respond": ASKING,
    "Session.set_config_option": ACP,
    "Session.undo": {"wire": "kimi-web", "turns": FRIENDLY},
    "Agent.fork": ACP,
    "Agent.list_sessions": ACP,
    **dict.fromkeys(
        ("Agent.delete_session", "Agent.rename_session", "Agent.archive_session", "Agent.unarchive_session"), ACP
    ),
    "ToolCallRecord": [[{"tool_call": {"name": "Shell", "arguments": {"command": "ls"}, "result": "README.md"}}]],
    "RejectedApproval": ASKING,
    "HandlerFailure": ASKING,
    "ConfigChoice": ACP,
    "ConfigOption": ACP,
    "SessionInfo": ACP,
    "Notification": [[{"event": {"type": "Notification", "payload": NOTIFICATION}}]],
    "BudgetExceeded": [[{"step": 1}, {"step": 2}, {"text": "Second step."}, {"step": 3}, {"wait_cancel": True}]],
    "OutputInvalid": [[{"text": "There are 3 files."}]] * 3,
    "MaxStepsReached": [{"actions": [{"text": "I am not done."}], "status": "max_steps_reached", "steps": 5}],
}


def examples(name: str) -> list[doctest.DocTest]:
    """The docstrings of a module that have examples."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    return [test for test in finder.find(importlib.import_module(name), name) if test.examples]


def script_of(test: doctest.DocTest) -> Any:
    ends = [end for end in SCRIPTS if test.name.endswith(f".{end}")]
    return SCRIPTS[max(ends, key=len)] if ends else FRIENDLY


def needed(test: doctest.DocTest) -> set[str]:
    """The names that an example uses and does not assign."""
    source = "".join(example.source for example in test.examples)
    tree = compile(source, test.name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    first: dict[str, ast.Name] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and (node.id not in first or node.lineno < first[node.id].lineno):
            first[node.id] = node
    return {name for name, node in first.items() if isinstance(node.ctx, ast.Load)}


@pytest.fixture
def run_coroutines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any], Any]]:
    """Lets examples await, as `python -m asyncio` does."""
    loop = asyncio.new_event_loop()

    def execute(code: CodeType, names: dict[str, Any]) -> None:
        async def step() -> None:
            found = eval(code, names)
            if code.co_flags & inspect.CO_COROUTINE:
                await found

        loop.run_until_complete(step())

    monkeypatch.setattr(doctest, "_extract_future_flags", lambda _: ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    monkeypatch.setattr(doctest, "exec", execute, raising=False)
    yield loop.run_until_complete
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Sessions are opened in ".".
    monkeypatch.chdir(tmp_path)
    # Cassettes record nothing by default if it is set.
    monkeypatch.delenv("CI", raising=False)
    (tmp_path / "screenshot.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    (tmp_path / "parser.py").write_text("# Parses\n", "utf-8")


def names_of(test: doctest.DocTest, api: Any) -> dict[str, Any]:
    """The names that examples have without an import."""
    return test.globs | {name: getattr(module, name) for module in (kimi_agent, api) for name in module.__all__}


def play(test: doctest.DocTest, given: dict[str, Any]) -> None:
    test.globs = given
    assert doctest.DocTestRunner().run(test, clear_globs=False).failed == 0


def set_script(test: doctest.DocTest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Makes the scripted agent the default one; returns the options that it needs."""
    script = script_of(test)
    monkeypatch.setenv("KIMI_AGENT_EXECUTABLE", json.dumps(testing.scripted_agent(script)))
    return {"dialect": script["wire"]} if isinstance(script, dict) and "wire" in script else {}


@pytest.mark.parametrize(
    "test", [test for name in MODULES if name not in BLOCKING for test in examples(name)], ids=lambda test: test.name
)
def test_example_runs(
    test: doctest.DocTest, run_coroutines: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    api = testing if "testing" in test.name else kimi_agent
    given, needs, options = names_of(test, api), needed(test), set_script(test, monkeypatch)

    async def opened() -> kimi_agent.Agent:
        agent = await kimi_agent.open_agent(**options)
        if needs & {"session", "turn"}:
            given["session"] = await agent.create_session(work_dir=".")
        if "turn" in needs:
            given["turn"] = given["session"].prompt("What is in this directory?")
        return agent

    if needs & {"agent", "session", "turn"}:
        given["agent"] = run_coroutines(opened())
    play(test, given)
    if "agent" in given:
        run_coroutines(given["agent"].close())


@pytest.mark.parametrize("test", [test for name in BLOCKING for test in examples(name)], ids=lambda test: test.name)
def test_blocking_example_runs(test: doctest.DocTest, monkeypatch: pytest.MonkeyPatch) -> None:
    given, needs, options = names_of(test, sync), needed(test), set_script(test, monkeypatch)
    if needs & {"agent", "session", "turn"}:
        given["agent"] = sync.open_agent(**options)
    if needs & {"session", "turn"}:
        given["session"] = given["agent"].create_session(work_dir=".")
    if "turn" in needs:
        given["turn"] = given["session"].prompt("What is in this directory?")
    play(test, given)
    if "agent" in given:
        given["agent"].close()


def test_examples_of_all_modules_are_found() -> None:
    # tools/check_docstrings.py says which items have an example.
    found = {test.name for name in MODULES for test in examples(name)}
    assert len(found) > 150
    assert {"kimi_agent.Timeout", "kimi_agent._turn.Turn.result", "kimi_agent.sync.Turn.result"} <= found
