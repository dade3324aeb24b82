"""Cassettes: recordings of sessions as tests. The core decides whether a test records."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union, cast

from .. import _native
from .._encode import kind_of
from .._errors import InvalidOption
from .._hints import clear_arguments
from .._loop import called

if TYPE_CHECKING:
    from .._option_types import SessionOptions

StrPath = Union[str, os.PathLike[str]]


class Cassette(Mapping[str, Any]):
    """The options of a session that records or plays a cassette; `cassette()` returns it.

    It is a mapping for `**`, which cannot be changed. If the test records, it has `record`, and `executable` if that is
    set. If not, its `executable` is an agent that plays the recording.

    >>> from kimi_agent.testing import cassette, scripted_agent
    >>> tape = cassette("tape.jsonl", executable=scripted_agent([[{"text": "4"}]]))
    >>> tape.is_recording, sorted(tape)
    (True, ['executable', 'record'])
    """

    __slots__ = ("_is_recording", "_options", "_path")

    def __init__(self, path: Path, is_recording: bool, options: dict[str, Any]) -> None:
        """Makes the options of a cassette that was opened."""
        self._path = path
        self._is_recording = is_recording
        self._options = options

    @property
    def path(self) -> Path:
        """The absolute path of the recording."""
        return self._path

    @property
    def is_recording(self) -> bool:
        """Whether the session records. If not, it plays the recording."""
        return self._is_recording

    def options(self) -> SessionOptions:
        """Returns the options as a new `dict`, which type checkers accept where they refuse a mapping.

        >>> from kimi_agent.testing import cassette, scripted_agent
        >>> tape = cassette("tape.jsonl", executable=scripted_agent([[{"text": "4"}]]))
        >>> options: SessionOptions = {**tape.options(), "work_dir": "."}
        >>> sorted(options)
        ['executable', 'record', 'work_dir']
        """
        return cast("SessionOptions", dict(self._options))

    def _with_agent(self, executable: StrPath | Sequence[StrPath] | None) -> Cassette:
        """The same options with this agent to record with, unless it is `None`."""
        agent = {} if executable is None else {"executable": executable}
        return Cassette(self._path, self._is_recording, {**self._options, **agent})

    def _with_report(self, file: str) -> Cassette:
        """The same options with an agent that also writes a difference from the recording to this file."""
        return self._with_agent([*self._options["executable"], f"--report={file}"])

    def __getitem__(self, option: str) -> Any:
        return self._options[option]

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def __repr__(self) -> str:
        return f"<Cassette {str(self._path)!r}, {'recording' if self._is_recording else 'playing'}>"


@clear_arguments
def cassette(
    path: StrPath,
    executable: StrPath | Sequence[StrPath] | None = None,
    mode: Literal["once", "none", "all", "rewrite"] | None = None,
    verify: bool = True,
) -> Cassette:
    """Returns options of a session that records a test with a real agent once, and plays the recording from then on.

    Pass them with `**` to `create_session()`, `prompt()` or `open_agent()`, of `kimi_agent` or of `kimi_agent.sync`. A
    cassette is the recording of one session. Whether to record is decided when this function is called.

    | mode | if the file is there | if it is missing or incomplete |
    | --- | --- | --- |
    | `"once"` | plays it | records |
    | `"none"` | plays it | raises `InvalidOption` |
    | `"all"`, `"rewrite"` | records; the file is replaced when the session has opened | records |

    A recording is incomplete if its session was never opened or never closed, for example because the program was
    killed.

    Args:
        path: The path of the recording. A name without a directory and without `.jsonl` is the file
            `cassettes/NAME.jsonl` below the current directory.
        executable: The agent to record with. Default: that of the option `executable` of a session. When the recording
            is played, the agent that plays it takes its place.
        mode: When to record. Default: the environment variable `KIMI_RECORD`. Without it, `"none"` if the environment
            variable `CI` is set to a value other than `false` and `0`, and `"once"` if not.
        verify: Whether a prompt, another call or an answer that differs from the recording fails, as with
            `replayed_agent(path, mode="verify")`. Default: true.

    Raises:
        InvalidOption: `path` is not a path, the file is missing or incomplete and the mode is `"none"`, or its
            directory cannot be written: option `cassette`. The mode is unknown: option `mode`. `verify` is not a bool:
            option `verify`. If the file is not a recording, the opening of the session raises it for the option
            `executable`.

    >>> from kimi_agent.testing import cassette, scripted_agent
    >>> executable = scripted_agent([[{"text": "4"}]])
    >>> for attempt in range(2):
    ...     tape = cassette("cassettes/sum.jsonl", executable=executable)
    ...     async with create_session(**tape) as session:
    ...         result = await session.prompt("2 + 2?").result()
    ...     print(tape.is_recording, result.text)
    True 4
    False 4
    """
    return open_cassette(path, executable, mode, verify)


def given_path(option: str, given: Any, expected: str) -> str:
    """Returns a path as text.

    Raises:
        InvalidOption: It is not a path, or is empty.
    """
    path = os.fspath(given) if isinstance(given, os.PathLike) else given
    if isinstance(path, str) and path:
        return path
    got = "an empty text" if path == "" else kind_of(given)
    raise InvalidOption(f"invalid option `{option}`: expected {expected}; got {got}", option)


def open_cassette(
    path: StrPath,
    executable: StrPath | Sequence[StrPath] | None,
    mode: str | None,
    verify: bool,
    default: str | None = None,
    remedy: str | None = None,
) -> Cassette:
    """Opens a cassette.

    `default` is the mode if neither the program nor `KIMI_RECORD` sets one. `remedy` is the part of errors that says
    how to record.
    """
    from . import _player

    if mode is not None and not isinstance(mode, str):
        raise InvalidOption(f"invalid option `mode`: expected the name of a mode, got {mode!r}", "mode")
    if not isinstance(verify, bool):
        raise InvalidOption(f"invalid option `verify`: expected True or False, got {verify!r}", "verify")
    file = given_path("cassette", path, "a name or a path")
    opened, is_recording = called(_native.open_cassette, file, mode, default, remedy)
    if not is_recording:
        agent = _player(opened, "verify" if verify else "replay", "--cassette")
        return Cassette(Path(opened), False, {"executable": agent})
    return Cassette(Path(opened), True, {"record": opened})._with_agent(executable)
