"""`run_batch(…, on=ActorPool(…))` on a cluster of Ray."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from ray.cluster_utils import Cluster
from support import DEADLINE, Gate, agents, echo, eventually

from kimi_agent import InvalidOption, JobResult, run_batch
from kimi_agent.ray import ActorPool

pytestmark = pytest.mark.usefixtures("cluster")


def prompts(count: int) -> list[str]:
    return [f"Job {number}" for number in range(count)]


def keys_in(journal: Path) -> Counter[str]:
    lines = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
    return Counter(line["key"] for line in lines[1:])


def test_killed_node_loses_no_job(cluster: Cluster, node: Any, gate: Gate, tmp_path: Path) -> None:
    options: dict[str, Any] = {**gate.options, "journal": tmp_path / "batch.jsonl"}

    async def read() -> list[JobResult[Any]]:
        return [result async for result in run_batch(prompts(30), on=ActorPool(3, sessions=4), **options)]

    async def test() -> None:
        reading = asyncio.ensure_future(read())
        assert await eventually(lambda: node.node_id in gate.nodes())
        await asyncio.to_thread(cluster.remove_node, node, False)
        gate.open()
        results = await reading
        assert sorted(result.index for result in results) == list(range(30))
        assert all(result.text == f"You said: Job {result.index}" for result in results)
        assert keys_in(options["journal"]) == Counter({result.key: 1 for result in results})
        assert await eventually(lambda: not agents(options["executable"]))
        # The same call again runs nothing.
        assert [result.from_journal for result in await read()] == [True] * 30

    asyncio.run(asyncio.wait_for(test(), DEADLINE))


def test_cancelled_batch_leaves_nothing(gate: Gate) -> None:
    options = gate.options

    async def test() -> None:
        batch = run_batch(prompts(8), on=ActorPool(1, sessions=4), **options)
        assert await eventually(lambda: len(gate.nodes()) == 4)
        await batch.cancel()
        assert [result.status async for result in batch] == ["cancelled"] * 4
        assert await eventually(lambda: not agents(options["executable"]))

    asyncio.run(asyncio.wait_for(test(), DEADLINE))


def test_jobs_have_spans(worker_spans: Path) -> None:
    tracer = TracerProvider().get_tracer("program")

    async def test() -> None:
        with tracer.start_as_current_span("caller") as caller:
            batch = run_batch(prompts(3), on=ActorPool(2, sessions=2), executable=echo(), telemetry=True)
            assert {result.status async for result in batch} == {"finished"}
        context = caller.get_span_context()
        spans = [json.loads(line) for line in worker_spans.read_text("utf-8").splitlines()]
        # Other tests have spans, too.
        of_trace = [span for span in spans if span["trace"] == context.trace_id]
        turns = [span for span in of_trace if span["name"].startswith("invoke_agent")]
        assert [turn["parent"] for turn in turns] == [context.span_id] * 3

    asyncio.run(asyncio.wait_for(test(), DEADLINE))


def test_pool_serves_one_batch(gate: Gate) -> None:
    async def test() -> None:
        pool = ActorPool(1, sessions=1)
        async with run_batch(prompts(1), on=pool, **gate.options) as first:
            assert await eventually(lambda: len(gate.nodes()) == 1)
            [result] = [result async for result in run_batch(["b"], on=pool, executable=echo())]
            with pytest.raises(InvalidOption, match="another batch uses this pool"):
                result.raise_for_status()
            gate.open()
            assert [result.status async for result in first] == ["finished"]
        [result] = [result async for result in run_batch(["b"], on=pool, executable=echo())]
        assert result.text == "You said: b"

    asyncio.run(asyncio.wait_for(test(), DEADLINE))
