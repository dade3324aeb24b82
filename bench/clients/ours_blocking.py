"""This SDK, blocking."""

from __future__ import annotations

import os
import sys
from typing import Any

from measure import Measure

from kimi_agent import ApprovalRequest, ExternalTool, sync


def approve(request: ApprovalRequest) -> str:
    return "approve"


# Not `@tool`: its pydantic would be most of what a start costs, and the rivals do without.
PARAMETERS = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
LOOK_UP = ExternalTool("look_up", "Looks an item up.", PARAMETERS, lambda arguments: "12")

agent = sys.argv[1]
options: dict[str, Any] = {"executable": agent, "on_approval": approve, "tools": [LOOK_UP]}
if os.environ["BENCH_TASK"] == "acp":
    options = {"executable": [agent, "acp"], "dialect": "acp"}
if os.environ["BENCH_TASK"] == "server":
    options = {"executable": [agent], "dialect": "kimi-web", "on_approval": approve}
with sync.create_session(**options) as session:
    measure = Measure()
    events = 0
    for _ in session.prompt("go"):
        if not events:
            measure.first()
        events += 1
    measure.end(events)
