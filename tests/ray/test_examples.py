"""The examples in the docstrings of `kimi_agent.ray`, and in its guide."""

from __future__ import annotations

import ast
import asyncio
import doctest
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("cluster")

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "run-on-a-cluster.md"
MODULES = ("kimi_agent.ray", "kimi_agent.ray._actors", "kimi_agent.ray._data")
FINDER = doctest.DocTestFinder(exclude_empty=True)
EXAMPLES = [test for name in MODULES for test in FINDER.find(importlib.import_module(name), name) if test.examples]


@pytest.fixture
def _coroutines(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets examples await, as `python -m asyncio` does."""
    loop = asyncio.new_event_loop()

    def execute(code: CodeType, names: dict[str, Any]) -> None:
        found = eval(code, names)
        if code.co_flags & inspect.CO_COROUTINE:
            loop.run_until_complete(found)

    monkeypatch.setattr(doctest, "_extract_future_flags", lambda _: ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    monkeypatch.setattr(doctest, "exec", execute, raising=False)
    yield
    loop.close()


@pytest.mark.usefixtures("_coroutines")
@pytest.mark.parametrize("test", EXAMPLES, ids=lambda test: test.name)
def test_example_runs(test: doctest.DocTest) -> None:
    report: list[str] = []
    outcome = doctest.DocTestRunner().run(test, out=report.append, clear_globs=False)
    assert outcome.failed == 0, "".join(report)


def test_all_examples_are_found() -> None:
    names = {test.name.removeprefix("kimi_agent.ray") for test in EXAMPLES}
    assert names == {
        "",
        "._actors.ActorPool",
        "._actors.ActorPool.open",
        "._actors.ActorPool.run_job",
        "._actors.ActorPool.close",
        "._data.map_prompts",
    }


@pytest.mark.parametrize(
    ("block", "subjects"), [(1, ["Cold food", "Great coffee"]), (2, ["Review a.py", "Review b.py"])]
)
def test_guide_runs(
    block: int, subjects: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = GUIDE.read_text("utf-8").split("```python\n")[block].split("```")[0]
    exec(compile(program, str(GUIDE), "exec"), {"__name__": "__main__"})
    printed = sorted(capsys.readouterr().out.splitlines())
    assert printed == [f"{subject} finished There are 3 files." for subject in subjects]
