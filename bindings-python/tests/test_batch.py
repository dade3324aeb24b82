"""Batches: `run_batch` for coroutines, and the same in `kimi_agent.sync`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import select
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import pydantic
import pytest
from support import DEADLINE, HANGING, LOOKUP, children, eventually, gone, program
from typing_extensions import assert_type

import kimi_agent
from kimi_agent import (
    Batch,
    InvalidOption,
    Job,
    JobResult,
    KimiAgentError,
    LlmServiceError,
    Progress,
    Retry,
    Sandbox,
    Timeout,
    TurnCancelled,
    run_batch,
    tool,
)
from kimi_agent._loop import current_mailbox
from kimi_agent.testing import scripted_agent

ECHO: list[Any] = [[{"text": "{{prompt}}!"}]]
FAILING: list[Any] = [[{"error": {"code": -32003, "message": "overloaded"}}]]
REVIEW: list[Any] = [
    [{"external_tool": {"id": "t1", "name": "final_result", "arguments": {"approved": True}}}, {"text": "Done"}]
]


class Review(pydantic.BaseModel):
    approved: bool


def agent(turns: list[Any] = ECHO) -> Any:
    return scripted_agent(turns)


async def results(batch: Batch[Any]) -> list[JobResult[Any]]:
    return [result async for result in batch]


def texts(found: list[JobResult[Any]]) -> list[str]:
    return [result.text for result in sorted(found, key=lambda result: result.index)]


async def test_jobs_of_all_kinds_run() -> None:
    jobs: list[Any] = ["a", {"prompt": "b", "key": "k", "data": [1]}, Job("c", timeout=60, data={"n": 1}, model="m")]
    found = await results(run_batch(jobs, executable=agent(), concurrency=2))
    assert texts(found) == ["a!", "b!", "c!"]
    by_index = {result.index: result for result in found}
    assert by_index[1].key == "k"
    assert by_index[1].data == [1]
    assert by_index[2].data == {"n": 1}
    assert {result.status for result in found} == {"finished"}
    assert by_index[0].to_dict()["result"]["text"] == "a!"
    assert all(result.attempts == 1 and not result.from_journal and result.duration > 0 for result in found)


async def test_content_is_a_prompt() -> None:
    parts = kimi_agent.TextPart(text="a")
    jobs: list[Any] = [{"prompt": [parts, "b"]}, Job(parts)]
    found = await results(run_batch(jobs, executable=agent(), concurrency=1))
    assert found[0].prompt == [kimi_agent.TextPart(text="a"), kimi_agent.TextPart(text="b")]
    assert found[1].text == "a!"


async def test_jobs_are_pulled_lazily() -> None:
    pulled = []

    def endless() -> Iterator[str]:
        for n in range(10**9):
            pulled.append(n)
            yield str(n)

    async with run_batch(endless(), executable=agent(), concurrency=2) as batch:
        for _ in range(5):
            await anext(batch)
    # The sum: five results that were read, at most four that wait, two jobs that run, and one job more.
    assert len(pulled) <= 5 + 3 * 2 + 1


async def test_async_iterable_is_a_source() -> None:
    gate = asyncio.Event()

    async def jobs() -> AsyncIterator[str]:
        yield "a"
        await gate.wait()
        yield "b"

    batch = run_batch(jobs(), executable=agent())
    assert (await anext(batch)).text == "a!"
    gate.set()
    assert texts(await results(batch)) == ["b!"]


async def test_results_come_as_jobs_end() -> None:
    first_read = asyncio.Event()

    async def approve(request: kimi_agent.ApprovalRequest) -> Any:
        await first_read.wait()
        return "approve"

    turns = [[{"tool_call": {"name": "Shell", "approve": {"description": "Run"}}}, {"text": "slow!"}]]
    slow = {"prompt": "slow", "executable": list(agent(turns))}
    batch = run_batch([slow, "fast"], executable=agent(), concurrency=2, on_approval=approve)
    first = await anext(batch)
    first_read.set()
    assert (first.index, first.text) == (1, "fast!")
    assert [(result.index, result.text) for result in await results(batch)] == [(0, "slow!")]


async def test_job_has_a_timeout() -> None:
    slow = {"prompt": "slow", "executable": list(agent([HANGING])), "timeout": 0.2}
    found = await results(run_batch([slow, "fast"], executable=agent(), retry=1))
    by_index = {result.index: result for result in found}
    assert isinstance(by_index[0].error, Timeout)
    assert by_index[1].text == "fast!"


async def test_failed_job_has_error() -> None:
    found = await results(run_batch(["a"], executable=agent(FAILING), retry=Retry(attempts=3, initial_delay=0.001)))
    assert found[0].status == "failed"
    assert found[0].attempts == 3
    assert isinstance(found[0].error, LlmServiceError)
    assert found[0].error.retryable
    assert found[0].to_dict()["error"]["code"] == "llm_service_error"
    with pytest.raises(LlmServiceError):
        found[0].raise_for_status()


async def test_wrong_job_is_not_retried() -> None:
    found = await results(run_batch([{"prompt": "a", "modle": "m"}, "b"], executable=agent(), concurrency=1))
    assert isinstance(found[0].error, InvalidOption)
    assert found[0].error.option == "modle"
    assert "did you mean `model`" in str(found[0].error)
    assert found[0].attempts <= 1
    assert found[1].text == "b!"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"concurency": 3}, "did you mean `concurrency`"),
        ({"modle": "m"}, "did you mean `model`"),
        ({"total": 3}, "`total`: unknown option"),
        ({"retry": {"attemps": 3}}, "did you mean `attempts`"),
        ({"retry": Retry(attempts=0)}, "`retry"),
        ({"concurrency": 0}, "`concurrency`"),
        ({"workspace": "clone"}, "`workspace`"),
        ({"session_id": "s"}, "`session_id`"),
        ({"on_progress": 5}, "`on_progress`: expected a function, got 5"),
        ({"on_progress": lambda: None}, "called with one argument, the progress"),
        ({"progress": print}, "a function belongs to `on_progress`"),
        ({"on_approval": "manual"}, "set a function"),
        ({"timeout": object()}, "`timeout`"),
    ],
)
async def test_wrong_option_is_refused(options: Any, words: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        run_batch(["a"], executable=agent(), **options)
    assert words in str(refused.value)


@pytest.mark.parametrize("jobs", ["a", {"prompt": "a"}, Job("a"), 5, None, b"a"])
async def test_single_job_is_refused(jobs: Any) -> None:
    with pytest.raises(InvalidOption, match="expected an iterable or async iterable of jobs"):
        run_batch(jobs, executable=agent())


async def test_failing_iterable_ends_batch() -> None:
    def jobs() -> Iterator[str]:
        yield "a"
        raise LookupError("boom")

    batch = run_batch(jobs(), executable=agent())
    assert (await anext(batch)).text == "a!"
    with pytest.raises(InvalidOption, match="boom") as failed:
        await anext(batch)
    assert isinstance(failed.value.__cause__, LookupError)
    assert await results(batch) == []


async def test_failing_async_iterable_ends_batch() -> None:
    async def jobs() -> AsyncIterator[str]:
        yield "a"
        raise LookupError("boom")

    with pytest.raises(InvalidOption, match="boom") as failed:
        await results(run_batch(jobs(), executable=agent()))
    assert isinstance(failed.value.__cause__, LookupError)


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({"prompt": None}, "`prompt`: "),
        ({"prompt": 5}, "`prompt`: .*got 5"),
        ({"prompt": "a", "model": object()}, "`model`: in a job it must have a JSON form"),
        ({"prompt": "a", "place": Sandbox(hide=[b"x"])}, "`place`: `hide`: expected a list"),  # type: ignore[list-item]
        ({"prompt": "a", "telemetry": True}, "`telemetry`: a job cannot set it"),
        ({"prompt": "a", "on_approval": print}, "`on_approval`: a job cannot set it; set it for the batch"),
        ({"prompt": "a", "session_id": "one"}, "`session_id`: a job cannot set it"),
        ({"promt": "a"}, "`promt`: unknown option; did you mean `prompt`"),
    ],
)
async def test_mistake_fails_one_job(job: Any, words: str) -> None:
    jobs: list[Any] = [{"key": "k", "data": 1, **job}, "b"]
    found = sorted(await results(run_batch(jobs, executable=agent())), key=lambda result: result.index)
    assert (found[0].key, found[0].data, found[0].status) == ("k", 1, "failed")
    assert re.search(words, str(found[0].error))
    assert found[1].text == "b!"


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(("levels", "status"), [(189, "finished"), (195, "failed"), (201, "failed")])
async def test_data_nested_too_deep_fails_one_job(levels: int, status: str) -> None:
    jobs: list[Any] = [{"prompt": "a", "data": _nested(levels)}, "b"]
    found = sorted(await results(run_batch(jobs, executable=agent())), key=lambda result: result.index)
    assert (found[0].status, found[1].text) == (status, "b!")


async def test_same_job_has_same_key() -> None:
    jobs: list[list[Any]] = [["p"], [Job("p")], [{"prompt": "p", "model": None}]]
    keys = [(await results(run_batch(job, executable=agent())))[0].key for job in jobs]
    assert len(set(keys)) == 1


async def test_slow_progress_gets_newest() -> None:
    reports: list[Progress] = []
    started, released = asyncio.Event(), asyncio.Event()

    async def report(progress: Progress) -> None:
        reports.append(progress)
        started.set()
        await released.wait()

    batch = run_batch([str(number) for number in range(20)], executable=agent(), on_progress=report, concurrency=2)
    found = await results(batch)
    await started.wait()
    assert len(found) == 20
    assert len(reports) == 1
    released.set()
    assert await eventually(lambda: reports[-1].done == 20)
    assert len(reports) <= 3


async def test_cancelled_wait_keeps_delivered_result() -> None:
    batch = run_batch(["a", "b"], executable=agent(), concurrency=1)
    reading = asyncio.ensure_future(anext(batch))
    while batch._pending is None:
        await asyncio.sleep(0)
    # In the step of the loop in which the result comes.
    batch._pending.add_done_callback(lambda _: reading.cancel())
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert [result.text async for result in batch] == ["a!", "b!"]


@pytest.mark.parametrize("job", [5, None])
async def test_thing_that_is_no_job_ends_batch(job: Any) -> None:
    with pytest.raises(InvalidOption):
        await results(run_batch([job], executable=agent()))


async def test_equal_keys_are_refused() -> None:
    with pytest.raises(InvalidOption, match='"k"'):
        await results(run_batch([Job("a", key="k"), Job("b", key="k")], executable=agent()))


async def test_journal_is_resumed(tmp_path: Path) -> None:
    journal = tmp_path / "batch.jsonl"
    first = await results(run_batch(["a", "b"], executable=agent(), journal=journal))
    assert len(first) == 2
    again = await results(run_batch(["a", "b", "c"], executable=agent(), journal=journal))
    assert texts(again) == ["a!", "b!", "c!"]
    assert [result.from_journal for result in sorted(again, key=lambda result: result.index)] == [True, True, False]


async def test_journal_in_use_is_refused(tmp_path: Path) -> None:
    journal = tmp_path / "batch.jsonl"
    async with run_batch(["a"], executable=agent([HANGING]), journal=journal) as batch:
        assert await eventually(journal.exists)
        with pytest.raises(KimiAgentError, match=r"batch\.jsonl"):
            await results(run_batch(["a"], executable=agent(), journal=journal))
        await batch.cancel()


async def test_output_is_typed(tmp_path: Path) -> None:
    journal = tmp_path / "batch.jsonl"
    for expected in (False, True):
        batch = run_batch(["a", "b"], executable=agent(REVIEW), output=Review, journal=journal)
        assert_type(batch, Batch[Review])
        async for result in batch:
            assert_type(result.output, Review | None)
            assert_type(result.raise_for_status().output, Review)
            assert result.output == Review(approved=True)
            assert result.from_journal is expected


async def test_journal_with_other_type(tmp_path: Path) -> None:
    journal = tmp_path / "batch.jsonl"
    await results(run_batch(["a"], executable=agent(REVIEW), output=Review, journal=journal))
    with pytest.raises(InvalidOption, match="does not fit `output`") as failed:
        await results(run_batch(["a"], executable=agent(REVIEW), output=list[int], journal=journal))
    assert failed.value.__cause__ is not None


async def test_batch_without_output_has_no_type() -> None:
    batch = run_batch(["a"], executable=agent())
    assert_type(batch, Batch[None])
    assert_type((await anext(batch)).output, None)


async def test_tools_work_for_each_job() -> None:
    looked_up = []

    @tool
    def lookup(key: str) -> str:
        """Looks up.

        Args:
            key: The key.
        """
        looked_up.append(key)
        return "value"

    turns = [[LOOKUP, {"text": "Done"}]]
    found = await results(run_batch(["a", "b", "c"], executable=agent(turns), tools=[lookup], concurrency=3))
    assert texts(found) == ["Done"] * 3
    assert looked_up == ["a"] * 3


async def test_handlers_work_for_each_job() -> None:
    seen = []

    async def approve(request: kimi_agent.ApprovalRequest) -> Any:
        seen.append(request.description)
        return "approve"

    turns = [[{"tool_call": {"name": "Shell", "approve": {"description": "Run"}}}, {"text": "Done"}]]
    found = await results(run_batch(["a", "b"], executable=agent(turns), on_approval=approve))
    assert seen == ["Run", "Run"]
    assert [result.result.rejected for result in found if result.result] == [[], []]


async def test_cancel_ends_running_jobs() -> None:
    ran = asyncio.Event()

    def show(progress: Progress) -> None:
        if progress.running == 2:
            loop.call_soon_threadsafe(ran.set)

    loop = asyncio.get_running_loop()
    batch = run_batch(["a", "b", "c"], executable=agent([HANGING]), concurrency=2, on_progress=show)
    await ran.wait()
    await batch.cancel()
    await batch.cancel()
    found = await results(batch)
    assert [result.status for result in found] == ["cancelled", "cancelled"]
    with pytest.raises(TurnCancelled):
        found[0].raise_for_status()


async def test_cancelled_wait_loses_no_result() -> None:
    gate = asyncio.Event()

    async def jobs() -> AsyncIterator[str]:
        await gate.wait()
        yield "a"

    batch = run_batch(jobs(), executable=agent())
    waiting = asyncio.ensure_future(anext(batch))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.set()
    assert texts(await results(batch)) == ["a!"]


async def test_cancel_closes_async_generator() -> None:
    begun: list[str] = []
    closed: list[str] = []

    async def jobs(name: str) -> AsyncIterator[str]:
        try:
            begun.append(name)
            yield "a"
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            closed.append(name)

    async def cancelled(name: str, concurrency: int) -> None:
        batch = run_batch(jobs(name), concurrency=concurrency, executable=agent([HANGING]))
        assert await eventually(lambda: begun[-1:] == [name])
        await batch.cancel()
        assert closed.pop() == name

    # The first one waits in the generator for a job, and the second one for a session.
    await cancelled("waiting", 2)
    await cancelled("yielding", 1)
    batch = run_batch(jobs("dropped"), executable=agent([HANGING]))
    assert await eventually(lambda: begun[-1] == "dropped")
    del batch
    assert await eventually(lambda: closed == ["dropped"])


async def test_cancel_closes_generator(caplog: pytest.LogCaptureFixture) -> None:
    begun: list[str] = []
    closed: list[str] = []
    go = threading.Event()

    def jobs(name: str) -> Iterator[str]:
        try:
            yield "a"
            begun.append(name)
            if name == "blocked":
                go.wait()
            yield "b"
            yield "c"
        finally:
            closed.append(name)
            if name == "failing":
                raise RuntimeError("no file")

    async def cancelled(name: str) -> None:
        batch = run_batch(jobs(name), concurrency=2, executable=agent([HANGING]))
        assert await eventually(lambda: begun[-1:] == [name])
        await batch.cancel()

    await cancelled("plain")
    assert await eventually(lambda: closed == ["plain"])
    await cancelled("failing")
    assert await eventually(lambda: "failed when it was closed" in caplog.text)
    # A generator that blocks is closed when it yields.
    await cancelled("blocked")
    assert closed == ["plain", "failing"]
    go.set()
    assert await eventually(lambda: closed == ["plain", "failing", "blocked"])


async def test_failed_batch_closes_generator() -> None:
    closed: list[bool] = []

    async def jobs() -> AsyncIterator[dict[str, str]]:
        try:
            while True:
                yield {"prompt": "a", "key": "k"}
        finally:
            closed.append(True)

    with pytest.raises(InvalidOption, match="two jobs have the key"):
        await results(run_batch(jobs(), executable=agent()))
    assert closed == [True]


async def test_batch_has_a_deadline() -> None:
    batch = run_batch(["a"], executable=agent([HANGING]), timeout=0.2)
    assert (await anext(batch)).status == "cancelled"
    with pytest.raises(Timeout):
        await anext(batch)


@pytest.mark.skipif(sys.platform != "linux", reason="counts processes in /proc")
async def test_dropped_batch_ends_its_processes() -> None:
    before = children()
    ran = asyncio.Event()

    def show(progress: Progress) -> None:
        if progress.running == 2:
            loop.call_soon_threadsafe(ran.set)

    loop = asyncio.get_running_loop()
    batch = run_batch(["a", "b"], executable=agent([HANGING]), on_progress=show)
    await ran.wait()
    del batch
    assert await eventually(lambda: children() <= before)


@pytest.mark.skipif(sys.platform != "linux", reason="counts processes in /proc")
async def test_many_jobs_run() -> None:
    before = children()
    numbers: list[Progress] = []
    jobs = (Job(str(n), data=n) for n in range(200))
    batch = run_batch(jobs, executable=agent(), concurrency=32, on_progress=numbers.append)
    found = await results(batch)
    assert texts(found) == [f"{n}!" for n in range(200)]
    assert [result.data for result in sorted(found, key=lambda result: result.index)] == list(range(200))
    assert max(progress.running for progress in numbers) <= 32
    assert await eventually(lambda: children() <= before)


async def test_progress_counts_jobs() -> None:
    numbers: list[Progress] = []

    async def show(progress: Progress) -> None:
        numbers.append(progress)

    await results(run_batch(["a", "b"], executable=agent(), on_progress=show))
    assert await eventually(lambda: bool(numbers) and numbers[-1].done == 2)
    assert numbers[-1].total == 2
    assert numbers[-1].failed == 0


async def test_progress_is_shown_as_lines(capsys: pytest.CaptureFixture[str]) -> None:
    await results(run_batch(["a", "b"], executable=agent(), concurrency=1, progress=True))
    assert "2 of 2 jobs done, 0 running, 0 tokens\n" in capsys.readouterr().err


async def test_batch_is_read_with_async_for() -> None:
    async with run_batch(["a"], executable=agent()) as batch:
        with pytest.raises(TypeError, match="async for"):
            iter(cast("Any", batch))
        with pytest.raises(TypeError, match="async for"):
            await cast("Any", batch)


async def test_early_delivery_keeps_result() -> None:
    done: list[int] = []
    batch = run_batch(["a", "b"], executable=agent(), on_progress=lambda progress: done.append(progress.done))
    first = await anext(batch)
    assert await eventually(lambda: done[-1] == 2)
    mailbox = current_mailbox()

    def deliver() -> None:
        # In the same step of the loop that asks for the result.
        select.select([mailbox.native.fileno()], [], [], DEADLINE)
        mailbox._drain()

    asking = asyncio.ensure_future(anext(batch))
    asyncio.get_running_loop().call_soon(deliver)
    second = await asking
    assert texts([first, second]) == ["a!", "b!"]


KILLED = """
def jobs():
    for n in range(20):
        yield {"prompt": str(n), "key": str(n)}
for result in kimi_agent.sync.run_batch(jobs(), executable=AGENT, concurrency=2, journal="j.jsonl"):
    print(result.key, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGKILL")
async def test_killed_batch_is_resumed(tmp_path: Path) -> None:
    code = KILLED.replace("AGENT", repr([str(word) for word in agent()]))
    running = program(code, tmp_path, TMPDIR=str(tmp_path))
    assert running.stdout is not None
    read = [running.stdout.readline().strip() for _ in range(5)]
    running.send_signal(signal.SIGKILL)
    running.communicate(timeout=DEADLINE)
    assert gone(running.pid)
    finished = [
        entry["key"]
        for line in (tmp_path / "j.jsonl").read_text("utf-8").splitlines()
        for entry in _read(line)
        if "key" in entry
    ]
    assert set(read) <= set(finished)
    jobs = [{"prompt": str(n), "key": str(n)} for n in range(20)]
    found = await results(run_batch(jobs, executable=agent(), concurrency=2, journal=tmp_path / "j.jsonl"))
    assert sorted(result.key for result in found) == sorted(str(n) for n in range(20))
    assert {result.key for result in found if result.from_journal} == set(finished)
    assert texts(found) == [f"{n}!" for n in range(20)]


def _read(line: str) -> list[dict[str, Any]]:
    """The entry of a line; the last line can be incomplete."""
    with contextlib.suppress(ValueError):
        return [json.loads(line)]
    return []
