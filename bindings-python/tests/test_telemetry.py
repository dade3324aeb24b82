"""The option `telemetry`: its values, the spans that handlers run in, and providers that fail."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support import DEADLINE, HANGING, LOOKUP, eventually, open_session, program

import kimi_agent.sync
from kimi_agent import Batch, ExternalTool, InvalidOption, KimiAgentError, Telemetry, run_batch
from kimi_agent._loop import LoopMailbox, current_mailbox
from kimi_agent._telemetry import read_telemetry
from kimi_agent.testing import scripted_agent

TEXT = [{"text": "Hello"}]
APPROVAL: dict[str, Any] = {"tool_call": {"name": "Shell", "approve": {"action": "run", "description": "ls"}}}


class Spans:
    """A provider that keeps the spans which have ended."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.option = Telemetry(tracer_provider=self.provider)

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name.startswith(name)]


@pytest.fixture
def spans() -> Iterator[Spans]:
    found = Spans()
    yield found
    found.provider.shutdown()


def lookup(handler: Callable[[Any], Any]) -> ExternalTool:
    return ExternalTool("lookup", "", {"type": "object"}, handler)


def current() -> str:
    """The name of the current span."""
    span = trace.get_current_span()
    return span.name if isinstance(span, ReadableSpan) else "none"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("yes", 'expected a boolean, a provider of OpenTelemetry or a Telemetry; got "yes"'),
        (TracerProvider, "expected a boolean, a provider of OpenTelemetry or a Telemetry; got"),
        (Telemetry(tracer_provider=1), "`tracer_provider`: expected a provider of OpenTelemetry, got 1"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        (Telemetry(meter_provider=TracerProvider()), "`meter_provider`: expected a provider"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        (Telemetry(capture_content="no"), '`capture_content`: expected a boolean, got "no"'),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ],
)
async def test_wrong_value_is_refused(value: Any, problem: str) -> None:
    with pytest.raises(InvalidOption, match=f"invalid option `telemetry`: {problem}"):
        await open_session(TEXT, telemetry=value)


async def test_provider_stands_for_details(spans: Spans) -> None:
    reader = InMemoryMetricReader()
    for provider in (spans.provider, MeterProvider([reader])):
        async with open_session(TEXT, telemetry=provider) as session:
            await session.prompt("Go")
    assert len(spans.named("invoke_agent")) == 1
    assert reader.get_metrics_data() is not None


def test_missing_package_is_named() -> None:
    code = """
import sys
sys.modules["opentelemetry"] = None
from kimi_agent import InvalidOption, sync
try:
    sync.create_session(telemetry=True)
except InvalidOption as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'kimi-agent[otel]'" in done.stdout


def test_unset_option_loads_nothing(tmp_path: Path) -> None:
    running = program(
        """
        with kimi_agent.sync.create_session(executable=scripted_agent([[{"text": "Hi"}]]), telemetry=False) as session:
            session.prompt("Go").result()
        print([name for name in sys.modules if name.startswith("opentelemetry") or name.endswith("_spans")])
        """,
        tmp_path,
    )
    assert running.communicate(timeout=DEADLINE) == ("[]\n", "")


async def test_handlers_run_in_spans(spans: Spans) -> None:
    seen: list[str] = []

    async def approve(_: Any) -> Any:
        await asyncio.sleep(0)
        seen.append(current())
        return "approve"

    def find(_: Any) -> str:
        seen.append(current())
        return "found"

    actions = [APPROVAL, LOOKUP, *TEXT]
    async with open_session(
        actions, telemetry=spans.option, on_approval=approve, tools=[lookup(find)], on_event=lambda _: None
    ) as session:
        await session.prompt("Go")
    assert [name.partition(" ")[0] for name in seen] == ["invoke_agent", "execute_tool"]
    assert current() == "none"


async def test_turn_belongs_to_callers_span(spans: Spans) -> None:
    tracer = spans.provider.get_tracer("test")
    async with open_session(TEXT, TEXT, telemetry=spans.option) as session:
        with tracer.start_as_current_span("caller"):
            await session.prompt("Go")
        await session.prompt("Go")
    [caller] = spans.named("caller")
    parents = [span.parent for span in spans.named("invoke_agent")]
    assert parents == [caller.get_span_context(), None]


async def test_sessions_of_agent_have_spans(spans: Spans) -> None:
    executable = scripted_agent({"turns": [TEXT]})
    async with kimi_agent.open_agent(executable=executable) as agent:
        for _ in range(2):
            async with agent.create_session(telemetry=spans.option) as session:
                await session.prompt("Go")
    assert len({str((span.attributes or {})["gen_ai.conversation.id"]) for span in spans.named("invoke_agent")}) == 2


async def test_agent_process_has_no_telemetry() -> None:
    with pytest.raises(InvalidOption, match="create_session"):
        await kimi_agent.open_agent(telemetry=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_blocking_turn_has_span(spans: Spans) -> None:
    tracer = spans.provider.get_tracer("test")
    with tracer.start_as_current_span("caller") as caller:
        turn = kimi_agent.sync.prompt("Go", executable=scripted_agent([TEXT]), telemetry=spans.option)
        turn.result()
    [span] = spans.named("invoke_agent")
    assert span.parent == caller.get_span_context()


async def test_agent_gets_trace(spans: Spans) -> None:
    with spans.provider.get_tracer("test").start_as_current_span("caller") as caller:
        session = await open_session([{"text": "{{env.TRACEPARENT}}"}], telemetry=spans.option)
    async with session:
        result = await session.prompt("Go")
    context = caller.get_span_context()
    assert result.text == f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


@pytest.mark.parametrize(
    ("variable", "option", "expected"), [("true", None, True), ("true", False, False), ("", None, False)]
)
async def test_content_needs_permission(
    spans: Spans, monkeypatch: pytest.MonkeyPatch, variable: str, option: bool | None, expected: bool
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", variable)
    telemetry = Telemetry(tracer_provider=spans.provider, capture_content=option)
    async with open_session(TEXT, telemetry=telemetry) as session:
        await session.prompt("Go")
    [span] = spans.named("invoke_agent")
    assert ("gen_ai.input.messages" in (span.attributes or {})) is expected


async def test_event_only_is_logged_once(
    spans: Spans, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "EVENT_ONLY")
    for _ in range(2):
        async with open_session(TEXT, telemetry=spans.option) as session:
            await session.prompt("Go")
    assert not any("gen_ai.input.messages" in (span.attributes or {}) for span in spans.named("invoke_agent"))
    [record] = [record for record in caplog.records if "the SDK makes no events of content" in record.message]
    assert (record.levelno, "set the variable to SPAN_ONLY" in record.message) == (logging.WARNING, True)


class _Failing(SpanProcessor):
    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise RuntimeError("on_start failed")

    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError("on_end failed")


class _FailingAtEnd(_Failing):
    def on_start(self, span: Any, parent_context: Any = None) -> None:
        pass


class _NoTracer(TracerProvider):
    def get_tracer(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("get_tracer failed")


@pytest.mark.parametrize("processor", [_Failing, _FailingAtEnd, None])
async def test_failing_provider_harms_nothing(caplog: pytest.LogCaptureFixture, processor: Any) -> None:
    provider = TracerProvider() if processor else _NoTracer()
    if processor:
        provider.add_span_processor(processor())
    with caplog.at_level(logging.WARNING):
        async with open_session(
            [APPROVAL, LOOKUP, *TEXT],
            telemetry=Telemetry(tracer_provider=provider),
            on_approval=lambda _: "approve",
            tools=[lookup(lambda _: "found")],
        ) as session:
            result = await session.prompt("Go")
    assert (result.text, len(result.tool_calls)) == ("Hello", 2)
    [record] = [record for record in caplog.records if record.message.startswith("telemetry failed")]
    assert record.exc_info


async def test_refused_prompts_end_their_spans(spans: Spans) -> None:
    soon: Any = "soon"
    async with open_session(HANGING, telemetry=spans.option) as session:
        turn = session.prompt("Go")
        with pytest.raises(KimiAgentError):
            session.prompt("Go")
        with pytest.raises(InvalidOption):
            session.prompt("Go", timeout=soon)
        await turn.cancel()
    ends = [(span.attributes or {}).get("error.type") for span in spans.named("invoke_agent")]
    assert sorted(str(end) for end in ends) == ["None", "invalid_option", "turn_in_progress"]


async def test_dropped_turn_ends_span(spans: Spans) -> None:
    session = await open_session(HANGING, telemetry=spans.option)
    turn = session.prompt("Go")
    await turn.text_stream.__anext__()
    del turn
    gc.collect()
    assert await eventually(lambda: bool(spans.named("invoke_agent")))
    await session.close()


def test_lost_loop_ends_spans(spans: Spans) -> None:
    async def leave() -> Any:
        session = await open_session(HANGING, telemetry=spans.option)
        turn = session.prompt("Go")
        await turn.text_stream.__anext__()
        return turn

    loop = asyncio.new_event_loop()
    turn = loop.run_until_complete(leave())
    loop.close()
    assert not spans.named("invoke_agent")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del loop, turn
        gc.collect()
    [span] = spans.named("invoke_agent")
    attributes = span.attributes or {}
    # The core cancels the dropped turn, perhaps before the mailbox is closed.
    end = (attributes.get("error.type"), attributes.get("kimi_agent.turn.status"))
    assert end in (("session_closed", None), (None, "cancelled"))


TRACED = """
import threading
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter(formatter=lambda span: span.name + "\\n")))
trace.set_tracer_provider(provider)
"""


def traced_program(code: str, folder: Path) -> list[str]:
    """Runs a program, which prints the names of its spans when they end. Returns its lines."""
    running = program(TRACED + textwrap.dedent(code), folder)
    out, err = running.communicate(timeout=DEADLINE)
    assert running.returncode == 0, err
    return out.splitlines()


def test_exit_ends_spans(tmp_path: Path) -> None:
    lines = traced_program(
        """
        session = kimi_agent.sync.create_session(executable=scripted_agent([HANGING]), telemetry=True)
        turn = session.prompt("Go")
        next(iter(turn.text_stream))
        """,
        tmp_path,
    )
    assert sorted(lines) == ["chat", "invoke_agent kimi-scripted-agent"]


def test_exit_waits_for_starting_span(tmp_path: Path) -> None:
    lines = traced_program(
        """
        starting = threading.Event()

        class Slow(SpanProcessor):
            def on_start(self, span, parent_context=None):
                if span.name == "chat":
                    starting.set()
                    threading.main_thread().join()

        provider.add_span_processor(Slow())
        session = kimi_agent.sync.create_session(executable=scripted_agent([HANGING]), telemetry=True)
        turn = session.prompt("Go")
        starting.wait()
        """,
        tmp_path,
    )
    assert sorted(lines) == ["chat", "invoke_agent kimi-scripted-agent"]


class _Deliveries:
    """Takes the place of the core, and gives these deliveries at once."""

    def __init__(self, *deliveries: Any) -> None:
        self._deliveries = list(deliveries)

    def drain(self) -> list[Any]:
        found, self._deliveries = self._deliveries, []
        return found

    def finish_job(self, *_: Any) -> None:
        pass


class _Handlers:
    """The handlers of a session, which record the span of each job."""

    def __init__(self, tracing: Any) -> None:
        self.tracing = tracing
        self.seen: list[str] = []

    def start(self, _job: Any, _kind: Any, _index: Any, _payload: Any, _in_turn: Any, span: int) -> None:
        self.seen.append(self.tracing.within(contextvars.copy_context(), span).run(current))


SESSION = 1 << 60
START = {"op": "start", "span": 1, "parent": None, "name": "chat", "kind": "client", "attributes": {}, "time": 1}
END = {"op": "end", "span": 1, "time": 2, "error": None}
JOB: tuple[Any, ...] = ("job", 1, SESSION, "tool", 0, {}, "t1", True, 1)


def traced_mailbox(monkeypatch: pytest.MonkeyPatch, spans: Spans, *deliveries: Any) -> tuple[LoopMailbox, _Handlers]:
    """The mailbox of this loop, with these deliveries for a session with handlers."""
    mailbox, handlers = current_mailbox(), _Handlers(read_telemetry(spans.option))
    mailbox.add_handlers(SESSION, cast(Any, handlers))
    monkeypatch.setattr(mailbox, "native", _Deliveries(*deliveries))
    return mailbox, handlers


async def test_handler_of_ended_span_runs_in_it(spans: Spans, monkeypatch: pytest.MonkeyPatch) -> None:
    telemetry = [("telemetry", SESSION, [operation]) for operation in (START, END)]
    mailbox, handlers = traced_mailbox(monkeypatch, spans, telemetry[0], JOB, telemetry[1])
    mailbox._drain()
    assert handlers.seen == ["chat"]
    assert len(spans.named("chat")) == 1


async def test_failing_telemetry_loses_no_delivery(
    spans: Spans, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    unknown = ("telemetry", SESSION, [{"op": "unknown"}])
    mailbox, handlers = traced_mailbox(monkeypatch, spans, unknown, ("done", 1, "value", None), JOB)
    result = mailbox.result_of(1)
    mailbox._drain()
    assert (await result, handlers.seen) == ("value", ["none"])
    assert "a delivery of the core could not be handled" in caplog.text


async def test_no_span_starts_after_end(spans: Spans, monkeypatch: pytest.MonkeyPatch) -> None:
    mailbox, handlers = traced_mailbox(monkeypatch, spans, ("done", 1, "value", None), ("telemetry", SESSION, [START]))
    result = mailbox.result_of(1)
    mailbox.finish_telemetry(0.0)
    handlers.tracing.end_all()
    monkeypatch.setattr(mailbox, "native", _Deliveries(("telemetry", SESSION, [START])))
    assert await result == "value"
    assert handlers.tracing.is_idle
    assert len(spans.named("chat")) == 1
    assert mailbox.with_span(SESSION, START, {}) == {}


def children_of(spans: Spans, parent: ReadableSpan) -> list[str]:
    """The first words of the names of the spans in a span, sorted."""
    found = [span for span in spans.named("") if span.parent == parent.get_span_context()]
    return sorted(span.name.partition(" ")[0] for span in found)


async def test_jobs_have_spans(spans: Spans) -> None:
    seen: list[str] = []

    async def approve(_: Any) -> Any:
        await asyncio.sleep(0)
        seen.append(current())
        return "approve"

    def find(_: Any) -> str:
        seen.append(current())
        return "found"

    actions = [APPROVAL, LOOKUP, {"text": "{{env.TRACEPARENT}}"}]
    with spans.provider.get_tracer("test").start_as_current_span("caller") as caller:
        batch = run_batch(
            ["a", "b"],
            executable=scripted_agent([actions]),
            telemetry=spans.option,
            on_approval=approve,
            tools=[lookup(find)],
        )
    answers = {result.text async for result in batch}
    turns = spans.named("invoke_agent")
    context = caller.get_span_context()
    assert [turn.parent for turn in turns] == [context] * 2
    assert answers == {f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"}
    for turn in turns:
        assert children_of(spans, turn) == ["chat", "chat", "chat", "execute_tool", "execute_tool"]
    first_words = sorted(name.partition(" ")[0] for name in seen)
    assert first_words == ["execute_tool", "execute_tool", "invoke_agent", "invoke_agent"]
    assert current() == "none"


def test_blocking_jobs_have_spans(spans: Spans) -> None:
    with spans.provider.get_tracer("test").start_as_current_span("caller") as caller:
        batch = kimi_agent.sync.run_batch(["a", "b"], executable=scripted_agent([TEXT]), telemetry=spans.option)
        assert [result.text for result in batch] == ["Hello", "Hello"]
    assert [turn.parent for turn in spans.named("invoke_agent")] == [caller.get_span_context()] * 2


def hanging_batch(spans: Spans) -> tuple[Batch[None], asyncio.Event]:
    """A batch whose job runs until it is cancelled, and the event that it runs."""
    started = asyncio.Event()

    async def find(_: Any) -> str:
        started.set()
        return "found"

    executable = scripted_agent([[LOOKUP, *HANGING]])
    return run_batch(["a"], executable=executable, telemetry=spans.option, tools=[lookup(find)]), started


async def test_left_batch_ends_spans(spans: Spans) -> None:
    batch, started = hanging_batch(spans)
    async with batch:
        reading = asyncio.ensure_future(anext(batch))
        await started.wait()
    assert (await reading).status == "cancelled"
    assert len(spans.named("invoke_agent")) == 1


async def test_dropped_batch_ends_spans(spans: Spans) -> None:
    batch, started = hanging_batch(spans)
    reading = asyncio.ensure_future(anext(batch))
    await started.wait()
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    del batch, reading
    gc.collect()
    assert await eventually(lambda: bool(spans.named("invoke_agent")))


def test_exit_ends_spans_of_jobs(tmp_path: Path) -> None:
    lines = traced_program(
        """
        both = threading.Barrier(2)

        def approve(request):
            both.wait()
            return "approve"

        approval = {"tool_call": {"name": "Shell", "approve": {"action": "run", "description": "ls"}}}
        jobs = ["a", {"prompt": "b", "executable": scripted_agent([[approval, {"text": "Hi"}]])}]
        hanging = scripted_agent([[approval, *HANGING]])
        batch = kimi_agent.sync.run_batch(
            jobs, executable=hanging, concurrency=2, on_approval=approve, telemetry=True
        )
        print(next(batch).text)
        """,
        tmp_path,
    )
    assert lines.count("invoke_agent kimi-scripted-agent") == 2, lines
    assert "Hi" in lines
