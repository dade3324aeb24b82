"""`ActorPool` on a cluster of Ray."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster
from support import DEADLINE, Gate, agents, echo, eventually

from kimi_agent.ray import ActorPool
from kimi_agent.testing import scripted_agent

pytestmark = pytest.mark.usefixtures("cluster")


@asynccontextmanager
async def opened(pool: ActorPool, options: dict[str, Any]) -> AsyncIterator[ActorPool]:
    await pool.open(options)
    try:
        yield pool
    finally:
        await pool.close()


def request(number: int) -> dict[str, Any]:
    return {"key": f"job-{number}", "index": number, "attempt": 1, "job": {"prompt": f"Job {number}"}}


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, DEADLINE))


def texts(results: list[dict[str, Any]]) -> list[str]:
    assert [result["error"] for result in results] == [None] * len(results)
    return [result["result"]["text"] for result in results]


def test_jobs_run_on_actors() -> None:
    async def test() -> None:
        async with opened(ActorPool(2, sessions=2), {"executable": echo()}) as pool:
            results = await asyncio.gather(*(pool.run_job(request(number)) for number in range(4)))
        assert texts(results) == [f"You said: Job {number}" for number in range(4)]
        assert [result["status"] for result in results] == ["finished"] * 4

    run(test())


def test_error_is_a_result() -> None:
    executable = scripted_agent([[{"error": {"code": -32003, "message": "overloaded"}}]])

    async def test() -> None:
        async with opened(ActorPool(1), {"executable": executable}) as pool:
            result = await pool.run_job(request(0))
        error = result["error"]
        assert (result["status"], result["result"]) == ("failed", None)
        assert (error["code"], error["retryable"]) == ("llm_service_error", True)
        assert error["message"].startswith("overloaded")

    run(test())


def test_pool_follows_its_load(gate: Gate) -> None:
    async def test() -> None:
        pool = ActorPool((1, 3), sessions=1)
        assert pool.concurrency == 3
        async with opened(pool, gate.options):
            jobs = [asyncio.ensure_future(pool.run_job(request(number))) for number in range(3)]
            assert await eventually(lambda: len(gate.actors()) == 3)
            gate.open()
            await asyncio.gather(*jobs)
            assert len(pool._actors) == 1

    run(test())


def test_cancelled_job_ends(gate: Gate) -> None:
    options = gate.options

    async def test() -> None:
        async with opened(ActorPool(1), options) as pool:
            job = asyncio.ensure_future(pool.run_job(request(0)))
            assert await eventually(lambda: len(gate.nodes()) == 1)
            job.cancel()
            assert await eventually(lambda: not agents(options["executable"]))

    run(test())


def test_actor_without_environment_fails_its_jobs() -> None:
    async def test() -> None:
        # The nodes find out that the file is missing.
        environment = {"working_dir": "file:///no/such.zip"}
        async with opened(ActorPool(1, actor_options={"runtime_env": environment}), {"executable": echo()}) as pool:
            result = await pool.run_job(request(0))
        error = result["error"]
        assert (result["status"], error["code"], error["retryable"]) == ("failed", "agent_exited", True)
        assert "/no/such.zip" in error["message"]

    run(test())


def test_lost_actor_is_started_again(gate: Gate) -> None:
    async def test() -> None:
        async with opened(ActorPool(1), gate.options) as pool:
            job = asyncio.ensure_future(pool.run_job(request(0)))
            assert await eventually(lambda: len(gate.nodes()) == 1)
            ray.kill(pool._actors[0].handle, no_restart=False)
            assert await eventually(lambda: len(gate.actors()) == 2)
            gate.open()
            assert texts([await job]) == ["You said: Job 0"]

    run(test())


def test_lost_actor_without_machine(cluster: Cluster, gate: Gate) -> None:
    options = gate.options
    nodes = [cluster.add_node(num_cpus=1, resources={"place": 1}) for _ in range(2)]

    async def test() -> None:
        pool = ActorPool(2, sessions=2, actor_options={"num_cpus": 0, "resources": {"place": 1}})
        async with opened(pool, options):
            jobs = [asyncio.ensure_future(pool.run_job(request(number))) for number in range(6)]
            assert await eventually(lambda: set(gate.nodes()) == {node.node_id for node in nodes})
            await asyncio.to_thread(cluster.remove_node, nodes.pop(), False)
            gate.open()
            assert texts(await asyncio.gather(*jobs)) == [f"You said: Job {number}" for number in range(6)]
        assert await eventually(lambda: not agents(options["executable"]))

    try:
        run(test())
    finally:
        for node in nodes:
            cluster.remove_node(node)


def test_killed_node_loses_no_job(cluster: Cluster, node: Any, gate: Gate) -> None:
    options = gate.options

    async def test() -> None:
        async with opened(ActorPool(3, sessions=10), options) as pool:
            jobs = [asyncio.ensure_future(pool.run_job(request(number))) for number in range(30)]
            assert await eventually(lambda: node.node_id in gate.nodes())
            await asyncio.to_thread(cluster.remove_node, node, False)
            gate.open()
            results = await asyncio.gather(*jobs)
        assert texts(results) == [f"You said: Job {number}" for number in range(30)]
        assert await eventually(lambda: not agents(options["executable"]))

    run(test())
