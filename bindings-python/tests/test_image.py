"""Images as content parts."""

from __future__ import annotations

import base64
import pickle
from pathlib import Path
from typing import Any

import pytest

import kimi_agent
from kimi_agent import ImageURLPart, InvalidOption, MediaURL, TextPart, image, sync, tool
from kimi_agent.testing import scripted_agent

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(100))
URL = "data:image/png;base64," + base64.b64encode(PNG).decode()


@pytest.mark.parametrize("kind", [str, Path, bytes, bytearray, memoryview])
def test_image_accepts_path_or_bytes(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "pictüre.txt"
    path.write_bytes(PNG)
    part = image(kind(path if kind in (str, Path) else PNG))
    assert part == ImageURLPart(MediaURL(URL))
    assert pickle.loads(pickle.dumps(part)) == part


def test_unusable_image_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    with pytest.raises(
        InvalidOption, match=r'there is no file ".*picture\.png".*; pass the path of an image'
    ) as caught:
        image(path)
    assert (caught.value.code, caught.value.option) == ("invalid_option", "image")
    with pytest.raises(InvalidOption, match="is a directory; pass the path of an image file"):
        image(tmp_path)
    path.write_bytes(b"")
    with pytest.raises(InvalidOption, match=r'picture\.png" is empty; expected PNG, JPEG'):
        image(path)
    path.write_text("hello, world")
    with pytest.raises(InvalidOption, match=r'picture\.png" is not an image of a known type: it starts with 68 65'):
        image(path)
    with pytest.raises(InvalidOption, match="the value is empty"):
        image(b"")
    with pytest.raises(InvalidOption, match="is a URL, not a path; make an ImageURLPart of it"):
        image("https://example.org/picture.png")


@pytest.mark.parametrize("value", [None, 5, ["picture.png"]])
def test_image_of_wrong_type_is_refused(value: Any) -> None:
    with pytest.raises(InvalidOption, match="`image`: expected the path of a file or its bytes, got"):
        image(value)


def test_image_in_prompt_reaches_agent() -> None:
    with sync.create_session(executable=scripted_agent([[{"text": "a picture"}]])) as session:
        begin, *_ = session.prompt(["What is it?", image(PNG)])
    assert isinstance(begin, kimi_agent.TurnBegin)
    assert begin.user_input == [TextPart("What is it?"), ImageURLPart(MediaURL(URL))]


def test_image_result_of_tool_stays_content_part() -> None:
    @tool
    def plot() -> ImageURLPart:
        """Draws a picture."""
        return image(PNG)

    script = [[{"external_tool": {"name": "plot", "arguments": {}}}]]
    with sync.create_session(executable=scripted_agent(script), tools=[plot]) as session:
        (result,) = [e for e in session.prompt("Draw") if isinstance(e, kimi_agent.ToolResult)]
    assert result.return_value.output == [ImageURLPart(MediaURL(URL))]
