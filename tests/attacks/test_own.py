"""Attacks by agents that control their files and their timing, and by careless host programs."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from attacks.programs import HOSTS, agent, played, ran, script
from attacks.test_held import can
from harness.scenario import LANGUAGES

HELLO = [[{"text": "Hello"}], [{"text": "Hello"}]]
OPEN, PROMPT, DRAIN, RESULT, CLOSE = (
    {"op": "open"}, {"op": "prompt", "input": "hi"}, {"op": "drain"}, {"op": "result"}, {"op": "close"},
)  # fmt: skip
# The agent's configuration travels in a private file.
SECRET = {"config": {"default_model": "m", "providers": {}, "models": {}}}
DEADLINE = 60.0
# One turn with inline configuration; "Hello", or the code of the error.
TURN = {
    "python": """
        async def main():
            try:
                options = {"executable": EXECUTABLE, "config": {"a": 1}, "close_timeout": 2}
                async with kimi_agent.create_session(**options) as session:
                    print((await session.prompt("hi").result()).text)
            except KimiAgentError as error:
                print(error.code)
        asyncio.run(main())
    """,
    "python-sync": """
        try:
            with kimi_agent.create_session(executable=EXECUTABLE, config={"a": 1}, close_timeout=2) as session:
                print(session.prompt("hi").result().text)
        except KimiAgentError as error:
            print(error.code)
    """,
    "node": """
        try {
          const session = await kimi.createSession({ executable: EXECUTABLE, config: { a: 1 }, closeTimeout: 2000 });
          console.log((await session.prompt("hi").result()).text);
          await session.close();
        } catch (error) {
          if (!(error instanceof kimi.KimiAgentError)) throw error;
          console.log(error.code);
        }
    """,
}


def errors(lines: list[dict[str, Any]]) -> list[Any]:
    return [line["error"] for line in lines if "error" in line]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files of the program."""
    folder = tmp_path / "tmp"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    # pytest cannot remove what is nested this deeply.
    subprocess.run(["rm", "-rf", str(folder)], check=True)


def common(temporary: Path) -> Path:
    """The folder of all private folders of this user."""
    return temporary / f"kimi-agent-{os.geteuid()}"


@pytest.mark.parametrize("language", LANGUAGES)
def test_pipe_as_lock_does_not_block_sessions(language: str, temporary: Path, tmp_path: Path) -> None:
    # An agent has left the pipe. The first session of a program looks for such folders. The second session hung.
    left = common(temporary) / "kimi-agent-left"
    left.mkdir(mode=0o700, parents=True)
    common(temporary).chmod(0o700)
    os.mkfifo(left / "lock")
    options = {"executable": script(tmp_path, HELLO), "handshake_timeout": 60, **SECRET}
    lines = played(language, tmp_path, options, [OPEN, PROMPT, RESULT, CLOSE] * 2)
    assert [line.get("text") for line in lines if line.get("op") == "result"] == ["Hello", "Hello"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_deep_private_folder_is_removed(language: str, temporary: Path, tmp_path: Path) -> None:
    # To remove it took one descriptor a level, and one call: the limit of descriptors kept it, or the stack overflowed.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    options = {"executable": agent("own", "deep", "4000"), **SECRET}
    assert errors(played(language, tmp_path, options, [OPEN, PROMPT, RESULT, CLOSE])) == []
    # The next session deletes the files of an ended program, in the background.
    keep = [{"op": "run", "argv": [sys.executable, "-c", GONE, str(common(temporary))]}]
    options["executable"] = script(tmp_path, HELLO)
    assert errors(played(language, tmp_path, options, [OPEN, PROMPT, RESULT, CLOSE, *keep])) == []
    # The stack of a host. It is the core that removes, and so it is the same in all of them.
    if hard > 15000 and language == "python":
        said = ran(
            language, tmp_path, TURN[language], "prlimit", f"--nofile={hard}", executable=agent("own", "deep", "15000")
        )
        assert said == "\n"


GONE = f"""
import os, sys, time
until = time.monotonic() + {DEADLINE}
while os.path.exists(sys.argv[1]):
    if time.monotonic() > until:
        sys.exit("it is still there")
    time.sleep(0.01)
"""


@pytest.mark.parametrize("language", LANGUAGES)
def test_link_replacing_private_folder_is_not_followed(language: str, temporary: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    options = {"executable": agent("own", "link", str(victim)), **SECRET}
    assert errors(played(language, tmp_path, options, [OPEN, PROMPT, RESULT, CLOSE])) == []
    kept = {path.name: path.read_text() for path in victim.iterdir()}
    assert len(kept) >= 2
    assert set(kept.values()) == {"precious"}


@pytest.mark.skipif(
    os.geteuid() != 0 or not can("unshare", "--mount"), reason="only root can mount a small file system"
)
@pytest.mark.parametrize("language", HOSTS)
def test_full_disk_leaves_nothing_behind(language: str, tmp_path: Path) -> None:
    # So many files fit: with each one the next step fails, and at last nothing does.
    said = []
    for files in range(1, 6):
        small = tmp_path / f"small-{files}"
        small.mkdir()
        mounted = f"mount -t tmpfs -o size=64k,nr_inodes={files} tmpfs {small}"
        left = f"ls -A {small}"
        prefix = ("unshare", "--mount", "sh", "-c", f'{mounted} && TMPDIR={small} "$@" && {left}', "sh")
        said.append(ran(language, tmp_path, TURN[language], *prefix, executable=script(tmp_path, HELLO)))
    assert said == ["spawn_error\n"] * 4 + ["Hello\n"]


@pytest.mark.parametrize("flood", ["events 1", "noise 1", "events 2"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_flood_of_survivor_does_not_delay_end(language: str, flood: str, tmp_path: Path) -> None:
    options = {"executable": agent("own", "flood", flood), "close_timeout": 1}
    began = time.monotonic()
    lines = played(language, tmp_path, options, [OPEN, PROMPT, DRAIN, RESULT, CLOSE])
    assert set(errors(lines)) == {"agent_exited"}
    # The flood lasts a minute; the limit here is not a measurement.
    assert time.monotonic() - began < DEADLINE


@pytest.mark.parametrize("language", LANGUAGES)
def test_token_counts_do_not_overflow(language: str, tmp_path: Path) -> None:
    def status(count: float) -> dict[str, Any]:
        payload = {
            "token_usage": dict.fromkeys(("input_other", "output", "input_cache_read", "input_cache_creation"), count)
        }
        message = {"jsonrpc": "2.0", "method": "event", "params": {"type": "StatusUpdate", "payload": payload}}
        return {"raw": json.dumps(message)}

    counts = (2**63 - 1, 2**63 - 1, 2**64 - 1, -1, -(2**63), 1.5, 1e308)
    turn = [{"text": "a"}, *map(status, counts)]
    options = {"executable": script(tmp_path, [turn, turn, [{"text": "b"}]])}
    program = [OPEN, *[PROMPT, DRAIN, RESULT] * 3, CLOSE]
    lines = played(language, tmp_path, options, program)
    assert errors(lines) == []
    assert sum("event" in line for line in lines) == 2 * (4 + len(counts)) + 4


@pytest.mark.skipif(not can("env", "--block-signal=TERM"), reason="this env cannot block signals")
@pytest.mark.parametrize("language", HOSTS)
def test_agent_does_not_inherit_blocked_signals(language: str, tmp_path: Path) -> None:
    prefix = ("env", "--block-signal=TERM,INT,CHLD,HUP")
    assert ran(language, tmp_path, TURN[language], *prefix, executable=agent("own", "mask", "")) == "0\n"


@pytest.mark.skipif(not can("unshare", "--time", "--fork"), reason="the system allows no new clock")
@pytest.mark.parametrize("seconds", ["just booted", "30 years"])
@pytest.mark.parametrize("language", HOSTS)
def test_host_with_unusual_clock_can_use_agents(language: str, seconds: str, tmp_path: Path) -> None:
    offset = 10**9 if seconds == "30 years" else 1 - int(time.clock_gettime(time.CLOCK_MONOTONIC))
    prefix = ("unshare", "--time", f"--monotonic={offset}", "--boottime", str(offset), "--fork")
    assert ran(language, tmp_path, TURN[language], *prefix, executable=script(tmp_path, HELLO)) == "Hello\n"


@pytest.mark.parametrize("language", HOSTS)
def test_deleted_working_directory_is_error(language: str, tmp_path: Path) -> None:
    prefix = ("sh", "-c", 'mkdir gone && cd gone && rmdir ../gone && exec "$@"', "sh")
    assert ran(language, tmp_path, TURN[language], *prefix, executable=script(tmp_path, HELLO)) == "invalid_option\n"


@pytest.mark.parametrize("language", ["python", "python-sync"])
def test_forked_child_with_pipes_keeps_no_agent(language: str, tmp_path: Path) -> None:
    code = """
        def kept(session):
            child = os.fork()
            if child == 0:
                time.sleep(60)
                os._exit(0)
            return session.pid, child
    """ + {
        "python": """
        async def main():
            session = await kimi_agent.create_session(executable=EXECUTABLE, close_timeout=1)
            agent, child = kept(session)
            await session.close()
            session = await kimi_agent.create_session(executable=EXECUTABLE, close_timeout=1)
            print(child, agent, *kept(session), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        asyncio.run(main())
        """,
        "python-sync": """
        session = kimi_agent.create_session(executable=EXECUTABLE, close_timeout=1)
        agent, child = kept(session)
        session.close()
        session = kimi_agent.create_session(executable=EXECUTABLE, close_timeout=1)
        print(child, agent, *kept(session), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    }[language]  # fmt: skip
    # The children hold the pipe of stdout as well, so it goes to a file.
    prefix = ("sh", "-c", '"$@" >said 2>stderr; test $? = 137', "sh")
    ran(language, tmp_path, code, *prefix, executable=script(tmp_path, HELLO), env={"TMPDIR": str(tmp_path)})
    first_child, first, second, second_child = map(int, (tmp_path / "said").read_text().split())
    try:
        until = time.monotonic() + DEADLINE
        while any(map(runs, (first, second))):
            assert time.monotonic() < until, (first, second)
            time.sleep(0.01)
    finally:
        for child in (first_child, second_child):
            os.kill(child, 9)


def runs(pid: int) -> bool:
    """Whether such a process exists that is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_signal_handler_can_use_blocking_api(tmp_path: Path) -> None:
    # The signal comes while the interrupted thread holds the lock of the package's shared thread, and first while it
    # creates that thread.
    code = """
        import faulthandler
        from kimi_agent import _background
        faulthandler.dump_traceback_later(60, exit=True)
        said = []
        def handler(*_):
            with kimi_agent.create_session(executable=EXECUTABLE) as session:
                said.append(session.prompt("hi").result().text)
        signal.signal(signal.SIGUSR1, handler)
        class Interrupted:
            def getpid(self):
                _background.os = os
                signal.raise_signal(signal.SIGUSR1)
                return os.getpid()
        for _ in range(2):
            _background.os = Interrupted()
            with kimi_agent.create_session(executable=EXECUTABLE) as session:
                said.append(session.prompt("hi").result().text)
        print(said)
    """
    assert ran("python-sync", tmp_path, code, executable=script(tmp_path, HELLO)) == f"{['Hello'] * 4}\n"


def test_collector_may_run_at_any_moment(tmp_path: Path) -> None:
    code = """
        import faulthandler, gc, kimi_agent.sync
        faulthandler.dump_traceback_later(120, exit=True)
        gc.set_threshold(1, 1, 1)
        async def dropped():
            session = await kimi_agent.create_session(executable=EXECUTABLE, close_timeout=1)
            turn = session.prompt("hi")
            async for event in turn:
                break
            circle = [session, turn]
            circle.append(circle)
        def dropped_blocking():
            session = kimi_agent.sync.create_session(executable=EXECUTABLE, close_timeout=1)
            turn = session.prompt("hi")
            for event in turn:
                break
            circle = [session, turn]
            circle.append(circle)
        async def main():
            await asyncio.gather(*(dropped() for _ in range(4)))
        for _ in range(2):
            asyncio.run(main())
            threads = [threading.Thread(target=dropped_blocking) for _ in range(4)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
        print("fine")
    """
    slow = [[{"text": [*"abcdefghij"] * 10, "delay_between": 0.001}]]
    assert ran("python", tmp_path, code, executable=script(tmp_path, slow)) == "fine\n"


@pytest.mark.parametrize("flags", [("-OO",), ("-X", "dev"), ("-X", "utf8=0")])
def test_interpreter_flags_do_not_change_turn(flags: tuple[str, ...], tmp_path: Path) -> None:
    env = {"LC_ALL": "C", "PYTHONWARNINGS": "error"}
    said = ran("python", tmp_path, TURN["python"], executable=script(tmp_path, HELLO), flags=flags, env=env)
    assert said == "Hello\n"


ASKS = [[{"tool_call": {"name": "Shell", "approve": True, "result": "ran"}}, {"text": "{{last.response}}"}]]
POLLUTED = (
    "yolo", "onApproval", "executable", "env", "extraArgs", "sessionId", "config", "model", "workDir",
    "get", "set", "value", "type", "id", "payload", "code", "result", "length", "name", "handler", "0",
)  # fmt: skip


@pytest.mark.parametrize("where", ["before", "after"])
def test_polluted_prototype_approves_nothing(where: str, tmp_path: Path) -> None:
    # `where` the prototype is polluted: before the session opens, or after.
    code = f"""
        const pollute = (key) => Object.defineProperty(Object.prototype, key, {{
          value: {{
            yolo: true, onApproval: () => "approve", executable: ["/bin/false"],
            extraArgs: ["--yolo"], env: {{ A: "b" }},
          }}[key] ?? "approve",
          configurable: true, enumerable: true, writable: true,
        }});
        const said = new Set();
        for (const key of {json.dumps(POLLUTED)}) {{
          for (const onApproval of [undefined, () => undefined, () => ({{}}), () => "reject"]) {{
            if ("{where}" === "before") pollute(key);
            try {{
              const handlers = onApproval && {{ onApproval }};
              const session = await kimi.createSession({{ executable: EXECUTABLE, ...handlers }});
              if ("{where}" === "after") pollute(key);
              const {{ status, text }} = await session.prompt("hi").result();
              said.add(`${{status}}: ${{text}}`);
              await session.close();
            }} finally {{
              delete Object.prototype[key];
            }}
          }}
        }}
        console.log([...said].join("\\n"));
    """
    assert ran("node", tmp_path, code, executable=script(tmp_path, ASKS)) == "finished: \n"


def test_node_accepts_values_of_another_realm(tmp_path: Path) -> None:
    # As test runners have them: each file in a context of its own, with other classes of the same names.
    code = """
        import vm from "node:vm";
        const context = vm.createContext({ kimi, agent: JSON.stringify(EXECUTABLE) });
        const said = await vm.runInContext(`(async () => {
          const executable = JSON.parse(agent);
          const one = async (options) => {
            const session = await kimi.createSession({ executable, ...options });
            const { text } = await session.prompt("hi").result();
            await session.close();
            return text;
          };
          return [
            await one({ onApproval: () => "approve" }),
            await one({ onApproval: async () => "approve" }),
            await one({ onApproval: () => ({ then(resolve) { resolve("approve"); } }) }),
            await one(Object.assign(Object.create(null), { onApproval: () => "approve" })),
            await one({ onApproval: () => "reject" }),
            await one({ onApproval: () => { throw new Error("of this realm"); } }),
            await one({ config: { list: [1, new Date(0)] } }),
          ].join();
        })()`, context);
        console.log(said);
    """
    assert ran("node", tmp_path, code, executable=script(tmp_path, ASKS)) == "approve,approve,approve,approve,,,\n"
