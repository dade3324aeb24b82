"""Writes docs/reference/telemetry.md from the names of spans, attributes, events and metrics in the core, and the example of
a trace from the scenarios that the tests play.

`--check` fails if the page is not up to date.
"""

# The texts are wrapped as pages are.
# ruff: noqa: E501

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from typing import Any

from catalog import ROOT, load_catalog

PAGE = ROOT / "docs" / "reference" / "telemetry.md"

TEXT = """\
# Spans and metrics

The option `telemetry` makes a session report these spans and metrics. [The guide](../guides/trace-with-opentelemetry.md) shows how to set it.

The names that begin with `gen_ai.` are those of the semantic conventions of OpenTelemetry for generative AI, in version 1.41.1. These
conventions are in development, so a release of the SDK can change names. The name of the instrumentation scope is `%(scope)s`, its schema
is `%(schema_url)s`.

## Spans

The name of a span is its operation and then the agent, the model or the tool, for example `execute_tool Shell`. Steps and tool calls are
children of their turn. Spans of a subagent are children of the tool call that started it.

%(spans)s

The span of a turn that fails has the status "error". The steps and tool calls that are open when the turn fails have this status too. A
turn that is cancelled or reaches its limit of steps is not an error. An open step of a cancelled turn is not an error, but a tool call
without result is an error.

## Attributes

%(attributes)s

The attributes with content are recorded only if the program or the environment allows content: %(content)s. A text above 256 KiB is cut.

## Events

%(events)s

## Metrics

%(metrics)s

A turn counts its tokens once, with those of its subagents. Durations are those of the spans.

## A trace

A program has the span `caller`, and sends a prompt. The agent asks before it runs `Shell`, and calls `add`, a tool of the program, which has the
span `work`. `id`, `version` and `seconds` stand for values. The tests compare this trace with those of all languages.

```text
%(trace)s
```
"""
# The scenario of the tests that is the example.
TRACED = ROOT / "tests" / "telemetry" / "expected.json"
SCENARIO = "approval"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def code(name: str) -> str:
    return f"`{name}`"


def named(items: list[dict[str, str]], where: str) -> str:
    rows = ((code(item["name"]), item["on"], item["description"]) for item in items)
    return table(("name", where, ""), rows)


def drawn(items: list[dict[str, Any]], indent: str = "") -> list[str]:
    """Draws spans, or the events of a span, as the branches of a tree."""
    lines = []
    for item in items:
        is_last = item is items[-1]
        deeper = indent + ("   " if is_last else "│  ")
        parts = [{**event, "name": f"event {event['name']}"} for event in item.get("events", ())]
        parts += item.get("children", ())
        lines.append(f"{indent}{'└─' if is_last else '├─'} {item['name']}")
        beside = deeper + ("│  " if parts else "   ")
        lines += [f"{beside}{name} = {shown(value)}" for name, value in item["attributes"].items()]
        lines += drawn(parts, deeper)
    return lines


def shown(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def trace() -> str:
    spans = json.loads(TRACED.read_text("utf-8"))[SCENARIO]["spans"]
    return "\n".join(drawn(spans))


def page(catalog: dict[str, Any]) -> str:
    spans = ((code(span["operation"]), span["kind"], span["description"]) for span in catalog["spans"])
    metrics = (
        (code(metric["name"]), metric["kind"], code(metric["unit"]), metric["description"])
        for metric in catalog["metrics"]
    )
    return TEXT % {
        "scope": catalog["scope"],
        "schema_url": catalog["schema_url"],
        "spans": table(("operation", "kind", ""), spans),
        "attributes": named(catalog["attributes"], "spans, events and metrics with it"),
        "content": ", ".join(map(code, catalog["content"])),
        "events": named(catalog["events"], "spans with it"),
        "metrics": table(("name", "instrument", "unit", ""), metrics),
        "trace": trace(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if the page is not up to date")
    check = parser.parse_args().check
    text = page(load_catalog("telemetry_catalog"))
    if not check:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print(f"{PAGE.relative_to(ROOT)} is not up to date: run python tools/generate_telemetry.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
