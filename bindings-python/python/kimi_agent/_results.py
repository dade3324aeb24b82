"""What calls return. Loaded when first needed: dataclasses take as long to import as the rest of this package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ._errors import MaxStepsReached, TurnCancelled

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._wire import TokenUsage

__all__ = ["Capabilities", "PromptResult", "SessionInfo"]


@dataclass(frozen=True)
class PromptResult:
    """What came of a turn."""

    status: Literal["finished", "cancelled", "max_steps_reached"]
    """How it ended."""
    steps: int
    """How many steps it had."""
    text: str
    """The text of its last step."""
    usage: TokenUsage
    """The tokens that it took."""

    def raise_for_status(self) -> Self:
        """Raises `TurnCancelled` or `MaxStepsReached` unless the turn has finished; returns the result itself."""
        if self.status == "cancelled":
            raise TurnCancelled("the turn was cancelled before it was finished; the session can still be used")
        if self.status == "max_steps_reached":
            hint = "prompt again to continue, or raise `max_steps_per_turn`"
            raise MaxStepsReached(f"the turn reached its limit of {self.steps} steps; {hint}", self.steps)
        return self


@dataclass(frozen=True)
class Capabilities:
    """What an agent can do."""

    external_tools: bool
    """The program can offer tools."""
    questions: bool
    """The agent can ask questions."""
    approval_feedback: bool
    """A reject may carry feedback that the model sees."""
    steer: bool
    """A running turn can be steered."""
    plan_mode: bool
    """Plan mode can be switched."""
    replay: bool
    """A session's past can be replayed."""
    hooks: list[str]
    """The events that hooks can be set on; empty where there are none."""


@dataclass(frozen=True)
class SessionInfo:
    """A session that an agent keeps."""

    id: str
    """Its id, to resume it by."""
    work_dir: str
    """The directory that it works in."""
    title: str | None
    """What the agent calls it for people, if it does."""
    updated_at: str | None
    """When something last happened in it, in the words of ISO 8601, if the agent says."""
