"""Makes text of unknown origin safe to show."""

from __future__ import annotations

from . import _native

__all__ = ["printable"]


def printable(text: str) -> str:
    r"""Returns the text with control and bidirectional characters written as escapes, such as `\x1b` and `\u202e`.

    What an agent sends (descriptions of approvals, outputs of tools, text) may hold what a model, a web page or a file
    made up. Printed as it is, it can move the cursor, change the clipboard or show words in another order. Call
    this before such text is shown in a terminal. The SDK does so for its own errors and log records.

    Line breaks and tabs stay; `\r\n` becomes `\n`. Backslashes are not escaped, so the text cannot be recovered from
    the result. A lone surrogate is escaped as well. Raises `TypeError` if `text` is not a `str`.

    >>> printable("ls\x1b[2J \u202etxt.exe")
    'ls\\x1b[2J \\u202etxt.exe'
    """
    if not isinstance(text, str):
        raise TypeError(f"text: expected a str, got {type(text).__name__}")
    return _native.printable(text.encode("utf-8", "backslashreplace").decode())
