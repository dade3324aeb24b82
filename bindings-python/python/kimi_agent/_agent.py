"""Agents, which open any number of sessions, for coroutines."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _native
from ._handlers import Handlers
from ._loop import LoopMailbox
from ._opening import Opening, Owner
from ._session import SessionOpening

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._interface import Begin, Callbacks
    from ._option_types import AgentOptions, AgentSessionOptions, Seconds, StrPath
    from ._results import SessionInfo

__all__ = ["Agent", "AgentOpening", "open_agent"]


class Agent(Owner[_native.Agent]):
    """An agent that has any number of sessions at once. See `open_agent`."""

    __slots__ = ()

    _name = "an Agent"

    def create_session(self, **options: Unpack[AgentSessionOptions]) -> SessionOpening:
        """Opens a session: to await, or to enter with `async with`.

        The options are those of `kimi_agent.create_session`, but for those that are the agent's: `InvalidOption`.
        """
        return SessionOpening(options, _Origin(self))

    def resume(self, session_id: str, /, **options: Unpack[AgentSessionOptions]) -> SessionOpening:
        """Goes on with a session: `create_session` with a `session_id`."""
        return SessionOpening(options, _Origin(self, resume=session_id))

    def fork(self, session_id: str, /, **options: Unpack[AgentSessionOptions]) -> SessionOpening:
        """Opens a session that begins with the past of another, which stays as it is.

        Raises `Unsupported` where the agent can't, as none that speaks Wire can.
        """
        return SessionOpening(options, _Origin(self, fork=session_id))

    async def list_sessions(self, work_dir: StrPath | None = None) -> list[SessionInfo]:
        """The sessions that the agent keeps, those of other processes included; only those of `work_dir`, if given.

        Raises `Unsupported` where the agent can't list them, as none that speaks Wire can.
        """
        within = None if work_dir is None else os.fspath(work_dir)
        found = await self._mailbox.call(self._native.list_sessions, within)
        from ._results import SessionInfo

        return [SessionInfo(**session) for session in found]

    async def close(self, timeout: Seconds = None) -> None:
        """Closes all sessions and waits until no process is left. Closing twice is fine.

        `timeout`, in seconds, overrides `close_timeout` for the sessions and the processes. 0 kills at once.
        """
        await super().close(timeout)

    def __repr__(self) -> str:
        return "<Agent>"


class _Origin:
    """How an agent opens a session, which keeps it open."""

    __slots__ = ("_agent", "_fork", "_resume")

    def __init__(self, agent: Agent, *, resume: str | None = None, fork: str | None = None) -> None:
        self._agent = agent
        self._resume = resume
        self._fork = fork

    def open(
        self, mailbox: _native.Mailbox, key: int, options: Mapping[str, Any], callbacks: Callbacks
    ) -> tuple[_native.Session, int]:
        self._agent._mailbox.check()
        try:
            return self._agent._native.create_session(key, self._resume, self._fork, options, callbacks)
        finally:
            # As in begun().
            del options


class AgentOpening(Opening[_native.Agent, Agent]):
    """What `open_agent` returns: to await, or to enter with `async with`."""

    __slots__ = ()

    _what = "agent"
    _by = "open_agent"

    def _begin(self) -> Begin[_native.Agent]:
        return _native.Agent.open

    async def _made(self, begun: _native.Agent, mailbox: LoopMailbox, handlers: Handlers) -> Agent:
        return Agent(begun, mailbox, handlers)


def open_agent(**options: Unpack[AgentOptions]) -> AgentOpening:
    """Opens an agent, whose sessions share one process where its protocol can; else each gets its own.

    `async with open_agent(executable="kimi") as agent: …`, or `agent = await open_agent(…)` and `await agent.close()`.
    Nothing is started before the first session.

    >>> import asyncio
    >>> from kimi_agent.testing import scripted_agent
    >>> async def main():
    ...     async with open_agent(executable=scripted_agent([[{"text": "Hello!"}]])) as agent:
    ...         first, second = await asyncio.gather(_open(agent), _open(agent))
    ...         turns = first.prompt("Say hello"), second.prompt("And you")
    ...         return [(await turn.result()).text for turn in turns]
    >>> async def _open(agent):
    ...     return await agent.create_session(work_dir=".")
    >>> asyncio.run(main())
    ['Hello!', 'Hello!']
    """
    return AgentOpening(options)
