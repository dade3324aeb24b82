#!/usr/bin/env python3
"""Shows that a batch retries what a real agent reports of an overloaded model, and gives up without retries.

    tests/foreign/agents/batch.py
    tests/foreign/agents/batch.py --agents codex-acp

Each agent runs two batches. The scripted model on loopback answers its first request with an error.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents import AGENTS, Agent
from harness import real, usage
from real.model import ScriptedModel

from kimi_agent import JobResult, LlmServiceError, Retry, run_batch

SECONDS = 120
ANSWER = "Hello"


@dataclass(frozen=True)
class Overload:
    """The first answer of the model, and the variables that keep an agent from retrying by itself."""

    status: int
    env: dict[str, str] = field(default_factory=dict)


OVERLOADS = {
    "codex-acp": Overload(429),
    "claude-agent-acp": Overload(529, {"CLAUDE_CODE_MAX_RETRIES": "0"}),
}


def say(text: str) -> None:
    print(f"batch: {text}", flush=True)


async def played(agent: Agent, words: list[str], folder: Path, retry: Retry) -> tuple[JobResult, int]:
    """The result of a batch of one job, and the number of requests that the model got."""
    overload = OVERLOADS[agent.name]
    replies = [{"status": overload.status, "message": "Too many requests"}, {"text": ANSWER}]
    work = folder / "work"
    work.mkdir(parents=True)
    with ScriptedModel(replies) as model:
        options: dict[str, Any] = {
            "executable": program(agent, words, folder),
            "env": {**agent.env(folder / "home", model.base_url, True), **overload.env},
            "work_dir": work,
            "handshake_timeout": real.HANDSHAKE_SECONDS,
            "turn_timeout": SECONDS,
        }
        [result] = [found async for found in run_batch(["Say hello"], retry=retry, concurrency=1, **options)]
        return result, len(model.requests)


def program(agent: Agent, words: list[str], folder: Path) -> str:
    """The value of `executable`: a program with the agent's name, which the SDK knows how to start."""
    path = folder / "bin" / agent.program
    path.parent.mkdir(parents=True)
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', "utf-8")
    path.chmod(0o755)
    return str(path)


async def problems(agent: Agent, words: list[str], folder: Path) -> list[str]:
    """The mistakes in the batches of an agent."""
    found = []
    failed, requests = await played(agent, words, folder / "once", Retry(attempts=1))
    error = failed.error
    if not isinstance(error, LlmServiceError) or not error.retryable or failed.attempts != 1:
        found.append(f"without retries: {failed.status}, {failed.attempts} attempts, {requests} requests, {error!r}")
    retried, requests = await played(agent, words, folder / "retried", Retry(attempts=3, initial_delay=0.01))
    if (retried.status, retried.text, retried.attempts) != ("finished", ANSWER, 2):
        found.append(
            f"with retries: {retried.status}, {retried.attempts} attempts, {requests} requests, {retried.text!r}, "
            f"{retried.error!r}"
        )
    return found


def main() -> int:
    """Plays the batches; 1 if an agent's is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", default="", help="names of agents; left out, all of them")
    chosen = parser.parse_args()
    names = usage.chosen("batch", "--agents", chosen.agents, OVERLOADS) if chosen.agents else list(OVERLOADS)
    usage.needs("batch", "npm", "node")
    wrong = 0
    for name in names:
        agent = AGENTS[name]
        with tempfile.TemporaryDirectory(prefix="batch-") as folder:
            found = asyncio.run(problems(agent, agent.launch(say), Path(folder).resolve()))
        wrong += bool(found)
        print(f"{'FAIL' if found else 'pass'}  {name} {agent.version} ({OVERLOADS[name].status})")
        for problem in found:
            print(f"  {problem}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
