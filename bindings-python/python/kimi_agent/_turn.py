"""Turns and replays for coroutines. tools/generate_sync.py makes `kimi_agent.sync` from the public names."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, overload

from . import _native
from ._errors import KimiAgentError, OutputInvalid
from ._handlers import Handlers, serving_job
from ._hints import no_attribute, not_iterable
from ._input import encode_input, given_answer, request_reference
from ._loop import LoopMailbox, called
from ._output import T_co
from ._stream import EventIterator, Steps, Stream, TextStream

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._interface import Answer, Request
    from ._option_types import Approval, QuestionAnswer, UserInput
    from ._output import OutputCheck
    from ._results import PromptResult
    from ._session import Session
    from ._wire import ApprovalRequest, QuestionRequest, TokenUsage

__all__ = ["Replay", "Turn"]


class Turn(Stream, Generic[T_co]):
    """The agent's answer to a prompt. It runs from the start, even if no loop reads it.

    `Session.prompt` and `prompt` return it. `async for event in turn` gives its events as they come, `turn.steps` the
    same step by step, `turn.text_stream` only the answer's text. `await turn.result()` alone runs it to its end. A turn
    that still runs is cancelled when its `async with` block ends, and when the program drops the last reference to it.

    Awaiting a turn is the same as awaiting `turn.result()`.

    >>> turn = session.prompt("What is in this directory?")
    >>> async for event in turn:
    ...     match event:
    ...         case TextPart(text=text):
    ...             print(text)
    ...         case ToolCall(function=function):
    ...             print("Tool:", function.name)
    There are 3 files.
    >>> result = await turn.result()
    >>> result.status
    'finished'
    """

    __slots__ = ("_check", "_handlers", "_output", "_session")

    def __init__(
        self,
        native: _native.Turn,
        mailbox: LoopMailbox,
        handlers: Handlers,
        check: OutputCheck | None,
        session: Session[Any] | None = None,
    ) -> None:
        super().__init__(native, mailbox)
        self._handlers = handlers
        self._check = check
        # The value of the type, once the result has been asked for.
        self._output: tuple[Any] | None = None
        # A turn keeps its session open.
        self._session = session

    @property
    def id(self) -> str:
        """The turn's id, unique in the session."""
        return self._native.id

    @property
    def usage(self) -> TokenUsage:
        """The tokens that the turn has used until now."""
        return self._native.usage()

    @property
    def discarded(self) -> int:
        """The number of events that were dropped because the buffer (`event_buffer_bytes`) was full.

        Events are dropped only while `result()` waits without a reader, and after `cancel()`.
        """
        return self._native.discarded

    @property
    def steps(self) -> Steps:
        """Iterates over the turn step by step: `async for step in turn.steps`, then `async for event in step`."""
        return Steps(self)

    @property
    def text_stream(self) -> TextStream:
        """Iterates over the answer's text as it comes: `async for piece in turn.text_stream` gives plain strings.

        No piece is empty. Thoughts and the text of subagents are left out. If the agent names its messages, a blank
        line is between two messages of one step. It reads the turn, so a loop over the turn cannot read it at the same
        time.
        """
        return TextStream(self)

    def __aiter__(self) -> EventIterator:
        return EventIterator(self)

    def __await__(self) -> Generator[Any, None, PromptResult[T_co]]:
        return self.result().__await__()

    async def result(self) -> PromptResult[T_co]:
        """Waits for the end of the turn and returns its outcome.

        A turn that was cancelled or reached its limit of steps has a result, too. `PromptResult.raise_for_status`
        raises for it.

        It can be called again, and takes no events away from a reader: they wait in the buffer, also for a loop that
        starts later. If the buffer is full and nobody reads, further events are dropped and counted in `discarded`, so
        that the turn always ends. If nobody reads, a request that waits for `respond()` is rejected after one second (a
        question: dismissed).

        Cancelling the wait does not end a turn that the program still holds. Any other turn is cancelled, unless
        something else reads it or waits for it.

        Returns:
            The status, the text of the last step, the value of `output`, the tokens and the tool calls.

        Raises:
            TurnInProgress: A handler of this turn calls this, and the two would wait for each other.
            OutputInvalid: The model returned no valid value of `output`. If a validator of the type failed itself,
                `__cause__` is its exception.
            BudgetExceeded: The turn used more than a budget allows.
            KimiAgentError: Another error that ended the turn, for example `AgentExited` or an `RpcError`.

        >>> result = await session.prompt("What is in this directory?").result()
        >>> result.status, result.text
        ('finished', 'There are 3 files.')
        """
        try:
            return await self._result(serving_job())
        except asyncio.CancelledError:
            # As in Stream: the traceback does not keep the turn.
            del self
            raise

    async def _result(self, within: int | None) -> PromptResult[T_co]:
        self._mailbox.check()
        try:
            if self._reader is None and self._native.outcome() is None:
                # A loop that another task is about to start counts as a reader.
                await asyncio.sleep(0)
            outcome = await self._mailbox.wait(called(self._native.result, within))
        except OutputInvalid as error:
            if self._check is not None:
                error.__cause__ = self._check.take_failure(error)
            raise
        except asyncio.CancelledError:
            self._wait_cancelled()
            del self
            raise
        from ._results import result_of, value_of

        if self._output is None:
            self._output = (value_of(outcome, self._check),)
        return result_of({**outcome, "output": self._output[0]})

    async def cancel(self) -> None:
        """Cancels the turn and waits until it has ended. Does nothing if it has ended.

        Raises:
            Timeout: The agent does not answer within `cancel_timeout`. The session is closed.

        >>> turn = session.prompt("Write a book")
        >>> await turn.cancel()
        >>> result = await turn.result()
        >>> result.status
        'cancelled'
        """
        # The events that the program has got leave capacity for those that follow.
        self._report()
        await self._mailbox.call(self._native.cancel)

    async def steer(self, content: UserInput) -> None:
        """Says something to the model while the turn runs (from Wire 1.4 on; over ACP with Claude Code and Codex).

        A `SteerInput` event says that it has reached the model.

        Args:
            content: Text, a content part, or a list of texts and parts.

        Raises:
            NoActiveTurn: The turn has ended.
            Unsupported: The agent cannot be steered. `session.capabilities.steer` is then False.
            InvalidOption: The content is wrong.

        >>> turn = session.prompt("Fix the tests")
        >>> await turn.steer("Only the unit tests")
        >>> result = await turn.result()
        >>> result.text
        'You said: Only the unit tests'
        """
        await self._mailbox.call(self._native.steer, encode_input(content))

    async def cancel_subagent(self, session_id: str) -> None:
        """Stops the work of a subagent, while the turn and its other subagents continue (over ACP).

        The open requests of the subagent are answered as cancelled.

        Args:
            session_id: The `session_id` of a `SubagentEvent`.

        Raises:
            Unsupported: The agent does not permit it for this subagent, or cannot cancel subagents at all.
            InvalidOption: No subagent has this session.

        >>> async for event in turn:
        ...     if isinstance(event, SubagentEvent) and event.session_id:
        ...         await turn.cancel_subagent(event.session_id)
        """
        await self._mailbox.call(self._native.cancel_subagent, session_id)

    @overload
    async def respond(self, request: ApprovalRequest, answer: Approval) -> None: ...
    @overload
    async def respond(self, request: QuestionRequest, answer: QuestionAnswer | None) -> None: ...
    @overload
    async def respond(self, request: str, answer: Answer) -> None: ...
    async def respond(self, request: Request, answer: Answer) -> None:
        """Answers a request of this turn, if `on_approval` or `on_question` is "manual".

        Args:
            request: The request, or its id.
            answer: The value that the handler would return. None dismisses a question.

        Raises:
            InvalidOption: The answer does not fit, or there is no such request. The request still waits.

        >>> async with create_session(work_dir=".", on_approval="manual") as session:
        ...     turn = session.prompt("Build it")
        ...     async for event in turn:
        ...         if isinstance(event, ApprovalRequest):
        ...             print(event.description)
        ...             await turn.respond(event, "approve")
        Run `make`
        """
        await self._mailbox.call(self._native.respond, request_reference(request), given_answer(answer))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._native.outcome() is not None:
            return
        try:
            await self.cancel()
        except KimiAgentError:
            # The block was left by another exception, or the turn has ended: the next call reports what is wrong.
            if error is None and self._native.outcome() is None:
                raise

    def __repr__(self) -> str:
        outcome = self._native.outcome()
        # Of an error its parts, which are a tuple.
        state = "running" if outcome is None else "failed" if isinstance(outcome, tuple) else outcome["status"]
        return f"<Turn {self.id} {state}>"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name)


class Replay(Stream):
    """The events of a session's past: `async for event in session.replay()`. Its requests need no answer.

    `Session.replay` returns it.

    >>> result = await session.prompt("What is in this directory?").result()
    >>> async for event in session.replay():
    ...     print(event)
    TurnBegin(user_input='What is in this directory?')
    StepBegin(n=1)
    TextPart(text='There are 3 files.')
    TurnEnd()
    """

    __slots__ = ("_session",)

    def __init__(self, native: _native.Turn, mailbox: LoopMailbox, session: Session[Any]) -> None:
        super().__init__(native, mailbox)
        self._session = session

    def __aiter__(self) -> EventIterator:
        return EventIterator(self)

    if not TYPE_CHECKING:

        def __await__(self) -> NoReturn:
            not_iterable(self, "`async for`; for a list: `[event async for event in session.replay()]`")
