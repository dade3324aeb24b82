"""A notebook's kernel: the notebook of the cookbook, top-level `await` with a deadline, and interrupting a cell."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from conftest import DEADLINE, HERE, Environment
from jupyter_client.manager import KernelManager

HANGING = [{"text": "One, two, "}, {"wait_cancel": True}]
SCRIPT = [[{"text": ["Hello", "!"]}], HANGING, HANGING, [{"text": "Still here."}]]
DEADLINES = """
import asyncio
async def limited(wait):
    try:
        await asyncio.wait_for(wait, 0.1)
    except asyncio.TimeoutError:
        print("too slow")
"""
ASYNC = [
    """
import kimi_agent
session = await kimi_agent.create_session(work_dir=".")
async def show(question):
    turn = session.prompt(question)
    async for event in turn:
        if isinstance(event, kimi_agent.TextPart): print(event.text, flush=True)
await show("Hi")
""",
    DEADLINES + 'await limited(session.prompt("Count").result())',
    'await limited(show("Count"))',
    'print((await session.prompt("And now?").result()).text)',
    "await session.close(); print(session.state)",
]
BLOCKING = [
    """
from kimi_agent import TextPart, sync
session = sync.create_session(work_dir=".")
def show(question):
    turn = session.prompt(question)
    for event in turn:
        if isinstance(event, TextPart): print(event.text, flush=True)
show("Hi")
""",
    """
for event in session.prompt("Count"):
    if isinstance(event, TextPart): print(event.text, flush=True)
""",
    'print(session.prompt("And now?").result().text)',
    "session.close(); print(session.state)",
]


class Notebook:
    """A kernel, and the cells that it runs."""

    def __init__(self, env: Environment, folder: Path) -> None:
        self._manager = KernelManager(kernel_name="python3")
        self._manager.start_kernel(env=env, cwd=str(folder))
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=DEADLINE)
        self.displayed: list[str] = []

    def run(self, code: str, *, interrupt_after: str | None = None) -> tuple[str, str | None]:
        """Runs a cell; what it printed, and the name of the exception that ended it."""
        sent = self._client.execute(code)
        printed, failure = "", None
        while True:
            message: dict[str, Any] = self._client.get_iopub_msg(timeout=DEADLINE)
            if message["parent_header"].get("msg_id") != sent:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                printed += content["text"]
                if interrupt_after is not None and interrupt_after in printed:
                    interrupt_after = None
                    self._manager.interrupt_kernel()
            elif kind in ("display_data", "update_display_data"):
                self.displayed.append(content["data"]["text/markdown"])
            elif kind == "error":
                failure = content["ename"]
            elif kind == "status" and content["execution_state"] == "idle":
                return printed, failure

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


@pytest.fixture
def notebook(agent: Callable[..., Environment], tmp_path: Path) -> Generator[Notebook]:
    env = {**agent(SCRIPT), "JUPYTER_RUNTIME_DIR": str(tmp_path), "IPYTHONDIR": str(tmp_path / "ipython")}
    opened = Notebook(env, tmp_path)
    yield opened
    opened.close()


def test_cookbook_notebook_displays_streamed_answer(notebook: Notebook) -> None:
    _, *cells = (HERE / "notebook.py").read_text().split("# %% ")
    printed, failures = zip(*[notebook.run(f"# {cell}") for cell in cells], strict=True)
    assert failures == (None,) * 5
    assert "".join(printed) == "finished 0\n"
    assert notebook.displayed == ["…", "Hello", "Hello!"]


def test_notebook_cells_can_await(notebook: Notebook) -> None:
    hello, deadline, function, after, close = ASYNC
    assert notebook.run(hello) == ("Hello\n!\n", None)
    assert notebook.run(deadline) == ("too slow\n", None)
    printed, failure = notebook.run(function)
    assert (printed.endswith("too slow\n"), failure) == (True, None)
    assert notebook.run(after) == ("Still here.\n", None)
    assert notebook.run(close) == ("closed\n", None)


@pytest.mark.skipif(os.name == "nt", reason="kernels are interrupted differently there")
def test_interrupted_notebook_cell_leaves_its_turn(notebook: Notebook) -> None:
    hello, loop, after, close = BLOCKING
    assert notebook.run(hello) == ("Hello\n!\n", None)
    for _ in range(2):
        printed, failure = notebook.run(loop, interrupt_after="two, ")
        assert printed == "One, two, \n"
        assert failure in ("KeyboardInterrupt",)
    assert notebook.run(after) == ("Still here.\n", None)
    assert notebook.run(close) == ("closed\n", None)
