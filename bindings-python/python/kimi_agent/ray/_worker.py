"""Runs jobs in the process of an actor: a batch that takes its jobs from a queue. Nothing here needs Ray."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import contextmanager
from typing import Any

from .._batch import Batch, run_batch
from .._encode import to_jsonable
from .._errors import KimiAgentError, SessionClosed
from .._job import JobResult, Retry

__all__ = ["Worker", "failure", "flush_telemetry", "trace_context"]


class Worker:
    """Runs jobs, at most `sessions` at once. They share an agent, as the jobs of a batch do.

    Args:
        options: The options of `run_batch`.
        sessions: The largest number of jobs that run at the same time.
        retry: The attempts of a job.
        trace: The context of the span that is the parent of all jobs, as `trace_context` returns it.
    """

    def __init__(
        self, options: Mapping[str, Any], sessions: int, retry: int | Retry, trace: Mapping[str, str] | None = None
    ) -> None:
        self._options: Any = {**options, "concurrency": sessions, "retry": retry}
        self._trace = trace
        self._jobs: asyncio.Queue[Mapping[str, Any] | None] = asyncio.Queue()
        # By the position of the job in the batch.
        self._waiting: dict[int, asyncio.Future[JobResult[Any]]] = {}
        self._count = 0
        self._batch: Batch[Any] | None = None
        self._reading: asyncio.Task[None] | None = None
        # The error of later jobs, after the batch has ended.
        self._failure: Exception = SessionClosed("the jobs of this actor were cancelled; run the batch again")

    async def run(self, job: Mapping[str, Any], key: str | None = None) -> JobResult[Any]:
        """Runs a job, and returns its result. Cancelling the wait for it cancels all jobs of this worker.

        Args:
            job: `prompt`, and if needed `work_dir`, `timeout`, `budget` and options of the session.
            key: The key of the job, which its branch is named after. Each job of a worker has a different key. Default:
                a hash of the job.

        Raises:
            InvalidOption: An option of all jobs is wrong.
            SpawnError: The agent cannot start. All later calls raise it, too.
            SessionClosed: The jobs of this worker were cancelled.
        """
        if self._batch is None:
            with _in_trace(self._trace):
                batch: Batch[Any] = run_batch(self._take(), **self._options)
            self._batch, self._reading = batch, asyncio.create_task(self._read(batch))
        elif self._reading is None or self._reading.done():
            raise self._failure
        future: asyncio.Future[JobResult[Any]] = asyncio.get_running_loop().create_future()
        self._waiting[self._count] = future
        self._count += 1
        # Rows of a dataset may have equal keys, so only the parameter counts.
        self._jobs.put_nowait({**{name: value for name, value in job.items() if name != "data"}, "key": key})
        try:
            return await future
        except asyncio.CancelledError:
            await self.close()
            raise

    async def _take(self) -> AsyncGenerator[Mapping[str, Any], None]:
        while (job := await self._jobs.get()) is not None:
            yield job

    async def _read(self, batch: Batch[Any]) -> None:
        try:
            async for result in batch:
                future = self._waiting.pop(result.index)
                if not future.done():
                    future.set_result(result)
        except Exception as error:
            self._failure = error
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(self._failure)

    async def close(self) -> None:
        """Cancels the jobs that run, and closes the agent with its sessions."""
        if self._batch is not None and self._reading is not None:
            await self._batch.cancel()
            await self._reading
            if self._options.get("telemetry"):
                flush_telemetry()


def trace_context(telemetry: Any) -> dict[str, str] | None:
    """Returns the context of the present span, for another machine. None if the option `telemetry` is off."""
    if not telemetry:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    trace: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(trace)
    return trace


@contextmanager
def _in_trace(trace: Mapping[str, str] | None) -> Generator[None]:
    """Makes the span of another machine the present one."""
    if not trace:
        yield
        return
    from opentelemetry import context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    token = context.attach(TraceContextTextMapPropagator().extract(trace))
    try:
        yield
    finally:
        context.detach(token)


def flush_telemetry() -> None:
    """Exports the spans and metrics that wait, because Ray kills the process of an actor."""
    from opentelemetry import metrics, trace

    for provider in (trace.get_tracer_provider(), metrics.get_meter_provider()):
        flush = getattr(provider, "force_flush", None)
        if flush is not None:
            flush()


def failure(error: KimiAgentError) -> dict[str, Any]:
    """Returns the result of an attempt that failed, as JSON."""
    told = {"code": error.code, "message": str(*error.args), "retryable": error.retryable}
    fields = {name: to_jsonable(getattr(error, name)) for name in error._attributes if name != "result"}
    return {"status": "failed", "result": None, "error": {**fields, **told}, "usage": None, "attempts": 1}
