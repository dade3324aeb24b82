"""Makes text of unknown origin safe to show."""

from __future__ import annotations

from . import _native

__all__ = ["printable"]


def printable(text: str) -> str:
    r"""Returns the text with control and bidirectional characters written as escapes, such as `\x1b` and `\u202e`.

    Text from an agent (descriptions of approvals, outputs of tools, answers) may come from a model, a web page or a
    file. In a terminal such text can move the cursor, change the clipboard or show words in another order. Call this
    function before you print it. The SDK escapes its own errors and log records in this way.

    Line breaks and tabs stay; `\r\n` becomes `\n`. Backslashes are not escaped, so the text cannot be recovered from
    the result. A lone surrogate is escaped as well.

    Args:
        text: The text, of any origin.

    Raises:
        TypeError: `text` is not a `str`.

    >>> printable("ls\x1b[2J \u202etxt.exe")
    'ls\\x1b[2J \\u202etxt.exe'
    """
    if not isinstance(text, str):
        raise TypeError(f"text: expected a str, got {type(text).__name__}")
    return _native.printable(text.encode("utf-8", "backslashreplace").decode())
