"""Batches whose jobs another program runs: the option `on` of `run_batch`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support import HANGING, children, eventually

import kimi_agent.ray
from kimi_agent import BudgetExceeded, InvalidOption, KimiAgentError, Retry, _batch, run_batch, sync
from kimi_agent.ray import _actors
from kimi_agent.ray._worker import Worker
from kimi_agent.testing import scripted_agent


class LocalRunner:
    """Runs the jobs in this process, as an actor does."""

    concurrency = 2

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.options: Mapping[str, Any] | None = None
        self.is_closed = False
        self._worker: Worker | None = None

    async def open(self, options: Mapping[str, Any], /) -> None:
        self.options = options
        self._worker = Worker(options, 2, 1)

    async def run_job(self, request: dict[str, Any], /) -> dict[str, Any]:
        assert self._worker is not None
        self.requests.append(request)
        return (await self._worker.run(request["job"])).to_dict()

    async def close(self) -> None:
        self.is_closed = True
        if self._worker is not None:
            await self._worker.close()


class FailingRunner(LocalRunner):
    async def run_job(self, request: dict[str, Any], /) -> dict[str, Any]:
        raise RuntimeError("no machine is left")


def echo() -> list[str]:
    return scripted_agent([[{"text": "You said: {{prompt}}"}]])


def refused() -> list[str]:
    return scripted_agent([[{"error": {"code": -32003, "message": "overloaded"}}]])


async def test_runner_runs_jobs() -> None:
    runner = LocalRunner()
    jobs: list[Any] = [{"prompt": "a", "key": "k", "data": 1, "model": "m", "work_dir": "."}, "b"]
    options: dict[str, Any] = {"executable": echo(), "keep_failed": True, "work_dir": Path()}
    results = [result async for result in run_batch(jobs, on=runner, **options)]
    assert {result.index: result.text for result in results} == {0: "You said: a", 1: "You said: b"}
    first = min(results, key=lambda result: result.index)
    assert (first.key, first.data, first.attempts) == ("k", 1, 1)
    request = next(request for request in runner.requests if request["key"] == "k")
    job = {"prompt": "a", "model": "m", "work_dir": str(Path.cwd())}
    assert request == {"key": "k", "attempt": 1, "job": job}
    assert runner.options == {**options, "work_dir": str(Path.cwd())}
    assert runner.is_closed


async def test_remote_error_is_retried() -> None:
    runner = LocalRunner()
    retry = Retry(attempts=3, initial_delay=0.001)
    results = [result async for result in run_batch(["a"], on=runner, retry=retry, executable=refused())]
    assert (results[0].status, results[0].attempts, len(runner.requests)) == ("failed", 3, 3)
    error = results[0].error
    assert error is not None
    assert (error.code, error.retryable, str(error)) == ("llm_service_error", True, "overloaded (-32003)")


async def test_remote_error_has_partial_result() -> None:
    agent = scripted_agent([[{"text": "half"}, {"usage": {"input_other": 50, "output": 50}}, {"wait_cancel": True}]])
    batch = run_batch(["a"], on=LocalRunner(), executable=agent, session_budget={"tokens": 10})
    [result] = [result async for result in batch]
    assert isinstance(result.error, BudgetExceeded)
    assert result.error.result.text == "half"


async def test_failing_runner_fails_jobs() -> None:
    results = [result async for result in run_batch(["a"], on=FailingRunner(), executable=echo())]
    assert (results[0].status, results[0].attempts) == ("failed", 1)
    with pytest.raises(InvalidOption, match="`on`: it failed to run a job: RuntimeError: no machine is left"):
        results[0].raise_for_status()


async def test_runner_has_journal(tmp_path: Path) -> None:
    journal = tmp_path / "batch.jsonl"
    for runs in (3, 0):
        runner = LocalRunner()
        batch = run_batch(["a", "b", "c"], on=runner, journal=journal, executable=echo())
        results = [result async for result in batch]
        assert sorted(result.text for result in results) == [f"You said: {prompt}" for prompt in "abc"]
        assert [result.from_journal for result in results] == [runs == 0] * 3
        assert len(runner.requests) == runs
    assert len([json.loads(line) for line in journal.read_text("utf-8").splitlines()]) == 4


async def test_cancel_reaches_runner() -> None:
    runner, before = LocalRunner(), children()
    batch = run_batch(["a", "b", "c"], on=runner, executable=scripted_agent([HANGING]))
    assert await eventually(lambda: len(children() - before) == 2)
    await batch.cancel()
    assert await eventually(lambda: children() == before)
    assert [result.status async for result in batch] == ["cancelled"] * 2
    assert runner.is_closed


async def test_runner_gets_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.toml").write_text('deny = ["execute(rm *)"]\n', "utf-8")
    (tmp_path / "agent").symlink_to(sys.executable)
    for name in ("config.toml", "spec.yaml"):
        (tmp_path / name).touch()
    (tmp_path / "skills").mkdir()
    script = echo()
    options: dict[str, Any] = {
        "policy": "policy.toml",
        "record": "runs",
        "config_file": "config.toml",
        "agent_file": Path("spec.yaml"),
        "skills_dir": "skills",
        "executable": [os.path.join(".", "agent"), *script[1:]],
    }
    runner = LocalRunner()
    job = {"prompt": "a", "policy": "policy.toml", "executable": script[0]}
    results = [result async for result in run_batch([job, "b"], on=runner, **options)]
    assert len(results) == 2
    assert runner.options is not None
    policy = runner.options["policy"]
    assert policy["deny"] == ["execute(rm *)"]
    expected = {name: str(tmp_path / options[name]) for name in ("record", "config_file", "agent_file", "skills_dir")}
    assert {name: runner.options[name] for name in expected} == expected
    assert runner.options["executable"] == [str(tmp_path / "agent"), *script[1:]]
    [request] = [request for request in runner.requests if request["job"]["prompt"] == "a"]
    assert request["job"] == {"prompt": "a", "policy": policy, "executable": script[0]}


async def test_program_on_path_stays_a_name() -> None:
    runner = LocalRunner()
    [result] = [result async for result in run_batch(["a"], on=runner, executable="no-such-agent", retry=1)]
    assert result.status == "failed"
    assert runner.options == {"executable": "no-such-agent"}


async def test_wrong_policy_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"missing\.toml"):
        run_batch(["a"], on=LocalRunner(), executable=echo(), policy="missing.toml")


async def test_module_is_a_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    # Ray itself is not needed.
    monkeypatch.setattr(_actors, "pool_for", lambda concurrency: LocalRunner())
    for on in ("ray", kimi_agent.ray):
        [result] = [result async for result in run_batch(["a"], on=on, executable=echo())]
        assert result.text == "You said: a"


@pytest.mark.parametrize("runner", ["kubernetes", 5, json, LocalRunner.run_job])
async def test_wrong_runner_is_refused(runner: Any) -> None:
    with pytest.raises(InvalidOption, match='`on`: expected "ray" or a runner'):
        run_batch(["a"], on=runner)


async def test_wrong_option_ends_batch() -> None:
    runner = LocalRunner()
    with pytest.raises(KimiAgentError, match="`max_steps_per_turn`"):
        run_batch(["a"], on=runner, max_steps_per_turn=0)
    await asyncio.sleep(0)
    assert runner.options is None


async def test_runner_gets_telemetry() -> None:
    runner = LocalRunner()
    results = [result async for result in run_batch(["a"], on=runner, executable=echo(), telemetry=True)]
    assert [result.status for result in results] == ["finished"]
    assert runner.options is not None
    assert runner.options["telemetry"] is True


async def test_dropped_batch_closes_runner() -> None:
    runner, before = LocalRunner(), children()
    batch = run_batch(["a"], on=runner, executable=scripted_agent([HANGING]))
    assert await eventually(lambda: len(children() - before) == 1)
    del batch
    assert await eventually(lambda: runner.is_closed and children() == before)


async def test_runner_closes_after_cancelled_wait() -> None:
    closing, released = asyncio.Event(), asyncio.Event()

    class SlowRunner(LocalRunner):
        async def close(self) -> None:
            closing.set()
            await released.wait()
            await super().close()

    runner = SlowRunner()
    batch = run_batch(["a"], on=runner, executable=echo())
    assert (await anext(batch)).status == "finished"
    reading = asyncio.ensure_future(anext(batch))
    await closing.wait()
    reading.cancel()
    released.set()
    assert [result async for result in batch] == []
    assert runner.is_closed


async def test_runner_closes_after_cancelled_generator() -> None:
    async def jobs() -> AsyncIterator[str]:
        try:
            yield "a"
            yield "b"
        finally:
            raise asyncio.CancelledError

    runner, before = LocalRunner(), children()
    batch = run_batch(jobs(), on=runner, concurrency=1, executable=scripted_agent([HANGING]))
    assert await eventually(lambda: len(children() - before) == 1)
    await batch.cancel()
    assert runner.is_closed


async def test_runner_closes_although_generator_runs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_batch, "_SOURCE_GRACE", 0.05)
    released = asyncio.Event()
    closed: list[bool] = []

    async def jobs() -> AsyncIterator[str]:
        try:
            yield "a"
            while not released.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await released.wait()
            yield "b"
        finally:
            closed.append(True)

    runner, before = LocalRunner(), children()
    batch = run_batch(jobs(), on=runner, executable=scripted_agent([HANGING]))
    assert await eventually(lambda: len(children() - before) == 1)
    await batch.cancel()
    assert (runner.is_closed, closed) == (True, [])
    assert "the iterable of the jobs did not end within 0.05 seconds" in caplog.text
    # It is closed when it yields.
    released.set()
    assert await eventually(lambda: closed == [True])


async def test_runner_closes_although_generator_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_batch, "_SOURCE_GRACE", 0.05)
    released = threading.Event()

    def jobs() -> Iterator[str]:
        try:
            yield "a"
            yield "b"
        finally:
            released.wait()

    runner, before = LocalRunner(), children()
    batch = run_batch(jobs(), on=runner, concurrency=1, executable=scripted_agent([HANGING]))
    assert await eventually(lambda: len(children() - before) == 1)
    await batch.cancel()
    released.set()
    assert runner.is_closed


async def test_worker_survives_wrong_job() -> None:
    worker = Worker({"executable": echo()}, 2, 1)
    found = [await worker.run({"prompt": prompt}) for prompt in ("a", None, "b")]
    assert [result.status for result in found] == ["finished", "failed", "finished"]
    await worker.close()


async def test_failed_worker_settles_jobs() -> None:
    worker = Worker({"executable": echo(), "on_progress": 5}, 2, 1)
    with pytest.raises(InvalidOption):
        await worker.run({"prompt": "a"})
    worker = Worker({"executable": scripted_agent([HANGING])}, 2, 1)
    waiting = [asyncio.ensure_future(worker.run({"prompt": prompt})) for prompt in ("a", 5)]
    # Not a job, which ends the batch of the worker.
    assert await eventually(lambda: worker._batch is not None)
    worker._jobs.put_nowait(5)  # type: ignore[arg-type]
    assert (await waiting[1]).status == "failed"
    await worker.close()
    assert (await waiting[0]).status == "cancelled"


def test_blocking_batch_has_runner() -> None:
    with sync.run_batch(["a"], on=LocalRunner(), executable=echo()) as batch:
        assert [result.text for result in batch] == ["You said: a"]
