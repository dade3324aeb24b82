"""Values of the program whose methods fail: exceptions, answers, options."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from support import LOOKUP, open_session

import kimi_agent
from kimi_agent import ExternalTool, InvalidOption, KimiAgentError, TerminalResult

ASK: dict[str, Any] = {"tool_call": {"name": "Shell", "arguments": {"command": "x"}, "approve": True}}
TURN = [ASK, LOOKUP, {"text": "ok"}]


def refuse(*_: object) -> Any:
    raise RuntimeError("it refuses")


def failing(*names: str) -> dict[str, Any]:
    """The body of a class whose methods fail."""
    return dict.fromkeys(names, refuse)


TEXT: Any = type(
    "Text",
    (str,),
    failing("__len__", "__bool__", "__eq__", "__hash__", "__iter__", "__contains__", "__getitem__")
    | failing("isascii", "encode", "partition"),
)
META: Any = type("Meta", (type,), {"__name__": property(refuse), "__module__": property(refuse)})
"""The class of classes without names."""


def raised() -> dict[str, BaseException]:
    """Exceptions of many malices."""

    def interrupts(_: object) -> str:
        raise KeyboardInterrupt

    def exits(_: object) -> str:
        raise SystemExit(3)

    bodies: dict[str, dict[str, Any]] = {
        "str": {"__str__": refuse},
        "str that interrupts": {"__str__": interrupts},
        "str that exits": {"__str__": exits},
        "no text": {"__str__": lambda _: 1},
        "strange text": {"__str__": lambda _: TEXT("strange")},
        "repr": {"__repr__": refuse, "__str__": refuse},
        "class": {"__class__": property(refuse)},
        "attributes": {"__getattribute__": refuse},
        "args": {"args": property(refuse)},
        "cause": {"__cause__": property(refuse), "__context__": property(refuse)},
        "wrong cause": {"__cause__": property(lambda _: 1)},
        "traceback": {"__traceback__": property(refuse)},
        "notes": {"__notes__": 1},
        "bool": {"__bool__": refuse, "__len__": refuse, "__eq__": refuse, "__hash__": refuse},
        "half of a surrogate pair": {"__str__": lambda _: "a\ud800"},
        "long": {"__str__": lambda _: "x" * (10 << 20)},
    }
    made: dict[str, BaseException] = {name: type("Hostile", (Exception,), body)() for name, body in bodies.items()}
    made["metaclass"] = META("Hostile", (Exception,), {})()
    made["base"] = type("Hostile", (BaseException,), {"__str__": refuse})()
    cyclic = Exception("cyclic")
    cyclic.__cause__ = cyclic
    made["cyclic"] = cyclic
    return made


def answers() -> dict[str, Any]:
    """Answers whose methods fail."""
    everything = failing("__eq__", "__hash__", "__getattr__", "__str__", "__repr__", "__bool__", "__len__", "__iter__")
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    return {
        "everything": type("Hostile", (), everything)(),
        "class": type("Hostile", (), {"__class__": property(refuse)})(),
        "metaclass": META("Hostile", (), {})(),
        "text": TEXT("approve"),
        "mapping": type("Hostile", (dict,), {"items": refuse, "__iter__": refuse})(a=1),
        "number": type("Hostile", (int,), {"__int__": refuse, "__index__": refuse, "__repr__": refuse})(3),
        "large number": 10**5000,
        "payload": type("Hostile", (), {"to_payload": refuse})(),
        "await": type("Hostile", (), {"__await__": refuse})(),
        "cyclic": cyclic,
        "terminal": TerminalResult(output="\ud800", exit_code=10**400),
    }


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Returns a function that makes each record of the log fail."""

    class Failing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            refuse()

    logger = logging.getLogger("kimi_agent")
    # The handlers of pytest would report that a record has no text.
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "handlers", [logging.NullHandler()])
    return lambda: monkeypatch.setattr(logger, "handlers", [Failing()])


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_session_survives_what_handlers_raise(quiet: Callable[[], None], is_async: bool) -> None:
    current: list[BaseException] = []

    def plain(_: object) -> Any:
        raise current[0]

    async def later(_: object) -> Any:
        raise current[0]

    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    handler = later if is_async else plain
    tool = ExternalTool("lookup", "Looks up.", {"type": "object"}, handler)
    every = raised()
    session = await open_session(*[TURN for _ in range(2 * len(every))], on_approval=handler, tools=[tool])
    for fails in (False, True):
        if fails:
            quiet()
        for name, failure in every.items():
            current[:] = [failure]
            result = await session.prompt("go").result()
            assert result.status == "finished", name
            failed = [one for one in result.handler_failures if one.handler == "approval"]
            assert len(failed) == 1, name
            assert len(failed[0].message) <= 70_000, name
    await session.close()


@pytest.mark.usefixtures("quiet")
async def test_session_survives_what_handlers_return() -> None:
    current: list[Any] = []
    every = answers()
    tool = ExternalTool("lookup", "Looks up.", {"type": "object"}, lambda _: current[0])
    session = await open_session(*[TURN for _ in every], on_approval=lambda _: current[0], tools=[tool])
    for name, answer in every.items():
        current[:] = [answer]
        result = await session.prompt("go").result()
        assert result.status == "finished", name
    await session.close()


@pytest.mark.usefixtures("quiet")
async def test_failing_source_ends_batch() -> None:
    for name, failure in raised().items():
        if name == "base":
            continue

        async def jobs(failure: BaseException = failure) -> AsyncIterator[str]:
            raise failure
            yield ""

        with pytest.raises(KimiAgentError):
            await anext(kimi_agent.run_batch(jobs(), executable=["/bin/false"]))


async def test_option_that_cannot_be_read_is_invalid() -> None:
    for name, value in {**answers(), "huge": 10**400}.items():
        for option in ("turn_timeout", "env", "config", "mcp_configs", "work_dir", "on_approval", "tools", "policy"):
            with pytest.raises((KimiAgentError, TypeError)) as caught:
                await kimi_agent.create_session(executable=["/bin/false"], **{option: value})
            if option == "turn_timeout" and name in ("huge", "large number"):
                assert isinstance(caught.value, InvalidOption), (name, caught.value)
