"""Recorded spans as trees, and recorded metrics, without values that differ from run to run."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["comparable", "names_of", "points"]

# Attributes that differ from run to run.
VARYING = {
    "gen_ai.conversation.id": "id",
    "gen_ai.agent.version": "version",
    "gen_ai.response.time_to_first_chunk": "seconds",
    "kimi_agent.approval.wait": "seconds",
}


def attributes(given: dict[str, Any]) -> dict[str, Any]:
    """Attributes in order, without values that vary."""
    return {name: VARYING.get(name, given[name]) for name in sorted(given)}


def tree(spans: list[dict[str, Any]], parent: object = None) -> list[dict[str, Any]]:
    """The spans below a parent, by their start."""
    found = sorted((span for span in spans if span["parent"] == parent), key=lambda span: int(span["start"]))
    return [
        {
            **{name: span[name] for name in ("name", "kind", "status", "message") if span[name]},
            "attributes": attributes(span["attributes"]),
            "events": [
                {"name": event["name"], "attributes": attributes(event["attributes"])} for event in span["events"]
            ],
            "children": tree(spans, span["id"]),
        }
        for span in found
    ]


def points(metrics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The values of metrics in order, without durations."""
    found = [
        {
            **metric,
            "attributes": attributes(metric["attributes"]),
            "sum": "seconds" if metric["unit"] == "s" else metric["sum"],
            "boundaries": [float(boundary) for boundary in metric["boundaries"]],
        }
        for metric in metrics
    ]
    return sorted(found, key=lambda metric: (metric["name"], json.dumps(metric["attributes"])))


def comparable(recorded: dict[str, Any]) -> dict[str, Any]:
    """The trees of the spans, and the metrics."""
    return {"spans": tree(recorded["spans"]), "metrics": points(recorded["metrics"])}


def names_of(spans: list[dict[str, Any]]) -> list[Any]:
    """The names of trees, each with those below it."""
    return [[span["name"], names_of(span["children"])] for span in spans]
