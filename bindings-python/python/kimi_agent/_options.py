"""The small types that handlers are given by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from ._errors import InvalidOption

if TYPE_CHECKING:
    from ._option_types import HookEvent, HookHandler

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
        event: the agent's event, as `PreToolUse`, `PostToolUse`, `UserPromptSubmit` or `Stop`.
        matcher: a regular expression of the agent's for the target (for tool hooks the tool's name); None or
            "": whatever the target is.
        handler: a plain or async function that takes the `HookRequest` and returns None to go on, or a `Block`.
        timeout: seconds that it may take; None: the agent's own 30.
        on_error: what counts where the function fails or takes too long.

    >>> Hook("PreToolUse", "Shell", lambda request: Block("not today"))
    Hook('PreToolUse', 'Shell')
    """

    __slots__ = ("_event", "_handler", "_matcher", "_on_error", "_timeout")

    def __init__(
        self,
        event: HookEvent,
        matcher: str | None,
        handler: HookHandler,
        timeout: float | None = None,
        on_error: Literal["allow", "block"] = "allow",
    ) -> None:
        if not callable(handler):
            raise InvalidOption(f"hooks: the handler of {event!r} is no function: {handler!r}", "hooks")
        self._event: HookEvent = event
        self._matcher = matcher
        self._handler = handler
        self._timeout = timeout
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
