"""Agents for coroutines. tools/generate_sync.py makes `kimi_agent.sync` from the public names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _native
from ._encode import kind_of
from ._errors import InvalidOption
from ._handlers import Handlers
from ._loop import LoopMailbox
from ._opening import Opening, Owner
from ._session import SessionOpening

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._interface import Begin, Callbacks
    from ._option_types import AgentOptions, AgentSessionSettings, Seconds, StrPath
    from ._output import OutputType, V
    from ._results import SessionInfo

__all__ = ["Agent", "AgentOpening", "open_agent"]


class Agent(Owner[_native.Agent]):
    """An agent with any number of sessions at the same time. `open_agent` opens it.

    >>> async with open_agent() as agent:
    ...     first = await agent.create_session(work_dir=".")
    ...     second = await agent.create_session(work_dir=".")
    ...     for turn in [first.prompt("What is in this directory?"), second.prompt("What is it for?")]:
    ...         result = await turn.result()
    ...         print(result.text)
    There are 3 files.
    There are 3 files.
    """

    __slots__ = ()

    _name = "an Agent"

    def create_session(
        self, *, output: OutputType[V] | None = None, **options: Unpack[AgentSessionSettings]
    ) -> SessionOpening[V]:
        """Opens a session of this agent: `async with agent.create_session(work_dir=".") as session: …`.

        Args:
            output: The value that each turn of the session must return, as for `create_session`. Default: None.
            options: All options of `AgentSessionOptions`: those of `create_session`, except for the agent's process.

        Returns:
            The session, once it is awaited or entered.

        Raises:
            InvalidOption: An option is wrong, or belongs to `open_agent`.

        >>> async with agent.create_session(work_dir=".") as session:
        ...     result = await session.prompt("What is in this directory?").result()
        >>> result.text
        'There are 3 files.'
        """
        return SessionOpening({**options, "output": output}, _Origin(self))

    def resume(
        self, session_id: str, /, *, output: OutputType[V] | None = None, **options: Unpack[AgentSessionSettings]
    ) -> SessionOpening[V]:
        """Resumes a session. The same as `create_session` with a `session_id`.

        Args:
            session_id: The id of the session.
            output: The value that each turn of the session must return, as for `create_session`. Default: None.
            options: All options of `AgentSessionOptions`, except `session_id`.

        Returns:
            The session, once it is awaited or entered.

        Raises:
            InvalidOption: The id is missing, or an option is wrong or belongs to `open_agent`.

        >>> session = await agent.create_session(work_dir=".")
        >>> session_id = session.id
        >>> await session.close()
        >>> async with agent.resume(session_id, work_dir=".") as session:
        ...     print(session.id == session_id)
        True
        """
        return SessionOpening({**options, "output": output}, _Origin(self, resume=_existing("resume", session_id)))

    def fork(
        self, session_id: str, /, *, output: OutputType[V] | None = None, **options: Unpack[AgentSessionSettings]
    ) -> SessionOpening[V]:
        """Opens a session that begins with the history of another, which does not change.

        Args:
            session_id: The id of the other session.
            output: The value that each turn of the session must return, as for `create_session`. Default: None.
            options: All options of `AgentSessionOptions`, except `session_id`.

        Returns:
            The session, once it is awaited or entered. It has an id of its own.

        Raises:
            Unsupported: The agent cannot fork sessions. Over Wire no agent can.

        >>> session = await agent.create_session(work_dir=".")
        >>> async with agent.fork(session.id, work_dir=".") as other:
        ...     print(other.id == session.id)
        False
        """
        return SessionOpening({**options, "output": output}, _Origin(self, fork=_existing("fork", session_id)))

    async def list_sessions(self, work_dir: StrPath | None = None, *, archived: bool = False) -> list[SessionInfo]:
        """Returns the sessions that the agent has stored, also those of other processes.

        Args:
            work_dir: Only sessions of this directory. Default: all.
            archived: Whether to return the archived sessions instead. Default: False.

        Raises:
            Unsupported: The agent cannot list sessions, or cannot archive them. Over Wire no agent can.

        >>> for info in await agent.list_sessions():
        ...     print(info.id, info.title)
        """
        within = None if work_dir is None else os.fspath(work_dir)
        found = await self._mailbox.call(self._native.list_sessions, within, archived)
        from ._results import SessionInfo

        return [SessionInfo(**session) for session in found]

    async def delete_session(self, session_id: str, /) -> None:
        """Deletes a stored session with its messages. If it is open in this program, close it first.

        Args:
            session_id: The id of the session.

        Raises:
            InvalidOption: The id is empty.
            Unsupported: The agent cannot delete sessions. Over Wire no agent can.
            RpcError: The agent refuses, for example because the session does not exist.

        >>> session = await agent.create_session(work_dir=".")
        >>> await session.close()
        >>> await agent.delete_session(session.id)
        """
        await self._mailbox.call(self._native.delete_session, _existing("delete_session", session_id))

    async def rename_session(self, session_id: str, title: str, /) -> str:
        """Gives a stored session another title. The session can be open.

        Args:
            session_id: The id of the session.
            title: The new title.

        Returns:
            The title that the agent has stored. It can differ from the argument, for example in its length.

        Raises:
            InvalidOption: The id or the title is empty.
            Unsupported: The agent cannot rename sessions. Over Wire no agent can.
            RpcError: The agent refuses, for example because the session does not exist.

        >>> session = await agent.create_session(work_dir=".")
        >>> await agent.rename_session(session.id, "Repair of the parser")
        'Repair of the parser'
        """
        if not isinstance(title, str):
            raise InvalidOption(f"invalid option `title`: expected text, got {kind_of(title)}", "title")
        session_id = _existing("rename_session", session_id)
        return str(await self._mailbox.call(self._native.rename_session, session_id, title))

    async def archive_session(self, session_id: str, /) -> None:
        """Hides a stored session from `list_sessions`. Its messages are kept. If it is open, the agent closes it.

        Args:
            session_id: The id of the session.

        Raises:
            InvalidOption: The id is empty.
            Unsupported: The agent cannot archive sessions. Over Wire no agent can.
            RpcError: The agent refuses, for example because the session does not exist.

        >>> session = await agent.create_session(work_dir=".")
        >>> await session.close()
        >>> await agent.archive_session(session.id)
        >>> [info.archived for info in await agent.list_sessions(archived=True)]
        [True]
        """
        await self._mailbox.call(self._native.archive_session, _existing("archive_session", session_id), True)

    async def unarchive_session(self, session_id: str, /) -> None:
        """Shows an archived session in `list_sessions` again. It does not open the session.

        Args:
            session_id: The id of the session.

        Raises:
            InvalidOption: The id is empty.
            Unsupported: The agent cannot archive sessions. Over Wire no agent can.
            RpcError: The agent refuses, for example because the session does not exist.

        >>> for info in await agent.list_sessions(archived=True):
        ...     await agent.unarchive_session(info.id)
        """
        await self._mailbox.call(self._native.archive_session, _existing("unarchive_session", session_id), False)

    async def close(self, timeout: Seconds = None) -> None:
        """Closes all sessions and waits until no process is left. Does nothing if the agent is closed.

        Args:
            timeout: The longest wait for the sessions and the processes, in seconds or as a `timedelta`. With 0 the
                processes are killed at once. Default: the option `close_timeout`.

        >>> agent = await open_agent()
        >>> session = await agent.create_session(work_dir=".")
        >>> await agent.close()
        >>> session.state
        'closed'
        """
        await super().close(timeout)

    def __repr__(self) -> str:
        agent, state, pid = self._native.described()
        return f"<Agent {agent!r} {state}{'' if pid is None else f' pid={pid}'}>"


def _existing(method: str, session_id: object) -> str:
    """Returns the id of a session that exists. An empty or missing id would open a new session instead."""
    if isinstance(session_id, str) and session_id:
        return session_id
    need = f"`{method}` needs the id of a session as text, got {kind_of(session_id)}"
    source = "take it from `session.id` or `agent.list_sessions()`"
    raise InvalidOption(f"invalid option `session_id`: {need}; {source}", "session_id")


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
    """The result of `open_agent`: await it, or enter it with `async with`.

    >>> opening = open_agent()
    >>> async with opening as agent:
    ...     session = await agent.create_session(work_dir=".")
    """

    __slots__ = ()

    _what = "agent"
    _by = "open_agent"

    def _begin(self) -> Begin[_native.Agent]:
        return _native.Agent.open

    async def _made(self, begun: _native.Agent, mailbox: LoopMailbox, handlers: Handlers) -> Agent:
        return Agent(begun, mailbox, handlers)


def open_agent(**options: Unpack[AgentOptions]) -> AgentOpening:
    """Opens an agent. Its sessions share one process over ACP; over Wire each session has a process of its own.

    `async with open_agent(executable="kimi") as agent: …` closes it at the end of the block. Without a block:
    `agent = await open_agent(executable="kimi")` and `await agent.close()`. The first session starts the process.

    Args:
        options: The options of `AgentOptions`.

    Returns:
        The agent, once it is awaited or entered.

    Raises:
        InvalidOption: An option is wrong, or belongs to `Agent.create_session`.

    >>> async with open_agent() as agent:
    ...     session = await agent.create_session(work_dir=".")
    ...     result = await session.prompt("What is in this directory?").result()
    >>> result.text
    'There are 3 files.'
    """
    return AgentOpening(options)
