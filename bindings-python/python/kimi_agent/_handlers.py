"""Calls the program's handlers for the core, and encodes their answers."""

from __future__ import annotations

import asyncio
import collections
import contextvars
import enum
import inspect
import itertools
import logging
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ._answers import Block, Reject, answer_fields
from ._encode import kind_of, to_jsonable, valid_unicode
from ._errors import InvalidOption
from ._failures import class_name, failure_text, is_a
from ._hook import Hook
from ._local import ReadyHandler
from ._message import Message
from ._output import OutputCheck, read_output
from ._process import in_this_process, leave_child
from ._threads import awaited_in_thread, in_thread
from ._tool import ExternalTool, ToolArgumentError, is_async
from ._tool_context import ToolContext
from ._wire import TextPart, ToolReturnValue

if TYPE_CHECKING:
    from ._interface import Callbacks
    from ._spans import Tracing

__all__ = ["UNSENDABLE", "Handlers", "Job", "encode_answer", "observe", "observer", "serving_job", "was_logged"]

_logger = logging.getLogger("kimi_agent")
_keys = itertools.count(1)
_MANUAL = "manual"
_RESPONDERS = ("on_approval", "on_question")
_OBSERVERS = ("on_event", "on_stderr")
_SERVICES = ("on_read_file", "on_write_file", "on_terminal")
_OBSERVED = ("event", "stderr")
# In a handler that a turn waits for: the id of its job, and the task or thread that the handler runs in.
_serving: contextvars.ContextVar[tuple[int, weakref.ref[Any]] | None] = contextvars.ContextVar(
    "kimi_agent_serving", default=None
)
# Texts of failures that were logged with their traceback; the core reports them as well.
_logged: collections.deque[str] = collections.deque(maxlen=16)
# From Python 3.12 on a task can begin at once.
_EAGER: Any = asyncio.Task if sys.version_info >= (3, 12) else None
_NAMES = {
    "approval": "on_approval",
    "question": "on_question",
    "event": "on_event",
    "stderr": "on_stderr",
    "read_file": "on_read_file",
    "write_file": "on_write_file",
    "terminal": "on_terminal",
}
# The answers that the agent gets if these handlers fail, for the log.
_DEFAULT_ANSWERS = {
    "on_approval": "The action is rejected. ",
    "on_question": "The question is dismissed. ",
    OutputCheck.name: "The model gets the error, and can return another value. ",
}


# Their failures outside of a turn have no events.
_WITHOUT_EVENTS = ("on_event", "on_progress", "on_stderr")

# Instead of an answer that cannot be sent.
UNSENDABLE = object()


class _Handler:
    """A function of the program, with its name for logs."""

    __slots__ = ("asynchronous", "function", "has_failed", "name", "takes_context")

    def __init__(self, name: str, function: Callable[..., Any], context: str | None = None) -> None:
        """`context`: the parameter that gets the context of a tool's call. If there is one, the payload is a pair."""
        self.name = name
        self.function = function if context is None else _with_context(function, context)
        self.takes_context = context is not None
        # Only once, because this takes longer than many handlers.
        self.asynchronous = is_async(function)
        self.has_failed = False


def _with_context(function: Callable[..., Any], parameter: str) -> Callable[[Any], Any]:
    return lambda payload: function(payload[0], **{parameter: payload[1]})


class Job:
    """A call of a handler, until it is answered or cancelled."""

    __slots__ = ("_call_id", "_context", "_finish", "_open", "_report", "id", "loop", "task")

    def __init__(
        self,
        job_id: int,
        loop: asyncio.AbstractEventLoop,
        finish: Callable[[int, Any, str | None, str | None], None],
        call_id: str | None,
        report: Callable[[int, float | None, str | None], None],
    ) -> None:
        """`call_id`: the ID of a tool's call. `report` takes the progress of a tool."""
        self._call_id = call_id
        self._report = report
        self._context: ToolContext | None = None
        self.id = job_id
        self.loop = loop
        self.task: asyncio.Task[None] | None = None
        self._finish = finish
        self._open = True

    @property
    def awaited(self) -> bool:
        """Whether the core waits for the answer."""
        return self._open

    def finish(self, value: Any, error: str | None, kind: str | None = None) -> None:
        """Reports the answer to the core, or the text of an exception and perhaps its class, from any thread."""
        if self._open:
            self._open = False
            self._finish(self.id, value, error, kind)

    def refuse(self, error: str) -> None:
        """Reports that the answer cannot be sent."""
        self.finish(UNSENDABLE, error)

    def cancel(self) -> None:
        """Drops the answer and cancels the task. A handler in a thread cannot be stopped."""
        self._open = False
        if self._context is not None:
            self._context.cancelled.set()
        if self.task is not None:
            self.task.cancel()

    def make_context(self) -> ToolContext:
        """Returns the context of this call of a tool."""
        self._context = context = ToolContext(self._call_id or "")
        context._report = partial(self._report, self.id)
        return context

    def start(self, context: contextvars.Context, work: Coroutine[Any, Any, None]) -> None:
        """Runs a coroutine that reports the answer, as a task."""
        if _EAGER is not None and self.loop.get_task_factory() is None:
            # Most handlers do not wait, and then cost no round of the loop.
            self.task = _EAGER(work, loop=self.loop, context=context.copy(), eager_start=True)
        else:
            self.task = context.run(self.loop.create_task, work)
            # A task that is cancelled before it begins does not report anything.
            self.task.add_done_callback(self._never_began)

    def begin(self) -> None:
        """Notes that the task runs and will report the answer."""
        if self.task is not None:
            # The callback would cost a round of the loop.
            self.task.remove_done_callback(self._never_began)

    def _never_began(self, _: object) -> None:
        self.finish(None, "cancelled")


class Handlers:
    """The handlers of one session, and the context in which they are called."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.key = next(_keys)
        self.context = contextvars.copy_context()
        self.turn_context: contextvars.Context | None = None
        self.functions: dict[str, Any] = {}
        self.ready: dict[str, dict[str, Any]] = {}
        for name in (*_RESPONDERS, *_OBSERVERS, *_SERVICES):
            value = options.get(name)
            if isinstance(value, ReadyHandler):
                settings = value.settings_for(name)
                if settings is None:
                    raise InvalidOption(f"invalid option `{name}`: expected a function, got {value!r}", name)
                self.ready[name], value = settings, None
            self.functions[name] = _function(name, value)
            _check_parameters(name, self.functions[name])
        made = "an ExternalTool (@tool makes one of a function)"
        self.tools: list[ExternalTool] = _instances("tools", options.get("tools"), ExternalTool, made)
        self.hooks: list[Hook] = _instances("hooks", options.get("hooks"), Hook, "a Hook")
        for at, tool in enumerate(self.tools):
            tool._check_usable(f"tools[{at}]")
            what = f"the handler of tools[{at}] ({tool.name})"
            _check_parameters("tools", tool.handler, what, "the arguments as a dict", tool._context)
        for at, hook in enumerate(self.hooks):
            _check_parameters("hooks", hook.handler, f"the handler of hooks[{at}] ({hook.event})")
        self._latest: dict[str, asyncio.Task[None]] = {}
        self._known: dict[tuple[str, int | None], _Handler] = {}
        # Those of prompts are kept by their turns.
        self._checks: weakref.WeakValueDictionary[int, OutputCheck] = weakref.WeakValueDictionary()
        self._check_numbers = itertools.count()
        self.tracing = _tracing(options.get("telemetry"))
        self.output, self.output_check = self.add_output(options.get("output"))

    @staticmethod
    def options() -> frozenset[str]:
        """The options that are functions or hold functions, types or providers."""
        return frozenset({*_RESPONDERS, *_OBSERVERS, *_SERVICES, "tools", "hooks", "output", "telemetry"})

    def callbacks(self) -> Callbacks:
        """Returns which handlers there are, for the core."""
        return {
            "on_approval": self._responder("on_approval"),
            "on_question": self._responder("on_question"),
            "on_event": self.functions["on_event"] is not None,
            "on_stderr": self.functions["on_stderr"] is not None,
            "on_read_file": self.functions["on_read_file"] is not None,
            "on_write_file": self.functions["on_write_file"] is not None,
            "on_terminal": self.functions["on_terminal"] is not None,
        }

    def add_output(self, given: Any) -> tuple[Any, OutputCheck | None]:
        """Returns the option `output` of the session or of a prompt for the core, and its check for the caller to keep.

        Raises:
            InvalidOption: The value is of a wrong kind.
        """
        output, check = read_output(given)
        if check is not None:
            output["check"] = next(self._check_numbers)
            self._checks[output["check"]] = check
        return output, check

    def _responder(self, name: str) -> Any:
        return _MANUAL if self.functions[name] is _MANUAL else self.functions[name] is not None

    def start(self, job: Job, kind: str, index: int | None, payload: Any, in_turn: bool, span: int | None) -> None:
        """Starts a job on the running loop, in the context in which the session or turn was opened, and in its span."""
        context = self.turn_context if in_turn and self.turn_context is not None else self.context
        if span is not None and self.tracing is not None:
            context = self.tracing.within(context, span)
        handler = self._find(kind, index)
        if handler is not None and handler.takes_context:
            payload = (payload, job.make_context())
        if handler is None:
            job.finish(None, "the program has dropped the turn")
        elif kind in _OBSERVED:
            # Observers get events and lines in order.
            before = self._latest.get(kind)
            job.task = context.run(job.loop.create_task, observe(job, handler, payload, before))
            self._latest[kind] = job.task
        elif handler.asynchronous:
            job.start(context, _answer(job, handler, kind, payload, in_turn))
        else:
            in_thread(context.copy().run, _answer_in_thread, job, handler, kind, payload, in_turn)

    def _find(self, kind: str, index: int | None) -> _Handler | OutputCheck | None:
        if kind == "output" and index is not None:
            return self._checks.get(index)
        handler = self._known.get((kind, index))
        if handler is None:
            if kind == "tool" and index is not None:
                tool = self.tools[index]
                handler = _Handler(f"tool {tool.name}", tool.handler, tool._context)
            elif kind == "hook" and index is not None:
                handler = _Handler(f"hook on {self.hooks[index].event}", self.hooks[index].handler)
            else:
                handler = _Handler(_NAMES[kind], self.functions[_NAMES[kind]])
            self._known[kind, index] = handler
        return handler


def _tracing(given: Any) -> Tracing | None:
    if given is None or given is False:
        return None
    from ._telemetry import read_telemetry

    return read_telemetry(given)


def serving_job() -> int | None:
    """Returns the job of the handler that calls this. Waiting for its turn would never end."""
    serving = _serving.get()
    if serving is None:
        return None
    # A task or thread that the handler has started inherits the context, but can wait, because the handler continues.
    handler = serving[1]()
    own = handler is not None and handler in (_current_task(), threading.current_thread())
    return serving[0] if own else None


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _is_cancelled() -> bool:
    """Whether the running task is cancelled. Before Python 3.11 it is not known, and counts as cancelled."""
    task = _current_task()
    return task is None or sys.version_info < (3, 11) or task.cancelling() > 0


async def _answer(job: Job, handler: _Handler | OutputCheck, kind: str, payload: Any, in_turn: bool) -> None:
    """Calls an async handler and reports its answer."""
    job.begin()
    try:
        if in_turn and (task := asyncio.current_task(job.loop)) is not None:
            _serving.set((job.id, weakref.ref(task)))
        answer = await handler.function(payload)
        if not in_this_process():
            leave_child(None)
        _finish(job, handler, kind, answer)
    except asyncio.CancelledError as failure:
        if not _is_cancelled() and in_this_process():
            # The handler raised it itself, or waited for a task that was cancelled.
            return _report_failure(job, handler, kind, failure)
        job.finish(None, "cancelled")
        raise
    except BaseException as failure:
        if not in_this_process():
            leave_child(failure)
        if _is_ctrl_c(failure):
            job.finish(None, "KeyboardInterrupt")
            raise
        _report_failure(job, handler, kind, failure)


def _answer_in_thread(job: Job, handler: _Handler | OutputCheck, kind: str, payload: Any, in_turn: bool) -> None:
    """Calls a plain handler in a thread, which it may block."""
    try:
        if in_turn:
            _serving.set((job.id, weakref.ref(threading.current_thread())))
        result = handler.function(payload)
        if inspect.isawaitable(result):
            # For example of a lambda that calls an async function.
            _back_on_loop(job, _answer_awaited(job, handler, kind, result, in_turn))
        elif not in_this_process():
            leave_child(None)
        else:
            _finish(job, handler, kind, result)
    except BaseException as failure:
        if not in_this_process():
            leave_child(failure)
        # sys.exit() in a handler does not end the program. A cancelled job has nothing to report.
        if job.awaited:
            _report_failure(job, handler, kind, failure)


def _finish(job: Job, handler: _Handler | OutputCheck, kind: str, answer: Any) -> None:
    """Reports the answer of a handler."""
    try:
        encoded = encode_answer(answer, kind)
    except TypeError as failure:
        if kind != "tool":
            raise
        # The model does not read the text, which is advice for programmers.
        reported = f"{class_name(failure)}: {failure_text(failure)}"
        try:
            _log_failure(handler, failure, reported)
        finally:
            job.refuse(reported)
    else:
        job.finish(encoded, None)


def _back_on_loop(job: Job, work: Coroutine[Any, Any, None]) -> None:
    context = contextvars.copy_context()
    try:
        job.loop.call_soon_threadsafe(lambda: job.start(context, work) if job.awaited else work.close())
    except RuntimeError:
        # The loop is closed, so the answer is not needed.
        work.close()
        _logger.debug("a handler ended after its event loop")


async def _answer_awaited(job: Job, handler: _Handler | OutputCheck, kind: str, result: Any, in_turn: bool) -> None:
    async def awaited(_: Any) -> Any:
        return await result

    await _answer(job, _Handler(handler.name, awaited), kind, None, in_turn)


async def observe(job: Job, handler: _Handler | OutputCheck, payload: Any, before: asyncio.Task[None] | None) -> None:
    """Calls an observer, whose answer does not matter. The end of the loop is not a failure of the observer."""
    failed: tuple[str | None, str | None] = (None, None)
    try:
        if before is not None and not before.done():
            await asyncio.wait([before])
        result = (
            handler.function(payload)
            if handler.asynchronous
            else await awaited_in_thread(partial(handler.function, payload))
        )
        if inspect.isawaitable(result):
            await result
        if not in_this_process():
            leave_child(None)
    except asyncio.CancelledError:
        raise
    except BaseException as failure:
        if not in_this_process():
            leave_child(failure)
        if _is_ctrl_c(failure):
            raise
        failed = _described(failure)
        _log_failure(handler, failure)
    finally:
        job.finish(None, *failed)


def _is_ctrl_c(failure: BaseException) -> bool:
    """Whether the failure is a Ctrl-C, which ends the program's event loop.

    Signals reach the main thread only. In another thread the handler has raised the exception itself, and the loop goes
    on, because it may be that of the blocking API.
    """
    return is_a(failure, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def _report_failure(job: Job, handler: _Handler | OutputCheck, kind: str, failure: BaseException) -> None:
    """Reports the failure of a handler."""
    if kind == "tool" and is_a(failure, ToolArgumentError):
        # The mistake is the model's, which reads the text; the handler has not failed.
        said = failure_text(failure)
        job.finish(ToolReturnValue.error(said).to_payload(), None)
        _logger.info("%s: %s", handler.name, said)
    elif kind == "read_file" and is_a(failure, FileNotFoundError):
        # An answer, and no failure: agents look for files that are optional.
        job.finish(None, None)
    else:
        try:
            _log_failure(handler, failure)
        finally:
            # The agent waits, also if a logging handler of the program fails.
            job.finish(None, *_described(failure))


def _log_failure(handler: _Handler | OutputCheck, failure: BaseException, reported: str | None = None) -> None:
    """Logs that a handler failed, the first time as a warning. `reported` is the text that the core logs, too."""
    if handler.has_failed:
        _logger.debug("%s failed again", handler.name, exc_info=failure)
        return
    handler.has_failed = True
    _logged.append(reported or failure_text(failure))
    further = "HandlerFailed events report each failure, this log only the first"
    if handler.name in _WITHOUT_EVENTS:
        further = "Further failures are logged at the level DEBUG"
    answer = _DEFAULT_ANSWERS.get(handler.name, "")
    _logger.warning("%s failed. %s%s", handler.name, answer, further, exc_info=failure)


def _described(failure: BaseException) -> tuple[str, str | None]:
    """Returns the reason of a failure, and the class of the exception."""
    said, kind = failure_text(failure), class_name(failure)
    # These two say nothing, and some texts have the class already.
    is_known = type(failure) is Exception or type(failure) is RuntimeError or said.partition(":")[0] == kind
    return said, None if is_known else kind


def was_logged(record: str) -> bool:
    """Whether a record of the core reports a failure that was logged here, with its traceback."""
    if not record.startswith("a handler failed;"):
        return False
    for said in _logged:
        # As the core writes it.
        quoted = said.replace("\\", "\\\\").replace('"', '\\"')
        if f'error="{quoted}"' in record:
            _logged.remove(said)
            return True
    return False


_EXPECTED = {
    "approval": '"approve", "approve_for_session", "reject" or a Reject',
    "question": "answers by the text of the question, or None",
    "hook": 'None, "allow" or a Block',
    "tool": "text, a JSON value, content parts or a ToolReturnValue",
    "read_file": "the text of the file, or None if the file does not exist",
    "terminal": "a TerminalResult",
    "output": "a list of errors",
}


def encode_answer(value: Any, kind: str | None = None) -> Any:
    """Returns an answer as the JSON that the core takes, with U+FFFD for half of a surrogate pair.

    Args:
        value: The answer of the program.
        kind: The kind of the handler that returned it. None: `respond()` was called with it.

    Raises:
        TypeError: The answer has a wrong type.
    """
    got = "got" if kind is None else "the handler returned"
    if kind in _OBSERVED or kind == "write_file":
        return None
    if type(value) is str:
        return valid_unicode(value)
    if isinstance(value, (Reject, Block)):
        return to_jsonable(answer_fields(value), valid_unicode)
    if value is Reject or value is Block:
        text = "feedback" if value is Reject else "reason"
        raise TypeError(
            f"{got} the class {value.__name__}, not an object of it: "
            f'{"use" if kind is None else "return"} {value.__name__}("{text}")'
        )
    if kind == "tool" and (parts := _parts(value)) is not None:
        return to_jsonable(ToolReturnValue.ok(parts), valid_unicode)
    expected = _EXPECTED[kind] if kind else f"{_EXPECTED['approval']}; to a question {_EXPECTED['question']}"
    try:
        encoded = to_jsonable(value, valid_unicode)
    except TypeError as error:
        inside = f", and {error}" if isinstance(value, (Mapping, list, tuple, set, frozenset)) else ""
        raise TypeError(f"{got} {kind_of(value)}{inside}; expected {expected}") from None
    if kind != "tool" and isinstance(encoded, str) and not isinstance(value, (str, enum.Enum)):
        # An object that only happens to be text as JSON, for example a path, does not decide.
        raise TypeError(f"{got} {kind_of(value)}; expected {expected}")
    return encoded


def _parts(value: Any) -> list[Any] | None:
    """Returns a tool's result as content parts if it is a part, or a list with parts and text; otherwise None."""
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
    if value is None or callable(value):
        return value
    # An exact text: an object of the program can be equal to it, or refuse to be compared.
    if isinstance(value, str) and str.__eq__(value, _MANUAL) and name in _RESPONDERS:
        return _MANUAL
    manual = ' or "manual"' if name in _RESPONDERS else ""
    raise InvalidOption(f"invalid option `{name}`: expected a function{manual}, got {kind_of(value)}", name)


def observer(name: str, value: Any, given: str) -> _Handler | None:
    """Returns the option as an observer that `observe` calls; `given` says what it is called with.

    Raises:
        InvalidOption: It is not a function of one argument.
    """
    function = _function(name, value)
    _check_parameters(name, function, given=given)
    return None if function is None else _Handler(name, function)


def _check_parameters(
    option: str, function: Any, what: str | None = None, given: str | None = None, context: str | None = None
) -> None:
    """Raises `InvalidOption` for a handler that cannot be called with one argument, and with its `context` by name."""
    if function is None or function is _MANUAL:
        return
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # Some functions written in C have no signature.
        return
    try:
        signature.bind(None, **({} if context is None else {context: None}))
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
        remedy = f"; put it into a list: `{name}=[…]`" if isinstance(values, kind) else ""
        problem = f"expected a list of {name}, got {kind_of(values)}{remedy}"
        raise InvalidOption(f"invalid option `{name}`: {problem}", name)
    for at, value in enumerate(values):
        if not isinstance(value, kind):
            raise InvalidOption(
                f"invalid option `{name}`: {name}[{at}]: expected {expected}, got {kind_of(value)}", name
            )
    return list(values)
