"""Options for sessions of other machines, whose processes can have another working directory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from . import _native
from ._place import Remote, settings_of
from ._policy import Policy

__all__ = ["for_other_machines"]


def for_other_machines(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options with absolute paths, and with the rules of a file in place of its path.

    Raises:
        InvalidOption: The file of a policy cannot be read, or a rule is wrong.
    """
    found = dict(options)
    for name in _native.path_options():
        if _is_path(found.get(name)):
            found[name] = _absolute(found[name])
    if _is_path(found.get("policy")):
        found["policy"] = _policy(found["policy"]).to_payload()
    executable = found.get("executable")
    if _is_path(executable):
        found["executable"] = _program(executable)
    elif isinstance(executable, (list, tuple)) and executable and _is_path(executable[0]):
        found["executable"] = [_program(executable[0]), *executable[1:]]
    if isinstance(found.get("place"), Remote):
        # It refuses pickles. The options of a job are sent to its machine.
        found["place"] = settings_of(found["place"])
    return found


def _policy(given: Any) -> Policy:
    return Policy(given) if given in ("read-only", "edit-files") else Policy.load(given)


def _is_path(value: Any) -> bool:
    # Other values are left to the core, which refuses them.
    return isinstance(value, (str, os.PathLike)) and bool(os.fspath(value))


def _absolute(path: Any) -> Any:
    # Windows would add a drive to an absolute path of Linux.
    return path if os.fsdecode(path).startswith("/") else os.path.abspath(path)


def _program(program: Any) -> Any:
    """Returns the absolute path of a program. A name without a directory is searched on `PATH` there."""
    return _absolute(program) if os.path.dirname(program) else program
