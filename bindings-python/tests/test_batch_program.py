"""The program in docs/guides/run-many-prompts.md: 200 jobs in a git repository, killed twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from complete_program import (
    JOBS,
    SCRIPT,
    TURN,
    blocks,
    check_left,
    check_report,
    check_results,
    journal,
    make_repository,
)
from support import DEADLINE, gone, newest_only, program

from kimi_agent.testing import scripted_agent

# Writes the names of spans that have ended.
TRACED = """
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

class Names(SpanProcessor):
    def on_end(self, span):
        with open("spans.txt", "a") as file:
            file.write(span.name + "\\n")

provider = TracerProvider()
provider.add_span_processor(Names())
trace.set_tracer_provider(provider)
"""


def started(repository: Path) -> subprocess.Popen[str]:
    executable = json.dumps([str(word) for word in scripted_agent(SCRIPT)])
    # What a killed program leaves in its folder for temporary files goes with this one.
    temporary = str(repository / ".git")
    return program(TRACED + blocks()[0], repository, KIMI_AGENT_EXECUTABLE=executable, TMPDIR=temporary)


@newest_only
@pytest.mark.skipif(sys.platform == "win32", reason="kills the program")
def test_killed_program_has_all_results(tmp_path: Path) -> None:
    make_repository(tmp_path)
    for printed in (40, 120):
        running = started(tmp_path)
        assert running.stdout is not None
        first = [running.stdout.readline() for _ in range(printed)]
        running.kill()
        rest, errors = running.communicate(timeout=DEADLINE)
        assert all(" finished Report(" in line for line in first), errors
        assert gone(running.pid)
        assert printed <= len(journal(tmp_path)) < JOBS, rest
    running = started(tmp_path)
    out, errors = running.communicate(timeout=DEADLINE)
    assert running.returncode == 0, errors
    check_results(tmp_path, out.splitlines())
    # Jobs that were killed have no complete span.
    assert (tmp_path / "spans.txt").read_text("utf-8").splitlines().count(TURN) >= JOBS
    check_left(tmp_path)
    check_report(tmp_path)
