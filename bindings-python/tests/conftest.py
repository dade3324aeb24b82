"""Runs tests that are coroutines, each in an event loop of its own."""

from __future__ import annotations

import asyncio
import inspect
import signal
from collections.abc import Generator

import pytest

# Far beyond what a test takes on a loaded machine: it only ends those that hang.
DEADLINE = 120.0


def pytest_configure() -> None:
    # A shell's background job has SIGINT ignored, and programs that tests start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs the test itself where it is a coroutine."""
    function = pyfuncitem.obj
    if not inspect.iscoroutinefunction(function):
        return None
    names = inspect.signature(function).parameters
    arguments = {name: value for name, value in pyfuncitem.funcargs.items() if name in names}
    asyncio.run(asyncio.wait_for(function(**arguments), DEADLINE))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A worker cannot send a log that is not valid Unicode to the process that prints it."""
    report = yield
    valid = [(title, text.encode("utf-8", "backslashreplace").decode()) for title, text in report.sections]
    report.sections = valid
    return report
