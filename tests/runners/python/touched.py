"""The public names of the package that a program really uses.

`watch()` puts a recorder in front of every public function, method and property. Which names there are is told as
well, so that one that nobody uses is noticed.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import kimi_agent
import kimi_agent.sync
import kimi_agent.testing

__all__ = ["watch"]

# The methods that a program calls by the language's own syntax.
_SYNTAX = {
    "__new__", "__init__", "__aiter__", "__anext__", "__iter__", "__next__", "__aenter__", "__aexit__", "__enter__",
    "__exit__", "__await__",
}  # fmt: skip
# The modules of the blocking API.
_BLOCKING = {kimi_agent.sync.__name__, f"{kimi_agent.__name__}._blocking"}
_MODULES = {"": kimi_agent, "sync.": kimi_agent.sync, "testing.": kimi_agent.testing}


def watch(file: str) -> None:
    """Writes to the file, when the process ends: `{"public": […], "touched": […]}`, in a line of its own."""
    public: set[str] = set()
    touched: set[str] = set()
    for prefix, module in _MODULES.items():
        for name in module.__all__:
            # The blocking API exports some of the other one's names again.
            if prefix and getattr(kimi_agent, name, None) is getattr(module, name):
                continue
            public |= set(_watch(module, name, prefix, touched.add))

    def write() -> None:
        with Path(file).open("a", encoding="utf-8") as out:
            out.write(json.dumps({"public": sorted(public), "touched": sorted(touched)}) + "\n")

    atexit.register(write)


def _watch(module: ModuleType, name: str, prefix: str, touch: Callable[[str], None]) -> Iterator[str]:
    value = getattr(module, name)
    if inspect.isfunction(value):
        yield prefix + name
        setattr(module, name, _recorder(value, lambda _: touch(prefix + name)))
    elif inspect.isclass(value):
        yield prefix + name
        for owner in filter(_own, value.__mro__):
            for method in list(vars(owner)):
                if not method.startswith("_") or method in _SYNTAX:
                    yield from _watch_method(owner, method, touch)


def _own(cls: type) -> bool:
    """Whether it is the package's own class, not one of Python's."""
    return cls.__module__.startswith(kimi_agent.__name__)


def _named(cls: type) -> str:
    return ("sync." if cls.__module__ in _BLOCKING else "") + cls.__name__


def _watch_method(owner: type, method: str, touch: Callable[[str], None]) -> Iterator[str]:
    """Records a call for the class of the object it is made on, and for the classes which that is derived from."""

    def called(arguments: tuple[Any, ...]) -> None:
        kind = arguments[0] if isinstance(arguments[0], type) else type(arguments[0])
        for cls in filter(_own, kind.__mro__):
            touch(_named(cls))
            touch(f"{_named(cls)}.{method}")

    value = vars(owner)[method]
    function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
    # Plain fields can't be watched: they are as good as touched where their class is.
    if not inspect.isfunction(function):
        return
    if not method.startswith("_"):
        yield f"{_named(owner)}.{method}"
    if hasattr(function, "watched"):
        return
    recorder = _recorder(function, called)
    if method == "__new__":
        setattr(owner, method, staticmethod(recorder))
    elif isinstance(value, property):
        setattr(owner, method, property(recorder, value.fset, value.fdel, value.__doc__))
    elif not isinstance(value, staticmethod):
        setattr(owner, method, classmethod(recorder) if isinstance(value, classmethod) else recorder)


def _recorder(function: Callable[..., Any], called: Callable[[tuple[Any, ...]], None]) -> Callable[..., Any]:
    @functools.wraps(function)
    def recorder(*arguments: Any, **named: Any) -> Any:
        called(arguments)
        return function(*arguments, **named)

    recorder.watched = True  # type: ignore[attr-defined]
    return recorder
