"""`ToolContext` as a parameter of a tool, and the progress that it reports."""

from __future__ import annotations

import asyncio
import functools
import math
from typing import Any

import pytest
from test_tool import call

from kimi_agent import ToolContext, tool

pytestmark = pytest.mark.interpreter


def test_tool_context_is_not_in_schema() -> None:
    @tool
    def build(target: str, context: ToolContext) -> str:
        """Builds a target."""
        context.progress(0.5, target)
        return f"{target} {context.call_id}"

    @tool
    async def build_later(context: ToolContext | None = None, *, target: str) -> str:
        """Builds a target."""
        return f"{target} {context}"

    class Builder:
        @tool
        def build(self, context: "ToolContext", target: str) -> str:  # noqa: UP037
            """Builds a target."""
            return f"{target} {context.call_id}"

    for made in (build, build_later, Builder().build, tool(functools.partial(build.__wrapped__), name="partial")):
        assert list(made.parameters["properties"]) == ["target"]
        assert made.parameters["required"] == ["target"]
    context = ToolContext("c1")
    assert build.handler({"target": "docs"}, context) == "docs c1"
    assert call(build, target="docs") == build("docs", ToolContext()) == "docs "
    assert asyncio.run(build_later.handler({"target": "docs"}, context)) == "docs ToolContext('c1')"
    assert Builder().build.handler({"target": "docs"}, context) == "docs c1"


def test_positional_only_tool_context_is_refused() -> None:
    def build(context: ToolContext, /, target: str) -> str:
        return target

    with pytest.raises(TypeError, match="parameter 'context': a ToolContext cannot be positional-only"):
        tool(build)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("half",), "fraction: expected a number from 0 to 1 or None, got 'half'"),
        ((True,), "fraction: expected a number from 0 to 1 or None, got True"),
        ((0.5, 7), "message: expected text or None, got 7"),
    ],
)
def test_wrong_progress_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        ToolContext().progress(*arguments)


@pytest.mark.parametrize(
    ("given", "reported"), [(0, 0.0), (0.25, 0.25), (10**400, 1.0), (-math.inf, 0.0), (None, None)]
)
def test_progress_is_clamped(given: Any, reported: Any) -> None:
    context, reports = ToolContext(), []
    context._report = lambda fraction, message: reports.append((fraction, message))
    context.progress(given, "text")
    assert reports == [(reported, "text")]
