"""The batch, some of whose questions fail."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from conftest import DEADLINE, HERE, Environment

YES = [[{"text": "Yes."}]]
# For each start of an agent. The two that can succeed later are retried.
ANSWERS = [
    YES,
    [[{"error": {"code": -32003, "message": "the model is down"}}]],
    [[{"text": "I feel "}, {"exit": 3}]],
    [{"actions": [{"text": "On and on"}], "status": "max_steps_reached"}],
    {"before_handshake": [{"raw": "This program has moved."}, {"exit": 0}]},
    *[YES] * 6,
]


def test_batch_reports_failures_and_continues(agent: Callable[..., Environment], tmp_path: Path) -> None:
    questions = [f"question {at}" for at in range(6)]
    done = subprocess.run(
        [sys.executable, str(HERE / "batch.py"), str(tmp_path)], env=agent(*ANSWERS), input="\n".join(questions),
        capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    warning = "invalid line dropped reason=not a JSON object line=This program has moved.\n"
    assert (done.returncode, done.stderr) == (0, warning)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(answer["question"] for answer in answers) == questions
    assert sorted(answer.get("error", answer["text"]) for answer in answers) == [
        "On and on", "Yes.", "Yes.", "Yes.", "Yes.", "handshake_error",
    ]  # fmt: skip
