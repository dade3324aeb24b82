"""This SDK, blocking."""

from __future__ import annotations

import os
import sys
from typing import Any

from measure import Measure

from kimi_agent import ApprovalRequest, sync, tool


def approve(request: ApprovalRequest) -> str:
    return "approve"


@tool
def look_up(item: str) -> str:
    """Looks an item up."""
    return "12"


agent = sys.argv[1]
options: dict[str, Any] = {"executable": agent, "on_approval": approve, "tools": [look_up]}
if os.environ["BENCH_TASK"] == "acp":
    options = {"executable": [agent, "acp"], "dialect": "acp"}
with sync.create_session(**options) as session:
    measure = Measure()
    events = 0
    for _ in session.prompt("go"):
        if not events:
            measure.first()
        events += 1
    measure.end(events)
