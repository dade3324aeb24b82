"""The base of sessions and agents: both are opened with options, and closed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Generator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeVar

from . import _native
from ._encode import NotUnicode, kind_of, option_problem, seconds, to_jsonable
from ._errors import InvalidOption, KimiAgentError, RpcError, SessionClosed
from ._failures import failure_text
from ._handlers import Handlers
from ._hints import MadeByFunction
from ._loop import LoopMailbox, called, current_mailbox, show_messages
from ._process import in_this_process

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._interface import Begin
    from ._option_types import Seconds

__all__ = ["Opening", "Owner", "begun", "encode_options"]

N = TypeVar("N", _native.Agent, _native.Session)
B = TypeVar("B")
T = TypeVar("T", bound="Owner[Any]", covariant=True)


class Owner(MadeByFunction, Generic[N]):
    """An object that owns agent processes until it is closed. `Session` and `Agent` derive from it."""

    __slots__ = ("__weakref__", "_closing", "_handlers", "_mailbox", "_native")

    _name: ClassVar[str]

    def __init__(self, native: N, mailbox: LoopMailbox, handlers: Handlers) -> None:
        self._native: N = native
        self._mailbox = mailbox
        self._handlers = handlers
        self._closing = False

    async def close(self, timeout: Seconds = None) -> None:
        self._closing = True
        await self._mailbox.call(self._native.close, seconds(timeout))

    def _has_ended(self) -> bool:
        """Whether there is nothing to close."""
        return False

    async def __aenter__(self) -> Self:
        self._check_open()
        return self

    def _check_open(self) -> None:
        """Checks that the program has not closed it.

        Raises:
            SessionClosed: The program has closed it.
        """
        if self._closing:
            what = self._name.partition(" ")[2].lower()
            raise SessionClosed(f"{self._name} cannot be entered after close(): the {what} is closed; open a new one")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except RpcError:
            # The program has left out something of a recording. The exception that the block was left by says why.
            if error is None:
                raise

    def __del__(self) -> None:
        native = getattr(self, "_native", None)
        if native is None or self._closing or not in_this_process():
            return
        unclosed = None if self._has_ended() else f"{self!r} was never closed"
        native.abandon()
        if unclosed:
            # Last, because a filter can turn the warning into an exception.
            warnings.warn(unclosed, ResourceWarning, stacklevel=1, source=self)

    def __reduce__(self) -> NoReturn:
        # A copy would close the original when it is collected.
        raise TypeError(f"{self._name} can be neither copied nor pickled")


class Opening(Generic[B, T]):
    """Opens something when it is awaited or entered, once. `SessionOpening` and `AgentOpening` derive from it."""

    __slots__ = ("_is_told", "_opened", "_options")

    _what: ClassVar[str]
    _by: ClassVar[str]

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options: Mapping[str, Any] | None = options
        self._opened: T | None = None
        # An error has said what to write.
        self._is_told = False

    def __del__(self) -> None:
        # As Python warns about a coroutine that nobody awaited.
        is_unused = getattr(self, "_options", None) is not None and not self._is_told
        if is_unused and in_this_process():
            text = f"{self._by}() was never awaited: {self._forms()}"
            warnings.warn(text, RuntimeWarning, stacklevel=2, source=self)

    def _begin(self) -> Begin[B]:
        raise NotImplementedError

    async def _made(self, begun: B, mailbox: LoopMailbox, handlers: Handlers) -> T:
        """Waits until it is open."""
        raise NotImplementedError

    async def _open(self) -> T:
        options, self._options = self._options, None
        if options is None:
            raise KimiAgentError(f"this {self._what} has been opened already; call {self._by}() again for another one")
        try:
            found = begun(options, self._begin())
        finally:
            # As in begun().
            del options
        return await self._made(*found)

    def __await__(self) -> Generator[Any, None, T]:
        return self._open().__await__()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            self._is_told = True
            text = f"{self._by}() has not been awaited, so there is no `{name}` yet: {self._forms()}"
            raise AttributeError(text, name=name, obj=self)

        def __enter__(self) -> NoReturn:
            self._is_told = True
            raise TypeError(f"{self._by}() is entered with `async with`: {self._forms()}")

        def __exit__(self, *_: object) -> None:
            # Python looks for `__exit__` before it calls `__enter__`, whose error is clearer.
            pass

    def _forms(self) -> str:
        by, what = self._by, self._what
        forms = f"`{what} = await {by}(…)` or `async with {by}(…) as {what}:`"
        return f"{forms}; without coroutines use `kimi_agent.sync.{by}`"

    async def __aenter__(self) -> T:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.__aexit__(kind, error, traceback)

    def __reduce__(self) -> NoReturn:
        # A pickle would contain keys that are among the options.
        raise TypeError(f"what {self._by}() returns can be neither copied nor pickled")


def begun(options: Mapping[str, Any], begin: Begin[B]) -> tuple[B, LoopMailbox, Handlers]:
    """Opens something with these options, whose handlers run in the running event loop."""
    mailbox = current_mailbox()
    show_messages()
    try:
        called(_native.check_names, list(options))
        handlers = _handlers_of(options)
        mailbox.add_handlers(handlers.key, handlers)
        found = called(begin, mailbox.native, handlers.key, encode_options(options, handlers), handlers.callbacks())
    finally:
        # Options can be secret, and error reports can show the variables of frames.
        del options
    return found, mailbox, handlers


def _handlers_of(options: Mapping[str, Any]) -> Handlers:
    try:
        return Handlers(options)
    except (KimiAgentError, ImportError, TypeError):
        raise
    except Exception as error:
        # A method of a value, for example the `__class__` of a proxy.
        problem = failure_text(error)
        del options
        raise InvalidOption(f"invalid options: a value cannot be read: {problem}", "options") from error


def encode_options(options: Mapping[str, Any], handlers: Handlers) -> dict[str, Any]:
    """Returns the options as JSON, except those that are functions. The core checks names and values."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        if name in Handlers.options():
            continue
        try:
            if name == "place" and hasattr(type(value), "__dataclass_fields__"):
                # Imported here, because it needs a module that takes long to import.
                from ._place import settings_of

                value = settings_of(value)
            elif isinstance(value, (list, tuple)):
                value = [os.fspath(item) if isinstance(item, os.PathLike) else item for item in value]
            found[name] = to_jsonable(seconds(os.fspath(value) if isinstance(value, os.PathLike) else value))
        except TypeError as error:
            got, problem = kind_of(value), option_problem(name, value, error)
            has_form = isinstance(value, (Mapping, list, tuple, set, frozenset)) or isinstance(error, NotUnicode)
            del options, found, value
            if not has_form:
                called(_native.wrong_type, name, got)
            raise InvalidOption(f"invalid option `{name}`: {problem}", name) from None
        except KimiAgentError:
            raise
        except Exception as error:
            # A method of the value, for example of a mapping of the program.
            problem = failure_text(error)
            del options, found, value
            raise InvalidOption(f"invalid option `{name}`: it cannot be read: {problem}", name) from None
    for name, settings in handlers.ready.items():
        # The core reads the settings, and says what is wrong with them.
        found[name] = to_jsonable({key: seconds(value) for key, value in settings.items()})
    if handlers.output is not None:
        found["output"] = handlers.output
    if handlers.tracing is not None:
        found["telemetry"] = handlers.tracing.option()
    if handlers.tools:
        tools = [
            {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "timeout": seconds(tool.timeout),
            }
            for tool in handlers.tools
        ]
        found["tools"] = _encode_list("tools", tools)
    if handlers.hooks:
        hooks = [
            {"event": hook.event, "matcher": hook.matcher, "timeout": seconds(hook.timeout), "on_error": hook.on_error}
            for hook in handlers.hooks
        ]
        found["hooks"] = _encode_list("hooks", hooks)
    return found


def _encode_list(name: str, values: list[dict[str, Any]]) -> list[Any]:
    """Returns the tools or hooks as JSON."""
    found: list[Any] = []
    for at, value in enumerate(values):
        try:
            found.append(to_jsonable(value))
        except TypeError as error:
            raise InvalidOption(f"invalid option `{name}`: {name}[{at}]: {error}", name) from None
    return found
