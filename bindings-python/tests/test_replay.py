"""The agent of a recording: recordings of all protocols, a recording of this program, and the comparison with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kimi_agent import InvalidOption, RpcError, create_session
from kimi_agent.testing import replayed_agent, scripted_agent

RECORDINGS = Path(__file__).parents[2] / "tests" / "recordings"


async def texts(prompts: tuple[str, ...] = ("List the files", "Thanks"), **options: Any) -> list[str]:
    async with create_session(**options) as session:
        return [(await session.prompt(prompt).result()).text for prompt in prompts]


@pytest.mark.parametrize("mode", ["replay", "verify"])
@pytest.mark.parametrize("dialect", ["wire", "legacy", "acp", "kimi-web"])
async def test_recording_of_each_protocol_is_played(dialect: str, mode: Any, tmp_path: Path) -> None:
    agent = replayed_agent(RECORDINGS / f"{dialect}.jsonl", mode)
    options: dict[str, Any] = {"yolo": True} if dialect == "legacy" else {"on_approval": lambda request: "approve"}
    assert await texts(executable=agent, work_dir=tmp_path, **options) == ["There is a.txt.", "Bye."]


async def test_difference_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    agent = scripted_agent([[{"text": "one"}]])
    assert await texts(("first",), executable=agent, record=file) == ["one"]
    assert await texts(("other",), executable=replayed_agent(file)) == ["one"]
    with pytest.raises(RpcError, match='turn 1: `prompt`: expected "first", got "other" at /user_input'):
        await texts(("other",), executable=replayed_agent(file, mode="verify"))


async def test_unusable_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r"the recording .* can't be read") as caught:
        await texts(executable=replayed_agent(tmp_path / "missing.jsonl"))
    assert caught.value.option == "executable"
    with pytest.raises(InvalidOption, match='expected "replay", "verify" or "stub"'):
        replayed_agent("run.jsonl", mode="other")  # type: ignore[arg-type]
    unhashable: Any = ["replay"]
    with pytest.raises(InvalidOption, match='expected "replay", "verify" or "stub"'):
        replayed_agent("run.jsonl", mode=unhashable)


class _BytesPath:
    def __fspath__(self) -> bytes:
        return b"two.jsonl"


@pytest.mark.parametrize(
    ("given", "got"),
    [
        (5, "5"),
        (None, "None"),
        (b"two.jsonl", "an object of type bytes"),
        (_BytesPath(), "an object of type test_replay._BytesPath"),
        ("", "an empty text"),
    ],
)
def test_file_that_is_not_path_is_refused(given: Any, got: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        replayed_agent(given)
    assert str(caught.value) == f"invalid option `file`: expected the path of a recording; got {got}"
    assert caught.value.option == "file"


def test_empty_path_of_script_is_refused() -> None:
    with pytest.raises(InvalidOption, match="`script`: expected the path of a JSON file; got an empty text"):
        scripted_agent("")
