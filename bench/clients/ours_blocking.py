"""This SDK, blocking."""

from __future__ import annotations

import sys

from measure import Measure

from kimi_agent import ApprovalRequest, sync, tool


def approve(request: ApprovalRequest) -> str:
    return "approve"


@tool
def look_up(item: str) -> str:
    """Looks an item up."""
    return "12"


with sync.create_session(executable=sys.argv[1], on_approval=approve, tools=[look_up]) as session:
    measure = Measure()
    events = 0
    for _ in session.prompt("go"):
        if not events:
            measure.first()
        events += 1
    measure.end(events)
