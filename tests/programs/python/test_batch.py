"""The batch, some of whose questions fail."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from conftest import DEADLINE, HERE, Environment

ANSWERS = [
    [[{"text": "Yes."}]],
    [[{"error": {"code": -32003, "message": "the model is down"}}]],
    [[{"text": "I feel "}, {"exit": 3}]],
    [{"actions": [{"text": "On and on"}], "status": "max_steps_reached"}],
    {"before_handshake": [{"raw": "This program has moved."}, {"exit": 0}]},
    [[{"text": "Yes."}]],
]


def test_batch_reports_failures_and_continues(agent: Callable[..., Environment], tmp_path: Path) -> None:
    questions = [f"question {at}" for at in range(len(ANSWERS))]
    done = subprocess.run(
        [sys.executable, str(HERE / "batch.py"), str(tmp_path)], env=agent(*ANSWERS), input="\n".join(questions),
        capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(answer["question"] for answer in answers) == questions
    assert sorted(answer.get("error", answer.get("text")) for answer in answers) == [
        "Yes.", "Yes.", "agent_exited", "handshake_error", "llm_service_error", "max_steps_reached",
    ]  # fmt: skip
