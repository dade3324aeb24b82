"""Batches of the blocking API."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from support import HANGING, interrupted, program
from test_batch import REVIEW, Review, agent, texts
from typing_extensions import assert_type

from kimi_agent import InvalidOption, Job, KimiAgentError, run_batch, sync


def test_batch_needs_a_loop() -> None:
    with pytest.raises(KimiAgentError, match=r"kimi_agent\.sync"):
        run_batch(["a"], executable=agent())


def test_blocking_batch_gives_results() -> None:
    with sync.run_batch(["a", {"prompt": "b"}, Job("c")], executable=agent(), concurrency=2) as batch:
        assert_type(batch, sync.Batch[None])
        assert texts(list(batch)) == ["a!", "b!", "c!"]


def test_blocking_source_may_block() -> None:
    def jobs() -> Iterator[str]:
        yield sync.prompt("a", executable=agent()).result().text

    assert texts(list(sync.run_batch(jobs(), executable=agent()))) == ["a!!"]


def test_blocking_output_is_typed() -> None:
    for result in sync.run_batch(["a"], executable=agent(REVIEW), output=Review):
        assert_type(result.output, Review | None)
        assert result.output == Review(approved=True)


def test_blocking_wrong_option_is_refused() -> None:
    with pytest.raises(InvalidOption, match="did you mean `concurrency`"):
        sync.run_batch(["a"], executable=agent(), **cast("Any", {"concurency": 3}))


def test_blocking_failing_iterable_ends_batch() -> None:
    def jobs() -> Iterator[str]:
        yield "a"
        raise LookupError("boom")

    with pytest.raises(InvalidOption, match="boom") as failed:
        list(sync.run_batch(jobs(), executable=agent()))
    assert isinstance(failed.value.__cause__, LookupError)


def test_blocking_cancel_ends_batch() -> None:
    batch = sync.run_batch(["a"], executable=agent([HANGING]))
    batch.cancel()
    assert all(result.status == "cancelled" for result in batch)


INTERRUPTED = """
asked = []
def approve(request):
    asked.append(request)
    if len(asked) == 2:
        # The agents have started, so the program waits for a result by now.
        print("running", flush=True)
    return "approve"
agent = scripted_agent([[{"tool_call": {"name": "Shell", "approve": True, "result": "ok"}}, *HANGING]])
options = {"executable": agent, "concurrency": 2, "journal": "j.jsonl", "on_approval": approve}
batch = kimi_agent.sync.run_batch(["a", "b", "c"], **options)
try:
    for result in batch:
        print(result.status, flush=True)
except KeyboardInterrupt:
    lines = Path("j.jsonl").read_text().count("cancelled")
    print("interrupted", lines > 0, *(result.status for result in batch), flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_drains_blocking_batch(tmp_path: Path) -> None:
    said, err = interrupted(program(INTERRUPTED, tmp_path))
    assert said[:2] == ["running", "interrupted"], err
    # The result of an interrupted wait may be the one that it was about to return.
    assert said[2] == "True"
    assert set(said[3:]) <= {"cancelled"}


def test_blocking_cancel_closes_generator() -> None:
    closed: list[bool] = []

    def jobs() -> Iterator[str]:
        try:
            yield from ("a", "b", "c")
        finally:
            closed.append(True)

    with sync.run_batch(jobs(), concurrency=1, executable=agent()) as batch:
        assert next(batch).status == "finished"
    assert closed == [True]
