"""`map_prompts` on a cluster of Ray."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import ray
from opentelemetry.sdk.trace import TracerProvider
from pydantic import BaseModel
from ray.cluster_utils import Cluster
from ray.exceptions import RayTaskError
from support import DEADLINE, Gate, agents, echo, waited

from kimi_agent import Output
from kimi_agent.ray import map_prompts
from kimi_agent.testing import scripted_agent

pytestmark = pytest.mark.usefixtures("cluster")


def questions(count: int) -> Any:
    return ray.data.from_items([{"id": number, "question": f"Question {number}"} for number in range(count)])


def by_id(dataset: Any) -> list[dict[str, Any]]:
    return sorted(dataset.take_all(), key=lambda row: row["id"])


def test_column_becomes_prompts() -> None:
    rows = by_id(map_prompts(questions(5), "question", output_column="answer", executable=echo()))
    assert [row["answer"] for row in rows] == [f"You said: Question {number}" for number in range(5)]
    assert [row["question"] for row in rows] == [f"Question {number}" for number in range(5)]
    nothing = {"input_other": 0, "output": 0, "input_cache_read": 0, "input_cache_creation": 0}
    assert {name: value for name, value in rows[0].items() if name.startswith("answer_")} == {
        "answer_status": "finished",
        "answer_usage": nothing,
        "answer_output": None,
        "answer_error": None,
        "answer_attempts": 1,
    }


def test_function_makes_jobs(tmp_path: Any) -> None:
    executable = scripted_agent([[{"text": "{{prompt}} in {{work_dir}}"}]])
    dataset = map_prompts(
        questions(2), lambda row: {"prompt": f"Job {row['id']}", "work_dir": str(tmp_path)}, executable=executable
    )
    assert [row["result"] for row in by_id(dataset)] == [f"Job {number} in {tmp_path}" for number in range(2)]


def test_existing_columns_are_replaced() -> None:
    dataset = ray.data.from_items([{"id": 1, "result": "old"}])
    mapped = map_prompts(dataset, lambda row: f"was {row['result']}", executable=echo())
    assert mapped.take_all()[0]["result"] == "You said: was old"


def test_output_is_json() -> None:
    class Count(BaseModel):
        files: int

    executable = scripted_agent([[{"text": '{"files": 3}'}]])
    rows = map_prompts(questions(1), "question", output=Output(Count, mode="text"), executable=executable).take_all()
    assert rows[0]["result_output"] == '{"files": 3}'


def test_error_becomes_column() -> None:
    executable = scripted_agent([[{"error": {"code": -32003, "message": "overloaded"}}]])
    rows = by_id(map_prompts(questions(2), "question", retry=2, on_error="column", executable=executable))
    assert [row["result"] for row in rows] == [None, None]
    assert [row["result_status"] for row in rows] == ["failed", "failed"]
    assert [row["result_attempts"] for row in rows] == [2, 2]
    error = rows[0]["result_error"]
    assert (error["code"], error["retryable"]) == ("llm_service_error", True)
    assert error["message"].startswith("overloaded")


def test_error_is_raised() -> None:
    executable = scripted_agent([[{"error": {"code": -32003, "message": "overloaded"}}]])
    with pytest.raises(RayTaskError, match="LlmServiceError: overloaded"):
        map_prompts(questions(2), "question", retry=1, executable=executable).take_all()


def test_missing_column_is_named() -> None:
    with pytest.raises(RayTaskError, match='no column "prompt"; there are "id", "question"'):
        map_prompts(questions(1), "prompt", executable=echo()).take_all()


def test_rows_share_tasks() -> None:
    dataset = map_prompts(questions(10), "question", rows_per_task=4, sessions=2, executable=echo())
    assert [row["result"] for row in by_id(dataset)] == [f"You said: Question {number}" for number in range(10)]


def test_killed_node_loses_no_row(cluster: Cluster, node: Any, gate: Gate) -> None:
    options = gate.options
    dataset = map_prompts(questions(30), "question", concurrency=3, sessions=4, **options)
    with ThreadPoolExecutor() as threads:
        running = threads.submit(by_id, dataset)
        try:
            assert waited(lambda: node.node_id in gate.nodes() or running.done())
            cluster.remove_node(node, allow_graceful=False)
        finally:
            gate.open()
        rows = running.result(DEADLINE)
    assert [row["id"] for row in rows] == list(range(30))
    assert all(row["result"] == f"You said: Question {row['id']}" for row in rows)
    assert waited(lambda: not agents(options["executable"]))


def test_prompts_have_spans(worker_spans: Path) -> None:
    with TracerProvider().get_tracer("program").start_as_current_span("caller") as caller:
        rows = by_id(map_prompts(questions(2), "question", executable=echo(), telemetry=True))
    assert len(rows) == 2
    context = caller.get_span_context()
    spans = [json.loads(line) for line in worker_spans.read_text("utf-8").splitlines()]
    turns = [span for span in spans if span["trace"] == context.trace_id and span["name"].startswith("invoke_agent")]
    assert [turn["parent"] for turn in turns] == [context.span_id] * 2
