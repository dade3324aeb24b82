"""Leaves the interpreter 30 times in the middle of a turn, in every way a program ends: no crash, no hang.

The core's threads are busy with the agent's events at that moment. Each exit is a process of its own, whose exit code
and stderr must be those of a program that ended in that way without the package.
"""

from __future__ import annotations

import concurrent.futures
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness import usage

# The first argument is another number.
_GIVEN = sys.argv[1] if len(sys.argv) > 1 else "30"
if not _GIVEN.isdecimal() or int(_GIVEN) == 0:
    usage.stop("exit", f"the number of exits is {_GIVEN!r}; give a number from 1 on, or nothing for 30")
EXITS = int(_GIVEN)
# Far beyond what an exit takes on a loaded machine: who takes longer hangs.
HANG = 120

PRELUDE = """
import asyncio, atexit, os, sys, threading
import kimi_agent
from kimi_agent import create_session
from kimi_agent.testing import scripted_agent

script = [[{"repeat": {"times": 100000, "actions": [{"text": "busy"}]}}]]

async def begin(count=20, **options):
    session = await create_session(executable=scripted_agent(script), **options)
    turn = session.prompt("go")
    seen = 0
    async for event in turn:
        seen += 1
        if seen == count:
            return session, turn
"""

# What a program does in the middle of the turn: code, exit code, and what its stderr ends with.
WAYS: dict[str, tuple[str, int, str]] = {
    "main returns": ("asyncio.run(begin())", 0, ""),
    "kept in a global": (
        """
async def main():
    global kept
    kept = await begin()
asyncio.run(main())
""",
        0,
        "",
    ),
    "sys.exit in the loop": (
        """
async def main():
    kept = await begin()
    sys.exit(3)
asyncio.run(main())
""",
        3,
        "",
    ),
    "uncaught exception": (
        """
async def main():
    kept = await begin()
    raise RuntimeError("on purpose")
asyncio.run(main())
""",
        1,
        "RuntimeError: on purpose",
    ),
    "a loop that is never closed": (
        """
loop = asyncio.new_event_loop()
kept = loop.run_until_complete(begin())
""",
        0,
        "",
    ),
    "blocking, not closed": (
        """
import kimi_agent.sync
session = kimi_agent.sync.create_session(executable=scripted_agent(script))
for event in session.prompt("go"):
    break
""",
        0,
        "",
    ),
    "blocking in a daemon thread": (
        """
import kimi_agent.sync
started = threading.Event()
def work():
    session = kimi_agent.sync.create_session(executable=scripted_agent(script))
    for event in session.prompt("go"):
        started.set()
threading.Thread(target=work, daemon=True).start()
started.wait()
""",
        0,
        "",
    ),
    "a daemon thread waits": (
        """
import kimi_agent.sync
script = [[{"text": "one"}, {"wait_cancel": True}]]
reading = threading.Event()
def work():
    session = kimi_agent.sync.create_session(executable=scripted_agent(script))
    for event in session.prompt("go"):
        if isinstance(event, kimi_agent.TextPart):
            reading.set()
threading.Thread(target=work, daemon=True).start()
reading.wait()
""",
        0,
        "",
    ),
    "os._exit": (
        """
kept = asyncio.run(begin())
os._exit(4)
""",
        4,
        "",
    ),
    "an approval pending": (
        """
approve = {"action": "run", "description": "x"}
script = [[{"tool_call": {"id": "1", "name": "Shell", "arguments": {}, "approve": approve}}]]
async def main():
    never = asyncio.Event()
    asked = asyncio.Event()
    async def on_approval(request):
        asked.set()
        await never.wait()
    session = await create_session(executable=scripted_agent(script), on_approval=on_approval)
    turn = session.prompt("go")
    # The log would report a turn that was not read.
    async for event in turn:
        if isinstance(event, kimi_agent.ApprovalRequest):
            break
    await asked.wait()
asyncio.run(main())
""",
        0,
        "",
    ),
    "an agent with two sessions": (
        """
script = {"wire": "acp", "turns": script}
async def main():
    global kept
    agent = await kimi_agent.open_agent(executable=scripted_agent(script), dialect="acp")
    idle, busy = await agent.create_session(), await agent.create_session()
    turn = busy.prompt("go")
    async for event in turn:
        kept = agent, idle, busy, turn
        return
asyncio.run(main())
""",
        0,
        "",
    ),
    "blocking, an agent without a session": (
        """
import kimi_agent.sync
script = {"wire": "acp", "turns": script}
agent = kimi_agent.sync.open_agent(executable=scripted_agent(script), dialect="acp")
assert agent.list_sessions() == []
""",
        0,
        "",
    ),
    "at exit": (
        """
@atexit.register
def late():
    global kept
    kept = asyncio.run(begin())
""",
        0,
        "",
    ),
}


def leave(name: str, folder: Path) -> str | None:
    """One exit; what was wrong with it, if anything."""
    code, expected, stderr = WAYS[name]
    program = folder / f"{name.replace(' ', '_')}.py"
    if not program.exists():
        program.write_text(PRELUDE + code)
    try:
        ran = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=HANG, check=False)
    except subprocess.TimeoutExpired:
        return f"{name}: hangs"
    if ran.returncode != expected:
        return f"{name}: exit code {ran.returncode} instead of {expected}: {ran.stderr.strip()[-2000:]}"
    if not ran.stderr.strip().endswith(stderr) or (not stderr and ran.stderr.strip()):
        return f"{name}: stderr: {ran.stderr.strip()[-2000:]}"
    return None


def main() -> int:
    """Prints what went wrong, by way; 1 if anything did."""
    usage.needs_package("exit")
    names = [name for _ in range(-(-EXITS // len(WAYS))) for name in WAYS][:EXITS]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(3) as pool:
        # One of each first, so that the files are there.
        outcomes = list(pool.map(lambda name: leave(name, Path(folder)), names))
    problems = Counter(problem for problem in outcomes if problem)
    for problem, times in problems.items():
        print(f"{times} times: {problem}")
    print(f"{outcomes.count(None)} passed, {len(outcomes) - outcomes.count(None)} failed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(usage.reported("exit", main))
