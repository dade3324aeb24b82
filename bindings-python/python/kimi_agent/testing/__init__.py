"""An agent for tests: it follows a script, needs no key and no network, and is started like the real one.

>>> from kimi_agent.testing import scripted_agent
>>> executable = scripted_agent([[{"text": "Hello!"}]])

`executable` is what goes into the option of that name. A script is a list of turns, a turn a list of actions, one
turn for each prompt; `docs/testing.md` describes them all.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Union

from .. import _native
from .._encode import to_jsonable
from .._loop import called

__all__ = ["Script", "scripted_agent"]

Turn = Union[Sequence[Mapping[str, Any]], Mapping[str, Any]]
Script = Union[Sequence[Turn], Mapping[str, Any], str, "os.PathLike[str]"]
"""A list of turns, an object that holds one and says more, or the path of a JSON file of either."""


def scripted_agent(script: Script) -> list[str]:
    """What goes into the option `executable` so that an agent follows `script`."""
    path = os.path.abspath(script) if isinstance(script, (str, os.PathLike)) else _written(script)
    # Without `site`, and as a file: it needs nothing of this environment but the native module.
    return [sys.executable, "-S", _AGENT, path]


_AGENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "agent.py")


# It goes at the end of the process, or where that is killed, when a later one opens a session.
_folder = _native.PrivateFolder()
_numbers = itertools.count(1)
atexit.register(_folder.remove)


def _written(script: Sequence[Turn] | Mapping[str, Any]) -> str:
    return called(_folder.write, f"script-{next(_numbers)}.json", json.dumps(to_jsonable(script)))
