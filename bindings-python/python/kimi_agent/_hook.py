"""`Hook`: a handler that the agent calls before or after an action."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from ._encode import seconds
from ._errors import InvalidOption

if TYPE_CHECKING:
    from re import Pattern

    from ._hook_types import HookEvent, HookHandler, Seconds

__all__ = ["Hook"]


class Hook:
    """A handler that the agent calls before or after an action (from Wire 1.8 on).

    Args:
        event: The agent's event, for example `PreToolUse`, `PostToolUse`, `UserPromptSubmit` or `Stop`.
        handler: A plain or async function that takes the `HookRequest`. It returns None to allow, or a `Block`.
        matcher: A regular expression (Python's `re`, as text or compiled) for the target, for example the name of a
            tool. It can also stand before the handler. Default: any target.
        timeout: The longest time of a call, in seconds or as a `timedelta`. Default: the agent's own, 30 seconds.
        on_error: The answer if the handler fails or takes too long. Default: "allow".

    Raises:
        InvalidOption: The handler is not a function.

    >>> Hook("PreToolUse", lambda request: Block("not today"), "Shell")
    Hook('PreToolUse', 'Shell')
    """

    __slots__ = ("_event", "_handler", "_matcher", "_on_error", "_timeout")

    @overload
    def __init__(
        self,
        event: HookEvent,
        handler: HookHandler,
        matcher: str | Pattern[str] | None = None,
        timeout: Seconds = None,
        on_error: Literal["allow", "block"] = "allow",
    ) -> None: ...
    @overload
    def __init__(
        self,
        event: HookEvent,
        matcher: str | Pattern[str] | None,
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
            raise InvalidOption(
                f"invalid option `hooks`: the handler of {event!r} is not a function: {handler!r}", "hooks"
            )
        self._event: HookEvent = event
        self._matcher: str | Pattern[str] | None = matcher
        self._handler: HookHandler = values["handler"]
        self._timeout: float | None = seconds(timeout)
        self._on_error: Literal["allow", "block"] = on_error

    @property
    def event(self) -> HookEvent:
        """The agent's event, for example `PreToolUse`."""
        return self._event

    @property
    def matcher(self) -> str | Pattern[str] | None:
        """The regular expression for targets. None: any target."""
        return self._matcher

    @property
    def handler(self) -> HookHandler:
        """The function that decides."""
        return self._handler

    @property
    def timeout(self) -> float | None:
        """The longest time of a call in seconds. None: the agent's own."""
        return self._timeout

    @property
    def on_error(self) -> Literal["allow", "block"]:
        """The answer if the handler fails or takes too long."""
        return self._on_error

    def __repr__(self) -> str:
        return f"Hook({self._event!r}, {self._matcher!r})"
