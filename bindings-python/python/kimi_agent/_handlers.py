"""Calls the program's functions for the core."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import itertools
import logging
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

from ._encode import to_jsonable
from ._errors import InvalidOption
from ._interface import Callbacks
from ._message import Message
from ._options import Block, Hook, Reject
from ._tool import ExternalTool, ToolArgumentError, is_async
from ._wire import ToolReturnValue

__all__ = ["Handlers", "encode_answer", "serving_job"]

_logger = logging.getLogger("kimi_agent")
_keys = itertools.count(1)
_RESPONDERS = ("on_approval", "on_question")
_OBSERVERS = ("on_event", "on_stderr")
_TOLD = ("event", "stderr")
# In a handler that a turn waits for: the id of its job, and the task or thread that the handler runs in.
_serving: contextvars.ContextVar[tuple[int, weakref.ref[Any]] | None] = contextvars.ContextVar(
    "kimi_agent_serving", default=None
)
Job = asyncio.Task[tuple[Any, Union[str, None]]]
_NAMES = {"approval": "on_approval", "question": "on_question", "event": "on_event", "stderr": "on_stderr"}


class Handlers:
    """The functions of one session, and the context that they are called in."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.key = next(_keys)
        self.context = contextvars.copy_context()
        self.turn_context: contextvars.Context | None = None
        self.functions: dict[str, Any] = {}
        for name in (*_RESPONDERS, *_OBSERVERS):
            self.functions[name] = _function(name, options.get(name))
        made = "an ExternalTool (@tool makes one of a function)"
        self.tools: list[ExternalTool] = _instances("tools", options.get("tools"), ExternalTool, made)
        self.hooks: list[Hook] = _instances("hooks", options.get("hooks"), Hook, "a Hook")
        self._latest: dict[str, Job] = {}

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

    def start(self, job_id: int, kind: str, index: int | None, payload: Any, in_turn: bool) -> Job:
        """Starts a job as a task on the running loop, in the context of whoever opened the session or turn."""
        context = self.turn_context if in_turn and self.turn_context is not None else self.context
        name, function = self._find(kind, index)
        before = self._latest.get(kind)
        serving = job_id if in_turn else None
        job = context.run(asyncio.get_running_loop().create_task, _run(name, kind, function, payload, before, serving))
        if kind in _TOLD:
            # What is only told is told in order.
            self._latest[kind] = job
        return job

    def _find(self, kind: str, index: int | None) -> tuple[str, Callable[[Any], Any]]:
        if kind == "tool" and index is not None:
            return f"tool {self.tools[index].name}", self.tools[index].handler
        if kind == "hook" and index is not None:
            return f"hook on {self.hooks[index].event}", self.hooks[index].handler
        return _NAMES[kind], self.functions[_NAMES[kind]]


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


async def _run(
    name: str, kind: str, function: Callable[[Any], Any], payload: Any, before: Job | None, serving: int | None
) -> tuple[Any, str | None]:
    """The answer of a job, or the text of what went wrong."""
    try:
        if serving is not None and (task := asyncio.current_task()) is not None:
            _serving.set((serving, weakref.ref(task)))
        if before is not None and not before.done():
            await asyncio.wait([before])
        return encode_answer(await _invoke(function, payload), kind), None
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise
    except ToolArgumentError as mistake:
        # The model's mistake, not the program's.
        _logger.info("%s: %s", name, mistake)
        return None, str(mistake)
    except BaseException as failure:
        _logger.error("%s failed", name, exc_info=failure)
        return None, _said(failure)


def _said(failure: BaseException) -> str:
    """What an exception says, for the model or the program; the name of its class where that is little."""
    text = str(failure)
    # A KeyError's text is the key alone.
    if not text or isinstance(failure, KeyError) or not isinstance(failure, Exception):
        return f"{type(failure).__name__}: {text}" if text else type(failure).__name__
    return text


async def _invoke(function: Callable[[Any], Any], payload: Any) -> Any:
    result = function(payload) if is_async(function) else await _in_thread(function, payload)
    # A plain function may hand back a coroutine, as a lambda around one does.
    return await result if inspect.isawaitable(result) else result


async def _in_thread(function: Callable[[Any], Any], payload: Any) -> Any:
    """A thread of its own, so that the function may block for as long as it likes, and the program may still end."""
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
            # Neither of these can pass through a future; sys.exit() in a handler does not end the program.
            carrier = RuntimeError(f"{type(failure).__name__}: {failure}")
            carrier.__cause__ = failure
            future.set_exception(carrier)

    def run() -> Any:
        serving = _serving.get()
        if serving is not None:
            _serving.set((serving[0], weakref.ref(threading.current_thread())))
        return function(payload)

    def work() -> None:
        value, failure = None, None
        try:
            value = context.run(run)
        except BaseException as error:
            failure = error
        try:
            loop.call_soon_threadsafe(settle, value, failure)
        except RuntimeError:
            # The loop is closed: nobody waits any more.
            _logger.debug("a handler ended after its event loop")

    threading.Thread(target=work, name="kimi-agent-handler", daemon=True).start()
    return await future


def encode_answer(value: Any, kind: str | None = None) -> Any:
    """What a function returned, as the JSON that the core takes."""
    if kind in _TOLD:
        return None
    if isinstance(value, Reject):
        return {"reject": value.feedback}
    if isinstance(value, Block):
        return {"block": value.reason}
    if kind == "tool" and _is_parts(value):
        return ToolReturnValue.ok([value] if isinstance(value, Message) else list(value)).to_payload()
    return to_jsonable(value)


def _is_parts(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and all(_is_parts(part) and isinstance(part, Message) for part in value)
    return isinstance(value, Message) and value._wire_type == "ContentPart"


def _function(name: str, value: Any) -> Any:
    if value is None or callable(value) or (value == "manual" and name in _RESPONDERS):
        return value
    manual = ' or "manual"' if name in _RESPONDERS else ""
    raise InvalidOption(f"{name}: expected a function{manual}, got {value!r}", name)


def _instances(name: str, values: Sequence[Any] | None, kind: type, expected: str) -> list[Any]:
    if values is None:
        return []
    if isinstance(values, kind) or not isinstance(values, Sequence) or isinstance(values, str):
        raise InvalidOption(f"{name}: expected a list, got {values!r}", name)
    for at, value in enumerate(values):
        if not isinstance(value, kind):
            raise InvalidOption(f"{name}[{at}]: expected {expected}, got {value!r}", name)
    return list(values)
