"""Runs the examples in the package's docstrings."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import kimi_agent

MODULES = [
    module.name
    for module in pkgutil.walk_packages(kimi_agent.__path__, "kimi_agent.")
    if not module.name.endswith((".agent", "._native"))
]


@pytest.mark.parametrize("name", ["kimi_agent", *MODULES])
def test_the_examples_of_a_module(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Sessions are opened in ".".
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    with_examples = [
        test.name
        for name in ["kimi_agent", *MODULES]
        for test in finder.find(importlib.import_module(name))
        if test.examples
    ]
    assert len(with_examples) >= 8
    assert "kimi_agent.create_session" in {name.replace("._session", "") for name in with_examples}
