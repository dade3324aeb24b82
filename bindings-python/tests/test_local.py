"""The ready handlers of files and terminals."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kimi_agent import InvalidOption, create_session, files, terminals
from kimi_agent.testing import scripted_agent

SAY: dict[str, Any] = {"text": "{{last.content}}"}


def agent(*actions: dict[str, Any]) -> list[str]:
    return scripted_agent({"release": "2.1.0", "turns": [list(actions)]})


async def text_of(root: Path, *actions: dict[str, Any], write: bool = False) -> tuple[str, list[str]]:
    project = files(root, write=write, max_bytes=1000)
    async with create_session(
        executable=agent(*actions, SAY),
        work_dir=root,
        on_read_file=project.read,
        on_write_file=project.write,
        on_terminal=terminals(root, timeout=60),
    ) as session:
        result = await session.prompt("Go").result()
    return result.text, [failure.message for failure in result.handler_failures]


async def test_files_below_root_are_served(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("words")
    text, failures = await text_of(tmp_path, {"read_file": {"path": f"{tmp_path}/a.txt"}})
    assert (text.startswith("words"), failures) == (True, [])
    written = {"write_file": {"path": f"{tmp_path}/b.txt", "content": "new"}}
    await text_of(tmp_path, written, write=True)
    assert (tmp_path / "b.txt").read_text() == "new"


async def test_attacks_are_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_text("secret")
    (root / "long").write_text("x" * 1001)
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "up").symlink_to(tmp_path)
    os.mkfifo(root / "fifo")
    for name in ("../secret", "link", "up/secret", "fifo", "long", "."):
        text, failures = await text_of(root, {"read_file": {"path": f"{root}/{name}"}})
        assert "secret" not in text, name
        assert len(failures) == 1, name
    for name in ("../secret", "link", "up/secret", "fifo"):
        write = {"write_file": {"path": f"{root}/{name}", "content": "mine"}}
        _, failures = await text_of(root, write, write=True)
        assert len(failures) == 1, name
    assert (tmp_path / "secret").read_text() == "secret"
    _, failures = await text_of(root, {"write_file": {"path": f"{root}/new", "content": "mine"}})
    assert "does not allow writing" in failures[0]


async def test_wrong_settings_are_refused(tmp_path: Path) -> None:
    for given in (files(tmp_path, max_bytes=-1).read, terminals(tmp_path), "text"):
        with pytest.raises(InvalidOption) as caught:
            await create_session(executable=agent(SAY), on_read_file=given)  # type: ignore[arg-type]
        assert caught.value.option == "on_read_file"
    with pytest.raises(TypeError, match="on_read_file"):
        files(tmp_path).read(None)  # type: ignore[arg-type]


async def test_output_that_is_cut_is_truncated(tmp_path: Path) -> None:
    every = [
        ("printf 123456789", 5, "56789"),
        ("printf 12345", 5, "12345"),
        ("printf 'a\\303\\244\\303\\244'", 3, "\u00e4"),
        ("head -c 4194305 /dev/zero | tr '\\0' x", None, ""),
    ]
    for script, limit, end in every:
        limits = {} if limit is None else {"output_byte_limit": limit}
        command = {"command": "sh", "args": ["-c", script], "cwd": str(tmp_path), **limits}
        said: dict[str, Any] = {"text": "{{last.truncated}} {{last.output}}"}
        async with create_session(
            executable=agent({"terminal": command}, said), work_dir=tmp_path, on_terminal=terminals(tmp_path)
        ) as session:
            text = (await session.prompt("Go").result()).text
        truncated, _, output = text.partition(" ")
        assert truncated.lower() == ("false" if output == "12345" else "true"), text[:100]
        assert output == end or limit is None, text[:100]
