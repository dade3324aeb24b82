"""The complete program of docs/guides/run-many-prompts.md on a cluster: killed twice, and then a node is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
from ray.cluster_utils import Cluster
from support import DEADLINE, agents, waited

from kimi_agent import sync
from kimi_agent.testing import scripted_agent

# A module for the workers. It appends each span that has ended to a file, with the node of its worker.
TRACED = """
import os
import ray
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

class Appending(SpanProcessor):
    def on_end(self, span):
        with open(os.environ["SPANS"], "a") as file:
            file.write(f"{ray.get_runtime_context().get_node_id()} {span.name}\\n")

def set_provider():
    provider = TracerProvider()
    provider.add_span_processor(Appending())
    trace.set_tracer_provider(provider)
"""


def delete_locks(repository: Path) -> None:
    """Does what the guide says for a git that was killed, because Ray kills the processes of a lost actor."""
    folder = repository / ".git"
    left = [*folder.glob("*.lock"), *folder.glob("refs/**/*.lock")]
    for lock in left:
        lock.unlink()
    if left:
        executable = scripted_agent(SCRIPT)
        list(sync.run_batch(["m"], workspace="worktree", work_dir=repository, executable=executable, yolo=True))


@pytest.fixture
def workers() -> Iterator[Cluster]:
    """A cluster whose head runs no actors, so that each actor can be lost."""
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(3):
        found.add_node(num_cpus=1)
    yield found
    found.shutdown()


class Program:
    """The program, in a repository of its own."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.repository, self._spans = folder / "repository", folder / "spans.txt"
        self.repository.mkdir()
        make_repository(self.repository)
        (folder / "traced.py").write_text(TRACED, "utf-8")
        self.executable = [str(word) for word in scripted_agent(SCRIPT)]
        code, line = blocks()
        [before] = [each for each in code.splitlines() if "concurrency" in each]
        self._code = code.replace(before, line.rstrip())
        of_workers = {
            "KIMI_AGENT_EXECUTABLE": json.dumps(self.executable),
            "PYTHONPATH": str(folder),
            "SPANS": str(self._spans),
        }
        runtime = {"env_vars": of_workers, "worker_process_setup_hook": "traced.set_provider"}
        of_driver = {
            "RAY_ADDRESS": cluster.address,
            "RAY_JOB_CONFIG_JSON_ENV_VAR": json.dumps({"runtime_env": runtime}),
        }
        self._env = {**os.environ, "PYTHONPATH": str(folder), **of_driver}

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", self._code],
            cwd=self.repository,
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def spans(self) -> list[tuple[str, str]]:
        """The spans that have ended, each with the node of its worker."""
        lines = self._spans.read_text("utf-8").splitlines() if self._spans.exists() else []
        return [(node, name) for node, _, name in (line.partition(" ") for line in lines)]


def test_program_has_all_results(workers: Cluster, tmp_path: Path) -> None:
    program = Program(workers, tmp_path)
    for printed in (40, 80):
        running = program.start()
        assert running.stdout is not None
        first = [running.stdout.readline() for _ in range(printed)]
        running.kill()
        errors = running.communicate(timeout=DEADLINE)[1]
        assert all(" finished Report(" in line for line in first), errors
        assert printed <= len(journal(program.repository)) < JOBS
        assert waited(lambda: not agents(program.executable))
    before = len(program.spans())
    running = program.start()
    assert waited(lambda: len(program.spans()) > before or running.poll() is not None)
    nodes: dict[str, Any] = {node.node_id: node for node in workers.worker_nodes}
    workers.remove_node(nodes[program.spans()[before][0]], allow_graceful=False)
    assert len(journal(program.repository)) < JOBS
    out, errors = running.communicate(timeout=DEADLINE)
    assert running.returncode == 0, errors
    # Ray writes lines of its own, for example about the lost node.
    check_results(program.repository, [line for line in out.splitlines() if line.startswith("m")])
    assert [name for _, name in program.spans()].count(TURN) >= JOBS
    assert waited(lambda: not agents(program.executable))
    delete_locks(program.repository)
    check_left(program.repository)
    check_report(program.repository)
