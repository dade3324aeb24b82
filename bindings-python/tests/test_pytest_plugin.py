"""The pytest plugin: the fixture `kimi_cassette`, its marker and its options."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

CONFTEST = """
import pytest
from kimi_agent.testing import scripted_agent

@pytest.fixture(scope="session")
def kimi_cassette_executable():
    return scripted_agent([[{"text": "4"}]])
"""
# The helper of the tests below.
HEAD = """
import pytest
from kimi_agent.sync import create_session

def ask(options, question="2 + 2?"):
    with create_session(**options) as session:
        return session.prompt(question).result().text
"""
TEST = """
def test_sum(kimi_cassette):
    assert ask(kimi_cassette) == "4"
"""


@pytest.fixture
def program(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("KIMI_RECORD", raising=False)
    pytester.makeconftest(CONFTEST)
    return pytester


def write(program: pytest.Pytester, tests: str = TEST) -> Path:
    """Writes `test_sums.py`. Returns the directory of its cassettes."""
    program.makepyfile(test_sums=HEAD + tests)
    return program.path / "cassettes" / "test_sums"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*"))


def test_missing_cassette_names_command(program: pytest.Pytester) -> None:
    write(program)
    result = program.runpytest()
    result.assert_outcomes(errors=1)
    path = Path("cassettes", "test_sums", "test_sum.jsonl")
    command = "pytest --kimi-record=once test_sums.py::test_sum"
    result.stdout.re_match_lines([rf"E? *(Failed: )?{re.escape(str(path))} is missing; record it: {command}"])
    assert "Traceback" not in result.stdout.str()
    result.stdout.no_fnmatch_line("*During handling of the above exception*")


def test_recording_is_played_later(program: pytest.Pytester) -> None:
    folder = write(program)
    program.runpytest("--kimi-record=once").assert_outcomes(passed=1)
    assert names(folder) == ["test_sum.jsonl"]
    program.makeconftest("")
    program.runpytest().assert_outcomes(passed=1)


def test_difference_fails_test(program: pytest.Pytester) -> None:
    folder = write(program)
    program.runpytest("--kimi-record=once").assert_outcomes(passed=1)
    write(program, TEST.replace("ask(kimi_cassette)", "ask(kimi_cassette, 'other')"))
    result = program.runpytest()
    result.assert_outcomes(failed=1)
    difference = (
        '*from the recording: turn 1: `prompt`: expected "2 + 2?", got "other" at /user_input; the recording is *.jsonl'
    )
    remedy = "If this is intended, record it again: pytest --kimi-record=rewrite test_sums.py::test_sum"
    result.stdout.fnmatch_lines(["*- kimi_cassette -*", difference, remedy])
    assert names(folder) == ["test_sum.jsonl"]


def test_missing_call_fails_test(program: pytest.Pytester) -> None:
    write(program)
    program.runpytest("--kimi-record=once").assert_outcomes(passed=1)
    tests = "def test_sum(kimi_cassette):\n    with create_session(**kimi_cassette): {}"
    write(program, tests.format("pass"))
    result = program.runpytest()
    result.assert_outcomes(failed=1)
    missing = "turn 1: the program never called `prompt`: expected *2 + 2?*; the recording is *.jsonl"
    result.stdout.fnmatch_lines([f"the program differs from the recording: {missing}", "If this is intended, *"])
    hidden = "    with pytest.raises(kimi_agent.RpcError):\n        create_session(**kimi_cassette).close()"
    write(program, f"import kimi_agent\ndef test_sum(kimi_cassette):\n{hidden}")
    program.runpytest().assert_outcomes(passed=1, errors=1)
    write(program, tests.format("raise RuntimeError('mine')"))
    result = program.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E * RuntimeError: mine"])
    result.stdout.no_fnmatch_line("E * kimi_agent.RpcError*")


@pytest.mark.parametrize(
    "tests",
    [
        "def test_sum(kimi_cassette):\n    assert ask(kimi_cassette) == '5'",
        "def test_sum(kimi_cassette):\n    ask(kimi_cassette)\n    pytest.skip('later')",
        "@pytest.fixture\ndef broken(kimi_cassette):\n    ask(kimi_cassette)\n    raise RuntimeError\n"
        "def test_sum(broken): pass",
        "@pytest.fixture\ndef broken():\n    yield\n    raise RuntimeError\n"
        "def test_sum(kimi_cassette, broken):\n    ask(kimi_cassette)",
    ],
    ids=["call", "skip", "setup", "teardown"],
)
def test_failed_test_keeps_no_recording(tests: str, program: pytest.Pytester) -> None:
    folder = write(program, tests)
    assert program.runpytest("--kimi-record=once").ret in (0, 1)
    assert folder.is_dir()
    assert names(folder) == []


@pytest.mark.parametrize("mode", ["once", "rewrite"])
def test_recording_without_session_is_error(mode: str, program: pytest.Pytester) -> None:
    write(program, "def test_sum(kimi_cassette): pass")
    result = program.runpytest(f"--kimi-record={mode}")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*nothing was recorded: the test has not opened and closed a session*"])


@pytest.mark.parametrize(
    ("tests", "problem"),
    [
        (
            "import sys\n"
            "import kimi_agent\n"
            "def test_sum(kimi_cassette):\n"
            "    with pytest.raises(kimi_agent.KimiAgentError):\n"
            "        create_session(**{**kimi_cassette, 'executable': [sys.executable, '-c', 'pass']})",
            "its session was never opened",
        ),
        (
            "sessions = []\n"
            "def test_sum(kimi_cassette):\n"
            "    sessions.append(create_session(**kimi_cassette))\n"
            "    assert sessions[0].prompt('2 + 2?').result().text == '4'\n"
            "def test_close():\n"
            "    sessions[0].close()",
            "its session was never closed",
        ),
    ],
    ids=["unopened", "open"],
)
def test_incomplete_recording_is_error(tests: str, problem: str, program: pytest.Pytester) -> None:
    folder = write(program, tests)
    result = program.runpytest("--kimi-record=once")
    result.assert_outcomes(passed=tests.count("def "), errors=1)
    result.stdout.fnmatch_lines(
        [f"*test_sum.jsonl is incomplete, because {problem}; record it again: open the session *"]
    )
    assert names(folder) == []


def test_one_shot_prompt_is_recorded(program: pytest.Pytester) -> None:
    tests = """
from kimi_agent.sync import prompt

def test_sum(kimi_cassette):
    assert prompt("2 + 2?", **kimi_cassette).result().text == "4"
"""
    folder = write(program, tests)
    for arguments in (["--kimi-record=once"], []):
        program.runpytest(*arguments).assert_outcomes(passed=1)
    assert names(folder) == ["test_sum.jsonl"]


def test_expected_failure_keeps_recording(program: pytest.Pytester) -> None:
    folder = write(program, f"@pytest.mark.xfail(strict=True){TEST.replace('4', '5')}")
    for arguments in ([], ["--kimi-record=once"], []):
        program.runpytest(*arguments).assert_outcomes(xfailed=1)
    assert names(folder) == ["test_sum.jsonl"]
    write(program)
    program.runpytest().assert_outcomes(passed=1)


def test_interrupt_keeps_no_recording(program: pytest.Pytester) -> None:
    folder = write(program, "def test_sum(kimi_cassette):\n    ask(kimi_cassette)\n    raise KeyboardInterrupt")
    program.runpytest_subprocess("--kimi-record=once")
    assert (folder.is_dir(), names(folder)) == (True, [])


def test_recording_of_teardown_is_kept(program: pytest.Pytester) -> None:
    tests = """
@pytest.fixture
def session(kimi_cassette):
    with create_session(**kimi_cassette) as session:
        yield session

def test_sum(session):
    assert session.prompt("2 + 2?").result().text == "4"
"""
    folder = write(program, tests)
    program.runpytest("--kimi-record=once").assert_outcomes(passed=1)
    assert names(folder) == ["test_sum.jsonl"]
    program.runpytest().assert_outcomes(passed=1)


def test_marker_has_arguments(program: pytest.Pytester) -> None:
    tests = """
from kimi_agent.testing import scripted_agent

FIVE = scripted_agent([[{"text": "5"}]])

@pytest.mark.kimi_cassette("sums/five", executable=FIVE, mode="once", verify=False)
def test_marked(kimi_cassette):
    text = ask(kimi_cassette, "one" if kimi_cassette.is_recording else "other")
    assert text == "5"
"""
    folder = write(program, tests)
    for _ in range(2):
        program.runpytest("--strict-markers").assert_outcomes(passed=1)
    assert names(folder / "sums") == ["five.jsonl"]


@pytest.mark.parametrize(
    ("marker", "text"),
    [
        (
            "'a', 'b', verify=True",
            "*the marker kimi_cassette has wrong arguments: expected one positional argument, the name, got 2: "
            "'a', 'b'; `executable`, `mode` and `verify` are keyword arguments*",
        ),
        ("3", "*the marker kimi_cassette has wrong arguments: the name must be a text, not 3*"),
        ("'../up'", "*wrong arguments: the name must be a file in the directory of the cassettes, not '../up'*"),
        ("names='a'", "*the marker kimi_cassette has wrong arguments: *unexpected keyword argument 'names'*"),
        ("mode='none'", '*is missing; record it: remove mode="none" from its marker, then run pytest *'),
        ("mode='x'", '*invalid option `mode`: expected "once", "none", "all" or "rewrite", got "x"*'),
    ],
)
def test_wrong_marker_is_explained(marker: str, text: str, program: pytest.Pytester) -> None:
    write(program, f"@pytest.mark.kimi_cassette({marker})\n" + TEST.strip())
    result = program.runpytest()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([text])


def test_marker_without_fixture_warns(program: pytest.Pytester) -> None:
    write(program, "@pytest.mark.kimi_cassette('sum')\ndef test_sum(): pass")
    # This process makes errors of warnings.
    result = program.runpytest_subprocess()
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*the marker kimi_cassette has no effect: *"])


def test_wrong_mode_is_usage_error(program: pytest.Pytester) -> None:
    write(program)
    result = program.runpytest("--kimi-record=twice")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--kimi-record: invalid choice: *twice*"])


def test_modes_have_an_order(program: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(program)
    monkeypatch.setenv("KIMI_RECORD", "once")
    program.runpytest("--kimi-record=none").assert_outcomes(errors=1)
    program.runpytest().assert_outcomes(passed=1)
    assert names(folder) == ["test_sum.jsonl"]


@pytest.mark.parametrize("mode", ["all", "rewrite"])
def test_recording_is_replaced(mode: str, program: pytest.Pytester) -> None:
    write(program)
    program.runpytest("--kimi-record=once").assert_outcomes(passed=1)
    write(program, TEST.replace("ask(kimi_cassette)", "ask(kimi_cassette, 'other')"))
    program.runpytest(f"--kimi-record={mode}").assert_outcomes(passed=1)
    program.runpytest().assert_outcomes(passed=1)


def test_names_are_safe_and_differ(program: pytest.Pytester) -> None:
    tests = """
class TestSums:
    @pytest.mark.parametrize("question", ["a/b", "a?b", "a", "x" * 300])
    def test_sum(self, question, kimi_cassette):
        assert ask(kimi_cassette, question) == "4"
"""
    folder = write(program, tests)
    program.runpytest("--kimi-record=once").assert_outcomes(passed=4)
    found = names(folder)
    assert len(found) == 4
    assert "TestSums.test_sum[a].jsonl" in found
    assert all(name.startswith("TestSums.test_sum[") and len(name) < 130 for name in found)
    program.runpytest().assert_outcomes(passed=4)


def test_command_is_quoted(program: pytest.Pytester) -> None:
    write(program, "@pytest.mark.parametrize('n', ['a b'])\ndef test_sum(n, kimi_cassette): pass")
    result = program.runpytest()
    result.stdout.fnmatch_lines(["*record it: pytest --kimi-record=once 'test_sums.py::test_sum[[]a b[]]'"])


def test_directory_can_be_chosen(program: pytest.Pytester) -> None:
    program.makeconftest(
        CONFTEST
        + "@pytest.fixture(scope='session')\ndef kimi_cassette_dir(pytestconfig):\n"
        + "    return str(pytestconfig.rootpath / 'tapes')\n"
    )
    write(program)
    program.runpytest("--kimi-record=once").assert_outcomes(passed=1)
    assert names(program.path / "tapes") == ["test_sum.jsonl"]


def test_plugin_imports_package_late(program: pytest.Pytester) -> None:
    program.makeconftest("")
    program.makepyfile("import sys\ndef test_nothing():\n    assert 'kimi_agent' not in sys.modules")
    program.runpytest_subprocess().assert_outcomes(passed=1)


def test_agent_that_cannot_start_keeps_recording(program: pytest.Pytester) -> None:
    folder = write(program)
    program.runpytest("--kimi-record=once").assert_outcomes(passed=1)
    old = (folder / "test_sum.jsonl").read_bytes()
    program.makeconftest("import pytest\n@pytest.fixture\ndef kimi_cassette_executable(): return 'no-such-agent'")
    program.runpytest("--kimi-record=rewrite").assert_outcomes(failed=1)
    assert (folder / "test_sum.jsonl").read_bytes() == old
