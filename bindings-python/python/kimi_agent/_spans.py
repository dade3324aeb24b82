"""Applies the operations of the core on spans and metrics, with OpenTelemetry. Loaded with the option."""

from __future__ import annotations

import atexit
import contextvars
import logging
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from opentelemetry import context as otel_context
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from . import __version__, _native
from ._loop import finish_telemetry
from ._process import in_this_process

if TYPE_CHECKING:
    from ._telemetry import Telemetry

__all__ = ["Tracing"]

T = TypeVar("T")
_logger = logging.getLogger("kimi_agent")
_propagator = TraceContextTextMapPropagator()
_KINDS = {"client": SpanKind.CLIENT, "internal": SpanKind.INTERNAL}
_Record = Callable[[Any, Mapping[str, Any]], None]
# Some SDKs warn about an instrument that is made twice.
_known: weakref.WeakKeyDictionary[metrics.MeterProvider, dict[str, _Record]] = weakref.WeakKeyDictionary()


class _OpenSpan(NamedTuple):
    span: Span
    context: Context


class Tracing:
    """The spans and metrics of one session or batch. No error of a provider or exporter leaves it."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._capture_content = telemetry.capture_content
        # Of run_batch, because the core starts the spans of its jobs.
        self._caller = otel_context.get_current()
        self._open: dict[int, _OpenSpan] = {}
        self._has_failed = False
        names = _native.telemetry_names()
        scope, schema = names["scope"], names["schema_url"]
        self._tracer = self._tried(trace.get_tracer, scope, __version__, telemetry.tracer_provider, schema)
        provider = telemetry.meter_provider
        self._records: dict[str, _Record] = self._tried(_instruments, provider, names) or {}
        _tracings.add(self)

    @property
    def is_idle(self) -> bool:
        """Whether no span is open."""
        return not self._open

    def option(self) -> dict[str, Any]:
        """Returns the option for the core, with the current context for the agent."""
        return {"capture_content": self._capture_content, **self._carrier(None)}

    def begin(self, start: Mapping[str, Any]) -> dict[str, Any] | None:
        """Starts the span of a turn in the current context. Returns the values for the core, None if it failed."""
        found = self._tried(self._start, start, otel_context.get_current())
        return None if found is None else {"span": start["span"], **self._carrier(found.context)}

    def apply(self, operations: Sequence[Mapping[str, Any]]) -> None:
        """Applies operations of the core, in order."""
        for operation in operations:
            self._tried(_OPERATIONS[operation["op"]], self, operation)

    def within(self, context: contextvars.Context, number: int) -> contextvars.Context:
        """Returns a copy of a context in which this span is the current one."""
        found = self._open.get(number)
        if found is None:
            return context
        inner = context.copy()
        self._tried(inner.run, _enter, found.span)
        return inner

    def end_all(self) -> None:
        """Ends the spans that no operation can end any more."""
        while self._open:
            number = next(reversed(self._open))
            error = {"type": "session_closed", "message": "the program has left the session"}
            self._tried(self._end, {"span": number, "time": None, "error": error})

    def _tried(self, function: Callable[..., T], *args: Any) -> T | None:
        try:
            return function(*args)
        except Exception as failure:
            level = logging.DEBUG if self._has_failed else logging.WARNING
            self._has_failed = True
            further = "; the log shows only the first failure of a session"
            _logger.log(level, "telemetry failed, and the turn continues%s", further, exc_info=failure)
            return None

    def _carrier(self, context: Context | None) -> dict[str, str]:
        carrier: dict[str, str] = {}
        self._tried(_propagator.inject, carrier, context)
        return carrier

    def _start(self, operation: Mapping[str, Any], context: Context) -> _OpenSpan | None:
        if self._tracer is None:
            return None
        span = self._tracer.start_span(
            operation["name"],
            context=context,
            kind=_KINDS[operation["kind"]],
            attributes=operation["attributes"],
            start_time=operation["time"],
        )
        found = self._open[operation["span"]] = _OpenSpan(span, trace.set_span_in_context(span, context))
        return found

    def _start_given(self, operation: Mapping[str, Any]) -> None:
        number = operation["parent"]
        parent = self._open.get(number)
        if parent is not None:
            self._start(operation, parent.context)
        elif number is None:
            self._start(operation, self._caller)

    def _event(self, operation: Mapping[str, Any]) -> None:
        found = self._open.get(operation["span"])
        if found is not None:
            found.span.add_event(operation["name"], operation["attributes"], timestamp=operation["time"])

    def _set(self, operation: Mapping[str, Any]) -> None:
        found = self._open.get(operation["span"])
        if found is not None:
            if "name" in operation:
                found.span.update_name(operation["name"])
            found.span.set_attributes(operation["attributes"])

    def _end(self, operation: Mapping[str, Any]) -> None:
        found = self._open.pop(operation["span"], None)
        if found is None:
            return
        try:
            error = operation["error"]
            if error is not None:
                found.span.set_attribute("error.type", error["type"])
                found.span.set_status(Status(StatusCode.ERROR, error["message"]))
        finally:
            found.span.end(operation["time"])

    def _record(self, operation: Mapping[str, Any]) -> None:
        record = self._records.get(operation["metric"])
        if record is not None:
            record(operation["value"], operation["attributes"])


_OPERATIONS: dict[str, Callable[[Tracing, Mapping[str, Any]], None]] = {
    "start": Tracing._start_given,
    "event": Tracing._event,
    "set": Tracing._set,
    "end": Tracing._end,
    "record": Tracing._record,
}
_tracings: weakref.WeakSet[Tracing] = weakref.WeakSet()


def _enter(span: Span) -> None:
    # The context is dropped after the handler, so nothing is detached.
    otel_context.attach(trace.set_span_in_context(span))


def _instruments(given: metrics.MeterProvider | None, names: Mapping[str, Any]) -> dict[str, _Record]:
    """Returns the functions that record a value, by the names of the metrics."""
    provider = given or metrics.get_meter_provider()
    try:
        found = _known.get(provider)
        if found is None:
            found = _known[provider] = _make_instruments(provider, names)
        return found
    except TypeError:
        # The provider cannot be a key.
        return _make_instruments(provider, names)


def _make_instruments(provider: metrics.MeterProvider, names: Mapping[str, Any]) -> dict[str, _Record]:
    meter = provider.get_meter(names["scope"], __version__, names["schema_url"])
    found: dict[str, _Record] = {}
    for metric in names["metrics"]:
        name, unit, description = metric["name"], metric["unit"], metric["description"]
        if metric["kind"] == "histogram":
            bounds = metric["boundaries"]
            made = meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=bounds)
            found[name] = _without_context(made.record)
        else:
            found[name] = _without_context(meter.create_counter(name, unit, description).add)
    return found


def _without_context(function: Callable[[Any, Mapping[str, Any], Context], None]) -> _Record:
    # Operations are applied in the context of an arbitrary session.
    return lambda value, attributes: function(value, attributes, Context())


@atexit.register
def _end_all() -> None:
    """Ends open spans before the provider, which the program has made earlier, is shut down."""
    if in_this_process():
        finish_telemetry()
        for tracing in list(_tracings):
            tracing.end_all()
