"""An agent for tests: it follows a script, needs no key and no network, and is started like the real one.

>>> from kimi_agent.testing import scripted_agent
>>> executable = scripted_agent([[{"text": "Hello!"}]])

`executable` is what goes into the option of that name. A script is a list of turns, a turn a list of actions, one
turn for each prompt; `docs/testing.md` describes them all.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, Union

from .._encode import to_jsonable

__all__ = ["Script", "scripted_agent"]

Turn = Union[Sequence[Mapping[str, Any]], Mapping[str, Any]]
Script = Union[Sequence[Turn], Mapping[str, Any], str, "os.PathLike[str]"]
"""A list of turns, an object that holds one and says more, or the path of a JSON file of either."""


def scripted_agent(script: Script) -> list[str]:
    """What goes into the option `executable` so that an agent follows `script`."""
    path = os.path.abspath(script) if isinstance(script, (str, os.PathLike)) else _written(script)
    return [sys.executable, "-m", f"{__name__}.agent", path]


def _written(script: Sequence[Turn] | Mapping[str, Any]) -> str:
    handle, path = tempfile.mkstemp(prefix="kimi-script-", suffix=".json")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(to_jsonable(script), file)
    atexit.register(_remove, path, os.getpid())
    return path


def _remove(path: str, process: int) -> None:
    # A forked child must not take the file from its parent.
    if process == os.getpid() and os.path.exists(path):
        os.remove(path)
