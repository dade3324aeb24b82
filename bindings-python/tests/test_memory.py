"""A program with less memory than its agent sends."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support import DEADLINE, program

pytestmark = pytest.mark.interpreter

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the address space as Linux does")


@linux
@pytest.mark.parametrize("unit", ["abcdefgh", "äöü\\n"])
def test_line_exceeding_memory(unit: str, tmp_path: Path) -> None:
    code = f"""
        import os, resource
        from kimi_agent import KimiAgentError, TextPart, sync
        from kimi_agent.testing import scripted_agent

        BEFORE = '{{"jsonrpc":"2.0","method":"event","params":{{"type":"ContentPart","payload":{{"type":"text","text":"'
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]

        def play(size, spare):
            unit = {unit!r}
            raw = {{"before": BEFORE, "repeat": unit, "times": size // len(unit), "after": '"}}}}}}'}}
            with sync.create_session(executable=scripted_agent([[{{"raw": raw}}]]), max_line_bytes=1 << 30) as session:
                turn = session.prompt("go")
                pages = int(open("/proc/self/statm").read().split()[0])
                resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + spare, hard))
                try:
                    sum(len(event.text) for event in turn if isinstance(event, TextPart))
                except KimiAgentError as error:
                    return f"{{error.code}}: {{error}}"
                except MemoryError:
                    return "MemoryError"
                finally:
                    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
            return "finished"

        MB = 1 << 20
        for size in (40 * MB, 200 * MB):
            print(size // MB, play(size, 100 * MB), flush=True)
        print(play(MB, 1000 * MB))
    """
    running = program(code, tmp_path)
    out, err = running.communicate(timeout=DEADLINE)
    assert running.returncode == 0, (running.returncode, out, err)
    lines = out.splitlines()
    assert lines[1].startswith("200 protocol_error: there is not enough memory for a line of"), out
    assert lines[2] == "finished", out
