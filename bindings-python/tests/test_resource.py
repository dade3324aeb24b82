"""Files and other resources as content parts."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import kimi_agent
from kimi_agent import InvalidOption, ResourcePart, TextPart, file, resource, sync
from kimi_agent.testing import scripted_agent


@pytest.mark.parametrize("kind", [str, Path])
def test_file_of_text_has_its_content(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "a b.md"
    path.write_text("# Notes\n")
    part = file(kind(path))
    assert (part.name, part.text, part.size) == ("a b.md", "# Notes\n", 8)
    assert part.uri.startswith("file:///")
    assert part.uri.endswith("/a%20b.md")
    assert pickle.loads(pickle.dumps(part)) == part


def test_binary_file_is_link(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"a\0b")
    part = file(path)
    assert (part.text, part.data, part.size) == (None, None, 3)


def test_unusable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r'there is no file ".*a\.md"; pass the path of a file') as caught:
        file(tmp_path / "a.md")
    assert (caught.value.code, caught.value.option) == ("invalid_option", "file")
    with pytest.raises(InvalidOption, match="is a directory; pass the path of a file"):
        file(tmp_path)
    wrong: Any = 5
    with pytest.raises(InvalidOption, match="file: expected the path of a file, got 5"):
        file(wrong)


@pytest.mark.parametrize("data", [b"hi", bytearray(b"hi"), memoryview(b"hi")])
def test_resource_has_text_or_bytes(data: Any) -> None:
    assert resource("issue:7") == ResourcePart("issue:7")
    text = resource("issue:7", text="It fails.", mime_type="text/plain")
    assert text == ResourcePart("issue:7", text="It fails.", mime_type="text/plain")
    assert resource("mem:1", data=data) == ResourcePart("mem:1", data="aGk=")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"uri": "notes.md"}, r"the `uri` is not a URI: \"notes\.md\""),
        ({"uri": "issue:7", "text": "a", "data": b"a"}, "both `text` and `data`"),
        ({"uri": "issue:7", "mime_type": "text"}, "not a media type"),
        ({"uri": "issue:7", "text": "x" * (8 * 1024 * 1024 + 1)}, "more than 8 MiB"),
        ({"uri": 5}, "`uri`: expected text, got 5"),
        ({"uri": "issue:7", "text": b"a"}, "`text`: expected text, got b'a'"),
        ({"uri": "issue:7", "data": "a"}, "`data`: expected bytes, got 'a'"),
    ],
)
def test_wrong_resource_is_refused(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem) as caught:
        resource(**arguments)
    assert caught.value.option == "resource"


def test_resource_reaches_agent_of_wire_as_text() -> None:
    with sync.create_session(executable=scripted_agent([[{"text": "read"}]])) as session:
        begin, *_ = session.prompt(["Read ", resource("issue:7", text="It fails.")])
    assert isinstance(begin, kimi_agent.TurnBegin)
    assert begin.user_input == [TextPart("Read "), TextPart("\nResource issue:7:\n```\nIt fails.\n```\n")]
