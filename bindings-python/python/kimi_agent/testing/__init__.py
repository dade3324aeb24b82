"""An agent for tests: it follows a script, needs no key and no network, and is started like the real one.

>>> from kimi_agent.testing import scripted_agent
>>> async with create_session(executable=scripted_agent([[{"text": "Hello!"}]])) as session:
...     result = await session.prompt("Say hello").result()
>>> result.text
'Hello!'

A script is a list of turns, a turn a list of actions, one turn for each prompt. `docs/reference/scripted-agent.md`
describes them all.

`replayed_agent()` plays the agent of a recording instead of a script. `cassette()` makes a recording a test: it records
once, and plays the recording from then on. The pytest plugin of this package has it as the fixture `kimi_cassette`.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Union

from .. import _native
from .._encode import to_jsonable
from .._errors import InvalidOption
from .._loop import called
from ._cassette import Cassette, cassette, given_path

if TYPE_CHECKING:
    from .script import ScriptAction, ScriptObject, ScriptTurn

__all__ = [
    "Cassette",
    "Script",
    "ScriptAction",
    "ScriptObject",
    "ScriptTurn",
    "cassette",
    "replayed_agent",
    "scripted_agent",
]

if TYPE_CHECKING:
    Script = Union[Sequence[ScriptTurn], ScriptObject]
    """A list of turns, or an object that holds one and says more.

    If a variable is annotated with it, type checkers check the keys and values of the script.
    """
else:

    def __getattr__(name):
        """Loads the types of scripts when a program names them."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from . import script

        if name == "Script":
            return Union[Sequence[script.ScriptTurn], script.ScriptObject]
        return getattr(script, name)


def scripted_agent(script: Script | Sequence[Any] | Mapping[str, Any] | str | os.PathLike[str]) -> list[str]:
    """Returns the value of the option `executable` with which an agent follows a script.

    Args:
        script: A list of turns, each a list of actions. Or an object that holds the turns and further fields. Or the
            path of a JSON file with one of these.

    Raises:
        InvalidOption: The script is wrong; the text names the place. Or its file cannot be read.

    >>> from kimi_agent.testing import scripted_agent
    >>> executable = scripted_agent([[{"think": "A greeting."}, {"text": "Hello!"}], [{"text": "Bye."}]])
    >>> async with create_session(executable=executable) as session:
    ...     for question in ("Good morning", "Good night"):
    ...         result = await session.prompt(question).result()
    ...         print(result.text)
    Hello!
    Bye.
    """
    if isinstance(script, (str, os.PathLike)):
        file = given_path("script", script, "the path of a JSON file")
        path = _checked(os.path.abspath(file))
    else:
        path = _written(script)
    # Without `site`, and as a file: it needs nothing of this environment but the native module.
    return [sys.executable, "-S", _AGENT, path]


def replayed_agent(path: str | os.PathLike[str], mode: Literal["replay", "verify", "stub"] = "replay") -> list[str]:
    """Returns the value of the option `executable` with which an agent plays a recording.

    The option `record` writes recordings. The agent needs no model, no key and no network. It sends each recorded
    message as soon as the calls and answers have come that the recording has before it. The place of a cancel and of a
    steer may differ. The protocol is that of the recording, so `dialect` can be left out. If the program
    sends more prompts than the recording has, the next prompt raises `RpcError`.

    The file is read when a session is opened. If it is missing or not a recording, that raises `InvalidOption`.

    Args:
        path: The path of a recording, made by a program in Python, Node or Rust.
        mode: With `"verify"`, the agent compares the prompts, the other calls and the answers of the program with the
            recording. Ids, times, secrets and versions do not count. The first difference raises `RpcError`, whose
            text has the turn, the call, the expected value and the actual one. The agent writes it to stderr, too, and
            exits with code 1. It also does so at the end of the session if the program has left out something. With
            `"stub"`, the agent reports the results that the tools of the program return now, instead of the recorded
            results; the answers of the model and the tools of the agent stay as recorded. Default: `"replay"`.

    Raises:
        InvalidOption: `path` is not a path: option `file`. `mode` has another value: option `mode`.

    >>> from kimi_agent.testing import replayed_agent, scripted_agent
    >>> async def run(**options):
    ...     async with create_session(**options) as session:
    ...         result = await session.prompt("2 + 2?").result()
    ...         return result.text
    >>> await run(executable=scripted_agent([[{"text": "4"}]]), record="sum.jsonl")
    '4'
    >>> await run(executable=replayed_agent("sum.jsonl"))
    '4'
    """
    file = given_path("file", path, "the path of a recording")
    if mode not in ("replay", "verify", "stub"):
        raise InvalidOption(f'invalid option `mode`: expected "replay", "verify" or "stub", got {mode!r}', "mode")
    return _player(file, mode)


def _player(file: str, mode: str, *flags: str) -> list[str]:
    modes = [] if mode == "replay" else [f"--{mode}"]
    return [sys.executable, "-S", _AGENT, "--play-recording", os.path.abspath(file), *flags, *modes]


_AGENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "agent.py")


# It is deleted at the end of the process. If the process is killed, a later one deletes it when it opens a session.
_folder = _native.PrivateFolder()
_numbers = itertools.count(1)
atexit.register(_folder.remove)


def _checked(path: str) -> str:
    called(_native.check_script, path, True)
    return path


def _written(script: Sequence[Any] | Mapping[str, Any]) -> str:
    try:
        text = json.dumps(to_jsonable(script))
    except TypeError as error:
        raise InvalidOption(f"invalid option `script`: {error}", "script") from None
    called(_native.check_script, text, False)
    return called(_folder.write, f"script-{next(_numbers)}.json", text)
