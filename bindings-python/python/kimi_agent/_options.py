"""The small types that handlers are given by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from ._encode import seconds
from ._errors import InvalidOption

if TYPE_CHECKING:
    from ._option_types import HookEvent, HookHandler, Seconds

__all__ = ["Block", "Hook", "Reject"]


class Reject(NamedTuple):
    """Rejects a request for approval, with a word to the model, which then goes on (from Wire 1.6 on)."""

    feedback: str


class Block(NamedTuple):
    """A hook's refusal, with the reason that the model is told."""

    reason: str


class Hook:
    """A function that the agent asks before or after it does something (from Wire 1.8 on).

    Args:
        event: the agent's event, for example `PreToolUse`, `PostToolUse`, `UserPromptSubmit` or `Stop`.
        handler: a plain or async function that takes the `HookRequest` and returns None to go on, or a `Block`.
        matcher: a regular expression, in the syntax of Python's `re`, for the target (for tool hooks the tool's name);
            None or "" (the default): any target. It may also stand before the handler.
        timeout: seconds that it may take, or a `timedelta`; None: the agent's own 30.
        on_error: what counts where the function fails or takes too long.

    >>> Hook("PreToolUse", lambda request: Block("not today"), "Shell")
    Hook('PreToolUse', 'Shell')
    """

    __slots__ = ("_event", "_handler", "_matcher", "_on_error", "_timeout")

    @overload
    def __init__(
        self,
        event: HookEvent,
        handler: HookHandler,
        matcher: str | None = None,
        timeout: Seconds = None,
        on_error: Literal["allow", "block"] = "allow",
    ) -> None: ...
    @overload
    def __init__(
        self,
        event: HookEvent,
        matcher: str | None,
        handler: HookHandler,
        timeout: Seconds = None,
        on_error: Literal["allow", "block"] = "allow",
    ) -> None: ...
    def __init__(self, event: HookEvent, *given: Any, **named: Any) -> None:
        first = ("handler", "matcher") if not given or callable(given[0]) else ("matcher", "handler")
        order = (*first, "timeout", "on_error")
        if len(given) > len(order):
            raise TypeError(f"Hook() takes at most {len(order) + 1} arguments, got {len(given) + 1}")
        values: dict[str, Any] = {"handler": None, "matcher": None, "timeout": None, "on_error": "allow"}
        for name in named:
            if name not in values:
                raise TypeError(
                    f"Hook() has no parameter {name!r}; it has event, handler, matcher, timeout and on_error"
                )
            if name in order[: len(given)]:
                raise TypeError(f"Hook() got two values for {name!r}")
        values.update(zip(order, given))
        values.update(named)
        handler: Any = values["handler"]
        matcher: Any = values["matcher"]
        timeout: Any = values["timeout"]
        on_error: Any = values["on_error"]
        if not callable(handler):
            raise InvalidOption(f"hooks: the handler of {event!r} is no function: {handler!r}", "hooks")
        self._event: HookEvent = event
        self._matcher: str | None = matcher
        self._handler: HookHandler = values["handler"]
        self._timeout: float | None = seconds(timeout)
        self._on_error: Literal["allow", "block"] = on_error

    @property
    def event(self) -> HookEvent:
        """The agent's event that it is on."""
        return self._event

    @property
    def matcher(self) -> str | None:
        """Which targets it is for."""
        return self._matcher

    @property
    def handler(self) -> HookHandler:
        """The function that decides."""
        return self._handler

    @property
    def timeout(self) -> float | None:
        """Seconds that the function may take."""
        return self._timeout

    @property
    def on_error(self) -> Literal["allow", "block"]:
        """What counts where the function fails."""
        return self._on_error

    def __repr__(self) -> str:
        return f"Hook({self._event!r}, {self._matcher!r})"
