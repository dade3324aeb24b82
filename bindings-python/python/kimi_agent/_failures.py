"""Texts of exceptions that a program has raised, each of whose methods can be the program's own and can fail."""

from __future__ import annotations

from typing import TypeGuard, TypeVar

from ._encode import valid_unicode

__all__ = ["class_name", "failure_text", "is_a"]

F = TypeVar("F", bound=BaseException)
# The longest text of an exception, in characters, and the longest name of a class.
_MAX_TEXT = 64 << 10
_MAX_NAME = 200
# Not `type(failure).__name__`, which a metaclass can replace.
_name_of = type.__dict__["__name__"].__get__


def is_a(failure: BaseException, kind: type[F] | tuple[type[F], ...]) -> TypeGuard[F]:
    """Whether an exception is of a class. Unlike `isinstance`, it does not ask the exception for its `__class__`."""
    return issubclass(type(failure), kind)


def class_name(failure: BaseException) -> str:
    """Returns the name of the class of an exception. Never raises."""
    return str.__str__(_name_of(type(failure)))[:_MAX_NAME]


def failure_text(failure: BaseException) -> str:
    """Returns the text of an exception, if needed with its class, and at most 64 Ki characters. Never raises."""
    try:
        # An exact str: `__str__` can return an object of a subclass.
        text = str.__str__(str(failure))
    except BaseException:
        # A wrong `__str__` of the program; the agent waits for an answer all the same.
        text = ""
    text = valid_unicode(text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…")
    name = class_name(failure)
    # The text of KeyError and StopIteration is only a key or value.
    if not text or is_a(failure, (KeyError, StopIteration)) or not is_a(failure, Exception):
        return f"{name}: {text}" if text else name
    return text
