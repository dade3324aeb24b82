"""Other processes, other interpreters, and how this one ends and starts."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import DEADLINE, gone, newest_only, oldest_and_newest, program

from kimi_agent.testing import scripted_agent

pytestmark = pytest.mark.interpreter

WORKERS = """
import multiprocessing, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, in 3.12 and later

def work(queue):
    try:
        events = list(kimi_agent.sync.prompt("Go", executable=scripted_agent([[{"text": "Hi"}]])))
    except kimi_agent.KimiAgentError as error:
        queue.put(str(error))
    else:
        queue.put(events)

if __name__ == "__main__":
    agent = scripted_agent([[{"text": "a"}, {"wait_file": "go"}, {"text": "b"}]])
    with kimi_agent.sync.create_session(executable=agent, work_dir=".") as session:
        turn = session.prompt("Go")
        for event in turn:
            if isinstance(event, kimi_agent.TextPart):
                break
        context = multiprocessing.get_context("METHOD")
        queue = context.SimpleQueue()
        child = context.Process(target=work, args=(queue,))
        child.start()
        said = queue.get()
        child.join()
        if isinstance(said, str):
            print("forked" in said and "spawn" in said)
        else:
            # Events have come from another process as what they were.
            print(said == list(kimi_agent.sync.prompt("Go", executable=scripted_agent([[{"text": "Hi"}]]))))
        Path("go").touch()
        print(type(said).__name__, child.exitcode, turn.result().text, session.state)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is spawn only")
@pytest.mark.parametrize(("method", "said"), [("fork", "str"), ("forkserver", "list"), ("spawn", "list")])
def test_multiprocessing_workers_can_use_sessions(method: str, said: str, tmp_path: Path) -> None:
    out, err = program(WORKERS.replace("METHOD", method), tmp_path).communicate(timeout=DEADLINE)
    assert err == ""
    assert out.split() == ["True", said, "0", "ab", "idle"]


SUBINTERPRETER = """
import sys
sys.path[:] = PATH
try:
    import kimi_agent
except ImportError as error:
    assert "subinterpreter" in str(error), error
    print("refused", flush=True)
else:
    print("imported", flush=True)
"""
MAKE = """
try:
    import _interpreters as interpreters
    kinds, make, run = ["isolated", "legacy"], interpreters.create, interpreters.exec
except ImportError:
    import _xxsubinterpreters as interpreters
    kinds, make, run = [True, False], lambda kind: interpreters.create(isolated=kind), interpreters.run_string

def try_it():
    for kind in kinds:
        other = make(kind)
        assert run(other, CODE) is None
        interpreters.destroy(other)
"""


@pytest.mark.parametrize("first", ["main", "other"])
def test_subinterpreters_are_refused(first: str, tmp_path: Path) -> None:
    code = f"import sys\nCODE = {SUBINTERPRETER!r}.replace('PATH', repr(sys.path))\n{MAKE}"
    use = """
import kimi_agent.sync
from kimi_agent.testing import scripted_agent
print(kimi_agent.sync.prompt("Go", executable=scripted_agent([[{"text": "Hi"}]])).result().text, flush=True)
"""
    file = tmp_path / "program.py"
    file.write_text(f"{code}\n{use}\ntry_it()" if first == "main" else f"{code}\ntry_it()\n{use}", "utf-8")
    ran = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert ran.returncode == 0, ran.stderr
    said = ["refused", "refused"]
    assert ran.stdout.split() == (["Hi", *said] if first == "main" else [*said, "Hi"])


# What the package needs of the standard library at first; whatever these import in turn comes with them.
STANDARD = ("__future__", "asyncio", "typing")


def test_import_loads_few_modules(tmp_path: Path) -> None:
    code = f"""
    import sys
    import {", ".join(STANDARD)}
    before = set(sys.modules)
    import kimi_agent
    print(sorted(set(sys.modules) - before))
    import threading
    print([thread.name for thread in threading.enumerate()])
    """
    lines = "\n".join(line.strip() for line in code.splitlines())
    ran = subprocess.run(
        [sys.executable, "-c", lines], capture_output=True, text=True, timeout=DEADLINE, check=True, cwd=tmp_path
    )
    brought, threads = map(ast.literal_eval, ran.stdout.splitlines())
    own = {name for name in brought if name.split(".")[0] == "kimi_agent"}
    # Built into the interpreter: it says which interpreter this is.
    assert set(brought) - own <= {"_interpreters", "_xxsubinterpreters"}
    # What is for some programs only is not there: the blocking API, the agent for tests, tools made of functions.
    assert {"kimi_agent._native", "kimi_agent._wire"} <= own
    later = (
        "sync",
        "testing",
        "_function_tool",
        "_function_schema",
        "_type_schema",
        "_option_types",
        "_results",
        "_telemetry",
        "_spans",
    )
    assert not {name for name in own if name.startswith(tuple(f"kimi_agent.{part}" for part in later))}
    assert threads == ["MainThread"]


def test_interpreter_without_its_lock_is_refused(tmp_path: Path) -> None:
    code = "import sys; sys._is_gil_enabled = lambda: False; import kimi_agent"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=DEADLINE, check=False, cwd=tmp_path
    )
    assert ran.returncode == 1
    assert "ImportError: kimi_agent needs the global interpreter lock (GIL)" in ran.stderr


UNCAUGHT = {
    "blocking": """
    with kimi_agent.sync.create_session(executable=scripted_agent([HANGING]), work_dir=".") as session:
        for event in session.prompt("Go"):
            if isinstance(event, kimi_agent.TextPart):
                print(session.pid, flush=True)
                raise LookupError("on purpose")
    """,
    "blocking, not closed": """
    session = kimi_agent.sync.create_session(executable=scripted_agent([HANGING]), work_dir=".")
    turn = session.prompt("Go")
    for event in turn:
        if isinstance(event, kimi_agent.TextPart):
            print(session.pid, flush=True)
            raise LookupError("on purpose")
    """,
    "async": """
    async def main():
        async with kimi_agent.create_session(executable=scripted_agent([HANGING]), work_dir=".") as session:
            async for event in session.prompt("Go"):
                if isinstance(event, kimi_agent.TextPart):
                    print(session.pid, flush=True)
                    raise LookupError("on purpose")
    asyncio.run(main())
    """,
    "in another task": """
    async def main():
        async with kimi_agent.create_session(executable=scripted_agent([HANGING]), work_dir=".") as session:
            turn = session.prompt("Go")
            read = asyncio.Event()
            async def reading():
                async for event in turn:
                    if isinstance(event, kimi_agent.TextPart):
                        print(session.pid, flush=True)
                        read.set()
            task = asyncio.create_task(reading())
            await read.wait()
            raise LookupError("on purpose")
    asyncio.run(main())
    """,
}


@oldest_and_newest
@pytest.mark.parametrize("way", UNCAUGHT)
def test_uncaught_exception_ends_program_and_agent(way: str, tmp_path: Path) -> None:
    running = program(UNCAUGHT[way], tmp_path)
    out, err = running.communicate(timeout=DEADLINE)
    assert running.returncode == 1
    # The program's traceback, and nothing else: none of the package's frames, no second one.
    lines = err.splitlines()
    assert (lines[0], lines[-1]) == ("Traceback (most recent call last):", "LookupError: on purpose")
    assert err.count("Traceback") == 1
    files = [line.split('"')[1] for line in lines if line.startswith("  File ")]
    assert {Path(file).name for file in files if "asyncio" not in file} == {"program.py"}
    assert gone(int(out))


BLOCKED = """
import threading
ASK = [{"tool_call": {"name": "Shell", "approve": True, "result": "ok"}}]
asked = threading.Event()

def plain(request):
    asked.set()
    threading.Event().wait()

async def asynchronous(request):
    plain(request)

def begin(handler):
    session = kimi_agent.sync.create_session(executable=scripted_agent([ASK]), on_approval=handler)
    turn = session.prompt("Go")
    asked.wait()
    print(session.pid, flush=True)
    return session, turn
"""


@oldest_and_newest
@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("kept = begin(plain)", 0, ""),
        # Nobody has read the turn.
        ("with (kept := begin(plain))[0]: sys.exit(3)", 3, "the session is closed during a turn that was not read"),
        # It blocks the loop of the blocking API, so that nothing can be closed any more.
        pytest.param("kept = begin(asynchronous); sys.exit(3)", 3, "", marks=newest_only),
    ],
)
def test_blocked_handler_allows_program_exit(code: str, status: int, said: str, tmp_path: Path) -> None:
    running = program(BLOCKED + code, tmp_path)
    out, err = running.communicate(timeout=DEADLINE)
    assert (running.returncode, err[: len(said) or None]) == (status, said)
    assert gone(int(out))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_fork_in_handler_keeps_session_usable(tmp_path: Path) -> None:
    code = """
    import warnings
    warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, in 3.12 and later

    def handler(request):
        pid = os.fork()
        if pid == 0:
            try:
                session.prompt("Go")
            except kimi_agent.KimiAgentError as error:
                os._exit(7 if "forked" in str(error) else 1)
            os._exit(1)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        return "approve"

    ask = [{"tool_call": {"name": "Shell", "approve": True, "result": "ok"}}, {"text": "{{last.response}}"}]
    with kimi_agent.sync.create_session(executable=scripted_agent([ask]), on_approval=handler) as session:
        print(session.prompt("Go").result().text)
    """
    out, err = program(code, tmp_path).communicate(timeout=DEADLINE)
    assert (out.split(), err) == (["7", "approve"], "")


LEFT = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, in 3.12 and later

def plain(request):
    pid = os.fork()
    if pid == 0:
        LEAVE
    else:
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    return "approve"

async def asynchronous(request):
    return plain(request)

ask = [{"tool_call": {"name": "Shell", "approve": True, "result": "ok"}}, {"text": "{{last.response}}"}]
options = dict(executable=scripted_agent([ask]), on_approval=HANDLER)

async def main():
    async with kimi_agent.create_session(**options) as session:
        print((await session.prompt("Go").result()).text, session.state, flush=True)

def blocking():
    with kimi_agent.sync.create_session(**options) as session:
        print(session.prompt("Go").result().text, session.state, flush=True)

"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("run", ["asyncio.run(main())", "blocking()"])
@pytest.mark.parametrize("handler", ["plain", "asynchronous"])
@pytest.mark.parametrize(
    ("leave", "status", "said"),
    [
        ("sys.exit(3)", 3, ""),
        ("sys.exit('over')", 1, "over"),
        ("raise LookupError('on purpose')", 1, "LookupError: on purpose"),
        ("pass", 0, ""),
    ],
)
def test_child_of_handler_ends_with_it(
    leave: str, status: int, said: str, handler: str, run: str, tmp_path: Path
) -> None:
    code = LEFT.replace("LEAVE", leave).replace("HANDLER", handler) + run
    out, err = program(code, tmp_path).communicate(timeout=DEADLINE)
    assert out.splitlines() == [str(status), "approve idle"]
    assert err.strip().endswith(said)
    assert bool(err) == bool(said)


STARTED = """
import runpy, sys
del sys.argv[1:]
try:
    runpy.run_path(AGENT, run_name="__main__")
except SystemExit as ended:
    print(ended.code, sorted(name for name in sys.modules if name.split(".")[0] in ("asyncio", "kimi_agent")))
"""


def test_scripted_agent_starts_without_package() -> None:
    # Tests start many of them, and importing the package takes several times as long as all else.
    _, site, agent, _ = scripted_agent([])
    ran = subprocess.run(
        [sys.executable, site, "-c", STARTED.replace("AGENT", repr(agent))],
        capture_output=True, text=True, timeout=DEADLINE, check=True,
    )  # fmt: skip
    assert ran.stdout == "2 []\n"
    assert "usage: kimi-scripted-agent" in ran.stderr
