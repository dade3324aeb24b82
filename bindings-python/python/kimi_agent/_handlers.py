"""Calls the program's functions for the core."""

from __future__ import annotations

import asyncio
import contextvars
import enum
import inspect
import itertools
import logging
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._encode import kind_of, to_jsonable
from ._errors import InvalidOption
from ._message import Message
from ._options import Block, Hook, Reject
from ._threads import in_thread
from ._tool import ExternalTool, ToolArgumentError, is_async
from ._wire import TextPart, ToolReturnValue

if TYPE_CHECKING:
    from ._interface import Callbacks

__all__ = ["Handlers", "Job", "encode_answer", "serving_job"]

_logger = logging.getLogger("kimi_agent")
_keys = itertools.count(1)
_RESPONDERS = ("on_approval", "on_question")
_OBSERVERS = ("on_event", "on_stderr")
_TOLD = ("event", "stderr")
# In a handler that a turn waits for: the id of its job, and the task or thread that the handler runs in.
_serving: contextvars.ContextVar[tuple[int, weakref.ref[Any]] | None] = contextvars.ContextVar(
    "kimi_agent_serving", default=None
)
# From Python 3.12 on a task can begin at once.
_EAGER: Any = asyncio.Task if sys.version_info >= (3, 12) else None
_NAMES = {"approval": "on_approval", "question": "on_question", "event": "on_event", "stderr": "on_stderr"}


class _Handler:
    """A function of the program's."""

    __slots__ = ("asynchronous", "function", "has_failed", "name")

    def __init__(self, name: str, function: Callable[[Any], Any]) -> None:
        self.name = name
        self.function = function
        # Looked at once: it takes longer than many a handler.
        self.asynchronous = is_async(function)
        self.has_failed = False


class Job:
    """A call of a handler, until it has been answered or nobody waits for it any more."""

    __slots__ = ("_finish", "_open", "id", "loop", "task")

    def __init__(
        self, job_id: int, loop: asyncio.AbstractEventLoop, finish: Callable[[int, Any, str | None], None]
    ) -> None:
        self.id = job_id
        self.loop = loop
        self.task: asyncio.Task[None] | None = None
        self._finish = finish
        self._open = True

    @property
    def awaited(self) -> bool:
        """Somebody waits for its answer."""
        return self._open

    def finish(self, value: Any, error: str | None) -> None:
        """Answers it, from any thread."""
        if self._open:
            self._open = False
            self._finish(self.id, value, error)

    def cancel(self) -> None:
        """Nobody waits for it any more. A thread can't be stopped."""
        self._open = False
        if self.task is not None:
            self.task.cancel()

    def start(self, context: contextvars.Context, work: Coroutine[Any, Any, None]) -> None:
        """Runs a coroutine that answers it, as a task."""
        if _EAGER is not None and self.loop.get_task_factory() is None:
            # Most handlers come to their answer in one go, which then costs no round of the loop.
            self.task = _EAGER(work, loop=self.loop, context=context.copy(), eager_start=True)
        else:
            self.task = context.run(self.loop.create_task, work)
            # One that is cancelled before it begins answers nothing by itself.
            self.task.add_done_callback(self._never_began)

    def begin(self) -> None:
        """Its task runs, and will answer."""
        if self.task is not None:
            # A callback would cost a round of the loop.
            self.task.remove_done_callback(self._never_began)

    def _never_began(self, _: object) -> None:
        self.finish(None, "cancelled")


class Handlers:
    """The functions of one session, and the context that they are called in."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.key = next(_keys)
        self.context = contextvars.copy_context()
        self.turn_context: contextvars.Context | None = None
        self.functions: dict[str, Any] = {}
        for name in (*_RESPONDERS, *_OBSERVERS):
            self.functions[name] = _function(name, options.get(name))
            _check_parameters(name, self.functions[name])
        made = "an ExternalTool (@tool makes one of a function)"
        self.tools: list[ExternalTool] = _instances("tools", options.get("tools"), ExternalTool, made)
        self.hooks: list[Hook] = _instances("hooks", options.get("hooks"), Hook, "a Hook")
        for at, tool in enumerate(self.tools):
            _check_parameters(
                "tools", tool.handler, f"the handler of tools[{at}] ({tool.name})", "the arguments as a dict"
            )
        for at, hook in enumerate(self.hooks):
            _check_parameters("hooks", hook.handler, f"the handler of hooks[{at}] ({hook.event})")
        self._latest: dict[str, asyncio.Task[None]] = {}
        self._known: dict[tuple[str, int | None], _Handler] = {}

    @staticmethod
    def options() -> frozenset[str]:
        """The options that are functions, or hold some."""
        return frozenset({*_RESPONDERS, *_OBSERVERS, "tools", "hooks"})

    def callbacks(self) -> Callbacks:
        """What the core is told of them."""
        return {
            "on_approval": self._responder("on_approval"),
            "on_question": self._responder("on_question"),
            "on_event": self.functions["on_event"] is not None,
            "on_stderr": self.functions["on_stderr"] is not None,
        }

    def _responder(self, name: str) -> Any:
        return "manual" if self.functions[name] == "manual" else self.functions[name] is not None

    def start(self, job: Job, kind: str, index: int | None, payload: Any, in_turn: bool) -> None:
        """Starts a job on the running loop, in the context of whoever opened the session or turn."""
        context = self.turn_context if in_turn and self.turn_context is not None else self.context
        handler = self._find(kind, index)
        if kind in _TOLD:
            # What is only told is told in order.
            before = self._latest.get(kind)
            job.task = context.run(job.loop.create_task, _tell(job, handler, payload, before))
            self._latest[kind] = job.task
        elif handler.asynchronous:
            job.start(context, _answer(job, handler, kind, payload, in_turn))
        else:
            in_thread(context.copy().run, _answer_in_thread, job, handler, kind, payload, in_turn)

    def _find(self, kind: str, index: int | None) -> _Handler:
        handler = self._known.get((kind, index))
        if handler is None:
            if kind == "tool" and index is not None:
                handler = _Handler(f"tool {self.tools[index].name}", self.tools[index].handler)
            elif kind == "hook" and index is not None:
                handler = _Handler(f"hook on {self.hooks[index].event}", self.hooks[index].handler)
            else:
                handler = _Handler(_NAMES[kind], self.functions[_NAMES[kind]])
            self._known[kind, index] = handler
        return handler


def serving_job() -> int | None:
    """The job of the handler that calls this; a turn that waits for it can't be waited for."""
    serving = _serving.get()
    if serving is None:
        return None
    # A task or thread that the handler has started inherits the context, and may well wait: the handler goes on.
    handler = serving[1]()
    own = handler is not None and handler in (_current_task(), threading.current_thread())
    return serving[0] if own else None


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


async def _answer(job: Job, handler: _Handler, kind: str, payload: Any, in_turn: bool) -> None:
    """Calls an asynchronous handler."""
    job.begin()
    try:
        if in_turn and (task := asyncio.current_task(job.loop)) is not None:
            _serving.set((job.id, weakref.ref(task)))
        job.finish(encode_answer(await handler.function(payload), kind), None)
    except asyncio.CancelledError:
        job.finish(None, "cancelled")
        raise
    except BaseException as failure:
        if _is_ctrl_c(failure):
            job.finish(None, "KeyboardInterrupt")
            raise
        _give_up(job, handler, kind, failure)


def _answer_in_thread(job: Job, handler: _Handler, kind: str, payload: Any, in_turn: bool) -> None:
    """Calls a plain handler, on a thread that it may block for as long as it likes."""
    try:
        if in_turn:
            _serving.set((job.id, weakref.ref(threading.current_thread())))
        result = handler.function(payload)
        if inspect.isawaitable(result):
            # As a lambda around a coroutine gives.
            _back_on_loop(job, _answer_awaited(job, handler, kind, result, in_turn))
        else:
            job.finish(encode_answer(result, kind), None)
    except BaseException as failure:
        # sys.exit() in a handler does not end the program. What nobody waits for any more need not be told of.
        if job.awaited:
            _give_up(job, handler, kind, failure)


def _back_on_loop(job: Job, work: Coroutine[Any, Any, None]) -> None:
    context = contextvars.copy_context()
    try:
        job.loop.call_soon_threadsafe(lambda: job.start(context, work) if job.awaited else work.close())
    except RuntimeError:
        # The loop is closed: nobody waits any more.
        work.close()
        _logger.debug("a handler ended after its event loop")


async def _answer_awaited(job: Job, handler: _Handler, kind: str, result: Any, in_turn: bool) -> None:
    async def awaited(_: Any) -> Any:
        return await result

    await _answer(job, _Handler(handler.name, awaited), kind, None, in_turn)


async def _tell(job: Job, handler: _Handler, payload: Any, before: asyncio.Task[None] | None) -> None:
    """Calls a handler that is only told. A loop that ends meanwhile is no failure of its."""
    failed = None
    try:
        if before is not None and not before.done():
            await asyncio.wait([before])
        result = handler.function(payload) if handler.asynchronous else await _told_in_thread(handler.function, payload)
        if inspect.isawaitable(result):
            await result
    except asyncio.CancelledError:
        raise
    except BaseException as failure:
        if _is_ctrl_c(failure):
            raise
        failed = _failed(handler, failure)
    finally:
        job.finish(None, failed)


def _is_ctrl_c(failure: BaseException) -> bool:
    """Whether it is to end the program's event loop.

    Signals reach the main thread only. On any other thread a handler has raised it by itself, and the loop, which may
    be the one of the blocking API, goes on.
    """
    return isinstance(failure, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def _give_up(job: Job, handler: _Handler, kind: str, failure: BaseException) -> None:
    """Answers for a handler that raised something."""
    if kind == "tool" and isinstance(failure, ToolArgumentError):
        # The model's mistake, which it reads and mends; no handler has failed.
        _logger.info("%s: %s", handler.name, failure)
        job.finish(ToolReturnValue.error(str(failure)).to_payload(), None)
    else:
        job.finish(None, _failed(handler, failure))


def _failed(handler: _Handler, failure: BaseException) -> str:
    """Logs that a handler failed, and says why."""
    # Once is enough for the traceback, however many requests follow.
    level = logging.DEBUG if handler.has_failed else logging.WARNING
    handler.has_failed = True
    _logger.log(level, "%s failed", handler.name, exc_info=failure)
    return _said(failure)


def _said(failure: BaseException) -> str:
    """What an exception says, for the model or the program; the name of its class where that is little."""
    try:
        text = str(failure)
    except Exception:
        # Such a class is wrong, but the agent waits for an answer.
        text = ""
    # The text of these is a key, or a value, alone.
    if not text or isinstance(failure, (KeyError, StopIteration)) or not isinstance(failure, Exception):
        return f"{type(failure).__name__}: {text}" if text else type(failure).__name__
    return text


async def _told_in_thread(function: Callable[[Any], Any], payload: Any) -> Any:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: Any, failure: BaseException | None) -> None:
        if future.done():
            return
        if failure is None:
            future.set_result(value)
        elif isinstance(failure, Exception) and not isinstance(failure, StopIteration):
            future.set_exception(failure)
        else:
            # Neither of these can pass through a future.
            carrier = RuntimeError(f"{type(failure).__name__}: {failure}")
            carrier.__cause__ = failure
            future.set_exception(carrier)

    def work() -> None:
        value, failure = None, None
        try:
            value = context.run(function, payload)
        except BaseException as error:
            failure = error
        try:
            loop.call_soon_threadsafe(settle, value, failure)
        except RuntimeError:
            # The loop is closed: nobody waits any more.
            _logger.debug("a handler ended after its event loop")

    in_thread(work)
    return await future


def encode_answer(value: Any, kind: str | None = None) -> Any:
    """What a function returned, as the JSON that the core takes."""
    if kind in _TOLD:
        return None
    if type(value) is str:
        return value
    if isinstance(value, Reject):
        return {"reject": value.feedback}
    if isinstance(value, Block):
        return {"block": value.reason}
    if value is Reject or value is Block:
        text = "feedback" if value is Reject else "reason"
        raise TypeError(
            f'the handler returned the class {value.__name__}, not an object of it: return {value.__name__}("{text}")'
        )
    if kind == "tool" and (parts := _parts(value)) is not None:
        return ToolReturnValue.ok(parts).to_payload()
    encoded = to_jsonable(value)
    if kind != "tool" and isinstance(encoded, str) and not isinstance(value, (str, enum.Enum)):
        # Only what a program plainly says decides, not what something else happens to be in JSON.
        raise TypeError(f"expected text, got an object of the class {type(value).__name__}")
    return encoded


def _parts(value: Any) -> list[Any] | None:
    """A tool's result as content parts: a part, or a list of parts and text. None if it is something else."""
    if isinstance(value, Message):
        return [value] if _is_part(value) else None
    if not isinstance(value, (list, tuple)) or not any(_is_part(item) for item in value):
        return None
    for at, item in enumerate(value):
        if not isinstance(item, str) and not _is_part(item):
            raise TypeError(
                f"the handler returned a list with content parts whose item {at} is {kind_of(item)}: "
                "expected text and content parts only"
            )
    return [TextPart(item) if isinstance(item, str) else item for item in value]


def _is_part(value: Any) -> bool:
    return isinstance(value, Message) and value._wire_type == "ContentPart"


def _function(name: str, value: Any) -> Any:
    if value is None or callable(value) or (value == "manual" and name in _RESPONDERS):
        return value
    manual = ' or "manual"' if name in _RESPONDERS else ""
    raise InvalidOption(f"invalid option `{name}`: expected a function{manual}, got {kind_of(value)}", name)


def _check_parameters(option: str, function: Any, what: str | None = None, given: str | None = None) -> None:
    """Refuses a function that cannot be called with one argument, as all handlers are."""
    if function is None or function == "manual":
        return
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # Of functions written in C it may not be known.
        return
    try:
        signature.bind(None)
    except TypeError as error:
        given = given or {"on_event": "the event", "on_stderr": "the line"}.get(option, "the request")
        raise InvalidOption(
            f"invalid option `{option}`: {what or 'the function'} is called with one argument, {given}, and takes "
            f"{signature}: {error}",
            option,
        ) from None


def _instances(name: str, values: Sequence[Any] | None, kind: type, expected: str) -> list[Any]:
    if values is None:
        return []
    if isinstance(values, kind) or not isinstance(values, Sequence) or isinstance(values, str):
        raise InvalidOption(f"invalid option `{name}`: expected a list of {expected}, got {kind_of(values)}", name)
    for at, value in enumerate(values):
        if not isinstance(value, kind):
            raise InvalidOption(
                f"invalid option `{name}`: {name}[{at}]: expected {expected}, got {kind_of(value)}", name
            )
    return list(values)
