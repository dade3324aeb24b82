"""Attacks that found nothing: unusual ids, malformed HTTP, closed descriptors, an init process, no new privileges,
interrupts."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from attacks.programs import HOSTS, agent, played, ran, script
from harness.scenario import LANGUAGES

HELLO = [[{"text": "Hello"}], [{"text": "Hello"}]]
TURN = [{"op": "open"}, {"op": "prompt", "input": "hi"}, {"op": "drain"}, {"op": "result"}, {"op": "close"}]
# Two turns; what came of them goes to a file, as there may be no stdout.
TWO_TURNS = {
    "python": """
        async def main():
            async with kimi_agent.create_session(executable=EXECUTABLE) as session:
                return [(await session.prompt("hi").result()).text for _ in range(2)]
        said = asyncio.run(main())
        open("said", "w").write(json.dumps(said))
    """,
    "python-sync": """
        with kimi_agent.create_session(executable=EXECUTABLE) as session:
            said = [session.prompt("hi").result().text for _ in range(2)]
        open("said", "w").write(json.dumps(said))
    """,
    "node": """
        const session = await kimi.createSession({ executable: EXECUTABLE });
        const said = [];
        for (let n = 0; n < 2; n += 1) said.push((await session.prompt("hi").result()).text);
        await session.close();
        fs.writeFileSync("said", JSON.stringify(said));
    """,
}


def works(language: str, folder: Path, *prefix: str) -> None:
    """Two turns of a program that `prefix` starts."""
    ran(language, folder, TWO_TURNS[language], *prefix, executable=script(folder, HELLO))
    assert json.loads((folder / "said").read_text()) == ["Hello", "Hello"]


def failed(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if "error" in line]


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_id_gets_answer_to_own_request(language: str, tmp_path: Path) -> None:
    report = tmp_path / "report"
    options = {"executable": agent("ids", str(report)), "on_approval": {"answers": ["approve"]}, "idle_timeout": 60}
    assert failed(played(language, tmp_path, options, TURN)) == []
    ids, answers = json.loads(report.read_text())
    assert len(ids) == 23
    approved = [
        [text, {"request_id": f"a{place}", "response": "approve"}, None, None] for place, text in enumerate(ids)
    ]
    # A null id and a missing id get no answer.
    assert sorted(answers) == sorted(approved[:-2])


@pytest.mark.parametrize("language", LANGUAGES)
def test_malformed_http_does_not_affect_tools(language: str, tmp_path: Path) -> None:
    report = tmp_path / "report"
    tool = {"name": "echo", "description": "d", "parameters": {"type": "object"}, "behaviour": {"echo": True}}
    options = {"executable": agent("http", str(report)), "dialect": "acp", "tools": [tool]}
    lines = played(language, tmp_path, options, TURN)
    assert failed(lines) == []
    calls = [line["event"] for line in lines if line.get("event", {}).get("type") == "ToolCallRequest"]
    assert [json.loads(call["payload"]["arguments"]) for call in calls] == [{"a": "still here"}]
    said = json.loads(report.read_text())
    assert len(said["requests"]) == 37
    assert {name: status for name, status in said["requests"].items() if 200 <= status < 400} == {}
    without_secret = list(said["requests"].values())[-10:]
    # The server may close before it has read all; then its answer can get lost.
    assert set(without_secret) <= {0, 401}
    assert "still here" in said["call"]


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&-", "0<&- 2>&-", "1>&- 2>&-", "0<&- 1>&- 2>&-"])
@pytest.mark.parametrize("language", HOSTS)
def test_host_without_standard_descriptors_can_use_agents(language: str, closed: str, tmp_path: Path) -> None:
    works(language, tmp_path, "sh", "-c", f'exec "$@" {closed}', "sh")


def can(*argv: str) -> bool:
    """Whether the system allows this command here."""
    found = shutil.which(argv[0])
    return bool(found) and subprocess.run([*argv, "true"], capture_output=True, check=False).returncode == 0


AS_INIT = ("unshare", "--pid", "--fork", "--mount-proc", *(() if os.geteuid() == 0 else ("--user", "--map-root-user")))


@pytest.mark.skipif(not can(*AS_INIT), reason="the system allows no new process namespace")
@pytest.mark.parametrize("language", HOSTS)
def test_host_as_init_process_can_use_agents(language: str, tmp_path: Path) -> None:
    works(language, tmp_path, *AS_INIT)


@pytest.mark.skipif(not can("setpriv", "--no-new-privs"), reason="there is no setpriv")
@pytest.mark.parametrize("language", HOSTS)
def test_host_without_new_privileges_can_use_agents(language: str, tmp_path: Path) -> None:
    works(language, tmp_path, "setpriv", "--no-new-privs")


# An interrupt comes at a random moment of a session's life; after all of them a session works, and no agent is left.
INTERRUPTED = {
    "python": """
        async def one():
            async with kimi_agent.create_session(executable=EXECUTABLE, close_timeout=1) as session:
                async for event in session.prompt("hi"):
                    pass
                return (await session.prompt("hi").result()).text
        def life():
            return asyncio.run(one())
    """,
    "python-sync": """
        def life():
            with kimi_agent.create_session(executable=EXECUTABLE, close_timeout=1) as session:
                for event in session.prompt("hi"):
                    pass
                return session.prompt("hi").result().text
    """,
}
LOOP = """
import gc, random
rng = random.Random({seed})
def agents():
    gc.collect()
    found = []
    for task in os.listdir("/proc/self/task"):
        for pid in open(f"/proc/self/task/{{task}}/children").read().split():
            try:
                name = open(f"/proc/{{pid}}/comm").read().strip()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if name != "kimi-watcher":
                found.append(pid)
    return found
# SIGINT is ignored if the tests run as a background job of a shell. Then there would be no KeyboardInterrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
hit = 0
for _ in range({times}):
    timer = threading.Timer(rng.random() ** 2 * {longest}, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        while timer.is_alive():
            life()
        timer.join()
    except KeyboardInterrupt:
        hit += 1
    timer.join()
assert hit == {times}, hit
assert life() == "Hello"
until = time.monotonic() + 60
while agents():
    assert time.monotonic() < until, agents()
print("fine")
"""


@pytest.mark.parametrize("language", INTERRUPTED)
def test_interrupts_at_random_moments_leave_sessions_usable(language: str, tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    slow = [[{"text": [*"abcdefghij"], "delay_between": 0.002}], [{"text": "Hello"}]]
    code = INTERRUPTED[language].replace("\n        ", "\n") + LOOP.format(seed=seed, times=40, longest=0.1)
    said = ran(language, tmp_path, code, executable=script(tmp_path, slow))
    assert said == "fine\n"


def test_interrupt_handled_in_node_leaves_sessions_usable(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    slow = [[{"text": [*"abcdefghij"], "delay_between": 0.002}], [{"text": "Hello"}]]
    code = f"""
        let turn, hit = 0;
        process.on("SIGINT", () => {{ hit += 1; turn?.cancel().catch(() => undefined); }});
        const delays = {json.dumps([random.Random(seed + n).random() ** 2 * 100 for n in range(40)])};
        for (const delay of delays) {{
          const before = hit;
          setTimeout(() => process.kill(process.pid, "SIGINT"), delay);
          while (hit === before) {{
            const session = await kimi.createSession({{ executable: EXECUTABLE, closeTimeout: 1000 }});
            turn = session.prompt("hi");
            for await (const event of turn) {{}}
            turn = session.prompt("hi");
            await turn.result();
            await session.close();
          }}
        }}
        console.log(hit);
    """
    assert ran("node", tmp_path, code, executable=script(tmp_path, slow)) == "40\n"
