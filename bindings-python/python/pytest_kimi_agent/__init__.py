"""The pytest plugin of the package `kimi_agent`: tests that play recordings of sessions.

pytest loads it in each run. It is a package of its own, so that it imports nothing of `kimi_agent` before a test uses
the fixture `kimi_cassette`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kimi_agent.testing import Cassette

__all__ = ["kimi_cassette", "kimi_cassette_dir", "kimi_cassette_executable"]

MARKER = "kimi_cassette"
# The core reads modes, too. The list is here for the help and for early errors.
MODES = ("none", "once", "all", "rewrite")
# How long a recording may take to be complete after its test, in seconds. One-shot prompts close in the background.
COMPLETE_TIMEOUT = 2.0
# The limit of a name that is made of that of a test, in characters.
MAX_NAME = 100


class _Outcome:
    """Whether a test has passed, and its files."""

    def __init__(self, again: str) -> None:
        # The command that records again.
        self.again = again
        self.recorded: Path | None = None
        # The recording that was there before the test.
        self.old: bytes | None = None
        self.report: Path | None = None
        self.has_passed = False
        # Whether it has failed as its marker `xfail` says.
        self.has_xfailed = False

    def difference(self) -> str | None:
        """The difference between the test and its recording, with the remedy."""
        if self.report is None or not self.report.exists():
            return None
        # Without the advice for tests of other languages.
        difference = self.report.read_text("utf-8").partition(". If this is intended")[0]
        return f"{difference}\nIf this is intended, record it again: {self.again}"


_outcome = pytest.StashKey[_Outcome]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option `--kimi-record`."""
    parser.getgroup("kimi-agent").addoption(
        "--kimi-record",
        metavar="MODE",
        choices=MODES,
        help=(
            "when tests record their kimi_cassette: none = never, once = if the file is missing or incomplete, "
            "all and rewrite = always (default: $KIMI_RECORD, or none)"
        ),
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker."""
    text = "the recording of the fixture kimi_cassette: its name, and the agent to record with"
    config.addinivalue_line("markers", f"{MARKER}(name=None, *, executable=None, mode=None, verify=True): {text}")


@pytest.fixture(scope="module")
def kimi_cassette_dir(request: pytest.FixtureRequest) -> Path:
    """The directory of the cassettes of a test file. Override it to choose another one."""
    return request.path.parent / "cassettes" / request.path.stem


@pytest.fixture(scope="session")
def kimi_cassette_executable() -> Any:
    """The agent to record with, as the option `executable`. Override it to choose another one."""
    return None


@pytest.fixture
def kimi_cassette(request: pytest.FixtureRequest) -> Iterator[Cassette]:
    """The options of a session that plays the recording of this test, or records it: `create_session(**kimi_cassette)`.

    The marker `kimi_cassette` has the name of the recording, `executable`, `mode` and `verify`. The option
    `--kimi-record` says when to record. A recording is deleted if its test does not pass, unless that is expected.
    """
    from kimi_agent import InvalidOption
    from kimi_agent.testing._cassette import open_cassette

    item = request.node
    marker = _Marker.of(item)
    path = _path(marker.name, item, request.getfixturevalue("kimi_cassette_dir"))
    mode = marker.mode or item.config.getoption("--kimi-record")
    try:
        cassette = open_cassette(path, None, mode, marker.verify, default="none", remedy=_remedy(item, marker))
    except InvalidOption as error:
        raise _failure(_reason(error)) from None
    outcome = item.stash[_outcome] = _Outcome(_command(item, "rewrite"))
    yield from _recording(request, marker, cassette, outcome) if cassette.is_recording else _playing(cassette, outcome)


def _recording(
    request: pytest.FixtureRequest, marker: _Marker, cassette: Cassette, outcome: _Outcome
) -> Iterator[Cassette]:
    executable = marker.executable
    if executable is None:
        executable = request.getfixturevalue("kimi_cassette_executable")
    outcome.recorded = cassette.path
    outcome.old = _content(cassette.path)
    yield cassette._with_agent(executable)
    if not outcome.has_passed and not outcome.has_xfailed:
        _delete(outcome)
    elif outcome.has_passed:
        problem = _awaited_problem(outcome, cassette.path)
        if problem is not None:
            raise _failure(problem)


def _awaited_problem(outcome: _Outcome, path: Path) -> str | None:
    """The reason why a recording cannot be played, if it still cannot after a while."""
    import time

    deadline = time.monotonic() + COMPLETE_TIMEOUT
    while True:
        problem = _problem(outcome, path)
        if problem is None or time.monotonic() >= deadline:
            return problem
        time.sleep(0.05)


def _problem(outcome: _Outcome, path: Path) -> str | None:
    from kimi_agent import InvalidOption
    from kimi_agent.testing._cassette import open_cassette

    if _content(path) == outcome.old:
        return f"nothing was recorded: the test has not opened and closed a session with the fixture {MARKER}"
    remedy = f": open the session and close it in the test, then run {outcome.again}"
    try:
        open_cassette(path, None, "none", True, remedy=remedy)
    except InvalidOption as error:
        return _reason(error)
    return None


def _playing(cassette: Cassette, outcome: _Outcome) -> Iterator[Cassette]:
    """Fails a test that has passed although it differs from the recording: it has left out something."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        outcome.report = Path(folder, "difference.txt")
        yield cassette._with_report(str(outcome.report))
        difference = outcome.difference()
        if outcome.has_passed and difference is not None:
            raise _failure(difference)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Warns about a marker without the fixture: the test would use a real agent."""
    is_marked = any(marker.name == MARKER for marker in item.own_markers)
    if is_marked and MARKER not in getattr(item, "fixturenames", ()):
        text = f"the marker {MARKER} has no effect: the test does not use the fixture {MARKER}"
        item.warn(pytest.PytestWarning(text))


# First, so that the report is that of an expected failure already.
@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Notes whether a test has passed, and shows its difference from the recording.

    If the teardown of a test that records fails, the recording is deleted here.
    """
    hook = yield
    outcome = item.stash.get(_outcome, None)
    if outcome is None:
        return
    report: pytest.TestReport = hook.get_result()  # type: ignore[attr-defined]
    if report.when == "call":
        outcome.has_passed = report.passed
        outcome.has_xfailed = report.skipped and hasattr(report, "wasxfail")
        difference = outcome.difference()
        if report.failed and difference is not None:
            report.sections.append((MARKER, difference))
    elif report.failed:
        _delete(outcome)


class _Marker:
    """The arguments of the marker."""

    def __init__(
        self, name: str | None = None, *, executable: Any = None, mode: str | None = None, verify: bool = True
    ) -> None:
        self.name = name
        self.executable = executable
        self.mode = mode
        self.verify = verify

    @classmethod
    def of(cls, item: pytest.Item) -> _Marker:
        marker = item.get_closest_marker(MARKER)
        if marker is None:
            return cls()
        try:
            if len(marker.args) > 1:
                given = f"{len(marker.args)}: {', '.join(map(repr, marker.args))}"
                rest = "`executable`, `mode` and `verify` are keyword arguments"
                raise TypeError(f"expected one positional argument, the name, got {given}; {rest}")
            made = cls(*marker.args, **marker.kwargs)
            if made.name is not None and not isinstance(made.name, str):
                raise TypeError(f"the name must be a text, not {made.name!r}")
            if made.name is not None and (Path(made.name).is_absolute() or ".." in Path(made.name).parts):
                raise TypeError(f"the name must be a file in the directory of the cassettes, not {made.name!r}")
            return made
        except TypeError as error:
            reason = str(error).replace("_Marker.", "").replace("__init__()", "it")
            raise _failure(f"the marker {MARKER} has wrong arguments: {reason}") from None


def _reason(error: Exception) -> str:
    return str(error).replace("invalid option `cassette`: ", "")


def _failure(text: str) -> BaseException:
    """A failure whose report is this text, without the lines of this file."""
    return pytest.fail.Exception(text, pytrace=False)


def _path(name: str | None, item: pytest.Item, folder: Any) -> Path:
    if name is None:
        name = _safe(_name(item))
    file = name if name.endswith(".jsonl") else f"{name}.jsonl"
    return Path(folder) / file


def _name(item: pytest.Item) -> str:
    """The name of a test below its file: with its classes, and its parameters."""
    parents = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    return ".".join([*parents, item.name])


def _safe(name: str) -> str:
    """The name of a file. Names that differ stay different."""
    safe = re.sub(r"[^\w.\[\]-]+", "-", name)[:MAX_NAME]
    if safe == name:
        return name
    from hashlib import sha256

    return f"{safe}-{sha256(name.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"


def _remedy(item: pytest.Item, marker: _Marker) -> str:
    """The end of an error, with the command that records."""
    command = _command(item, "once")
    if marker.mode is not None:
        return f': remove mode="{marker.mode}" from its marker, then run {command}'
    return f": {command}"


def _command(item: pytest.Item, mode: str) -> str:
    from shlex import quote

    place = item.nodeid.partition("::")[2]
    try:
        file = os.path.relpath(item.path)
    except ValueError:  # on Windows, another drive
        file = str(item.path)
    # pytest takes slashes on every system, and backslashes would need quotes.
    target = f"{Path(file).as_posix()}::{place}"
    return f"pytest --kimi-record={mode} {quote(target)}"


def _delete(outcome: _Outcome) -> None:
    """Deletes what a test has recorded. An old recording stays if no session was opened."""
    if outcome.recorded is not None:
        content = _content(outcome.recorded)
        if content is not None and content != outcome.old:
            outcome.recorded.unlink()
        outcome.recorded = None


def _content(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
