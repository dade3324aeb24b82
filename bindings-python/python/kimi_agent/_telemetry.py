"""`Telemetry`: the option `telemetry` with details. Loaded only if a program names it or sets the option."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ._encode import kind_of
from ._errors import InvalidOption

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from ._spans import Tracing

__all__ = ["MeterSource", "Telemetry", "TracerSource", "read_telemetry"]


# The options name these instead of the providers, because the types of options must load without OpenTelemetry.
class TracerSource(Protocol):
    """Makes tracers: a `TracerProvider` of `opentelemetry-api`."""

    def get_tracer(self, *args: Any, **kwargs: Any) -> Any:
        """Returns a tracer."""
        ...


class MeterSource(Protocol):
    """Makes meters: a `MeterProvider` of `opentelemetry-api`."""

    def get_meter(self, *args: Any, **kwargs: Any) -> Any:
        """Returns a meter."""
        ...


@dataclass(frozen=True)
class Telemetry:
    """Details of the option `telemetry`.

    `telemetry=True` is the same as `telemetry=Telemetry()`. `telemetry=provider` is the same as a `Telemetry` with this
    provider. It needs the package `opentelemetry-api`: `pip install "kimi-agent[otel]"`.

    >>> async with create_session(work_dir=".", telemetry=Telemetry(capture_content=True)) as session:
    ...     result = await session.prompt("What is in this directory?").result()
    >>> result.text
    'There are 3 files.'
    """

    tracer_provider: TracerProvider | None = None
    """The provider of the tracer. Default: the global provider."""
    meter_provider: MeterProvider | None = None
    """The provider of the meter. Default: the global provider."""
    capture_content: bool | None = None
    """Whether prompts, answers, arguments and results of tools are recorded. Default: the environment variable
    `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` decides, else they are not."""


def read_telemetry(given: Any) -> Tracing | None:
    """Returns the tracing of a session for its option `telemetry`. None if telemetry is off.

    Raises:
        InvalidOption: The value is of a wrong kind, or `opentelemetry-api` is not installed.
    """
    if given is None or given is False:
        return None
    telemetry = Telemetry() if given is True else _of_provider(given)
    _check(telemetry)
    try:
        from ._spans import Tracing
    except ImportError as error:
        raise _wrong(f"it needs opentelemetry-api 1.30 or later: pip install 'kimi-agent[otel]' ({error})") from error
    return Tracing(telemetry)


def _of_provider(given: Any) -> Any:
    """Makes details of a provider alone. Other values stay as they are."""
    is_tracer, is_meter = hasattr(given, "get_tracer"), hasattr(given, "get_meter")
    if (is_tracer or is_meter) and not isinstance(given, type):
        return Telemetry(tracer_provider=given if is_tracer else None, meter_provider=given if is_meter else None)
    return given


def _check(telemetry: Any) -> None:
    if not isinstance(telemetry, Telemetry):
        raise _wrong(f"expected a boolean, a provider of OpenTelemetry or a Telemetry; got {kind_of(telemetry)}")
    for name, method in (("tracer_provider", "get_tracer"), ("meter_provider", "get_meter")):
        provider = getattr(telemetry, name)
        if provider is not None and not hasattr(provider, method):
            raise _wrong(f"`{name}`: expected a provider of OpenTelemetry, got {kind_of(provider)}")
    if not isinstance(telemetry.capture_content, (bool, type(None))):
        raise _wrong(f"`capture_content`: expected a boolean, got {kind_of(telemetry.capture_content)}")


def _wrong(problem: str) -> InvalidOption:
    return InvalidOption(f"invalid option `telemetry`: {problem}", "telemetry")
