"""Ready handlers for files and terminals below one directory. The core runs them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from ._option_types import ReadFileHandler, TerminalHandler, WriteFileHandler

__all__ = ["Files", "ReadyHandler", "files", "terminals"]


class ReadyHandler:
    """A handler that the core runs itself. Pass it as an option; a program does not call it."""

    __slots__ = ("_option", "_settings")

    def __init__(self, option: str, settings: dict[str, Any]) -> None:
        self._option = option
        self._settings = settings

    def __call__(self, request: Any) -> NoReturn:
        """Raises `TypeError`: only an agent can use it."""
        raise TypeError(f"it cannot be called; pass it as the option `{self._option}`")

    def __repr__(self) -> str:
        return f"<ready handler for {self._option} below {self._settings['root']!r}>"

    def settings_for(self, option: str) -> dict[str, Any] | None:
        """Returns the settings for the core; `None` for another option than its own."""
        return self._settings if option == self._option else None


class Files:
    """The files below a directory, from `files()`.

    >>> project = files("/srv/project", write=True)
    >>> options = {"on_read_file": project.read, "on_write_file": project.write}
    """

    __slots__ = ("read", "write")

    read: ReadFileHandler
    """The handler for `on_read_file`."""
    write: WriteFileHandler
    """The handler for `on_write_file`."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.read = ReadyHandler("on_read_file", settings)
        self.write = ReadyHandler("on_write_file", settings)


def files(root: str | os.PathLike[str], *, write: bool = False, max_bytes: int | None = None) -> Files:
    """Makes handlers of files below a directory, for `on_read_file` and `on_write_file`.

    Only regular files are read and written. A path outside of the directory, a link, a device, a pipe or a longer file
    is an error, which the agent gets.

    Args:
        root: The directory.
        write: Whether the agent may write files, also in new folders; if not, each write is an error. Default: False.
        max_bytes: The limit of a file, in bytes. Default: 16 MiB.

    Returns:
        Handlers, as `read` and `write`.

    >>> project = files("/srv/project", write=True)
    >>> options = {"on_read_file": project.read, "on_write_file": project.write}
    """
    return Files({"root": os.path.abspath(os.fspath(root)), "write": bool(write), "max_bytes": max_bytes})


def terminals(root: str | os.PathLike[str], *, timeout: float | None = None) -> TerminalHandler:
    """Makes a handler that runs commands in a directory and its folders, for `on_terminal`.

    A command has the rights of the program, and can leave the directory: this is not a sandbox.

    Args:
        root: The directory.
        timeout: How long a command may take before it is killed, in seconds. Default: 10 minutes.

    Returns:
        The handler.

    >>> options = {"on_terminal": terminals("/srv/project", timeout=60)}
    """
    return ReadyHandler("on_terminal", {"root": os.path.abspath(os.fspath(root)), "timeout": timeout})
