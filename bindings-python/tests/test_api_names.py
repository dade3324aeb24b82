"""The names that programs are written against: `tests/api/names.json` lists them."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kimi_agent

NAMES: list[str] = json.loads((Path(__file__).parents[2] / "tests/api/names.json").read_text("utf-8"))["python"]
MODULES = ("sync", "testing")


def attribute(owner: Any, name: str) -> bool:
    """Does the class, or an object of it, have this?"""
    if hasattr(owner, name) or name in getattr(owner, "__annotations__", {}):
        return True
    # Attributes that `__init__` sets.
    return issubclass(owner, kimi_agent.KimiAgentError) and hasattr(owner(""), name)


@pytest.mark.parametrize("name", NAMES)
def test_public_name_exists(name: str) -> None:
    first, *rest = name.split(".")
    if first in MODULES:
        module = importlib.import_module(f"kimi_agent.{first}")
        first, *rest = rest
    else:
        module = kimi_agent
    assert first in module.__all__
    owner = getattr(module, first)
    for part in rest:
        assert attribute(owner, part)


@pytest.mark.parametrize("module", ["kimi_agent", *(f"kimi_agent.{name}" for name in MODULES)])
def test_dunder_all_lists_existing_names_once(module: str) -> None:
    loaded = importlib.import_module(module)
    assert [name for name in loaded.__all__ if not hasattr(loaded, name)] == []
    assert sorted(set(loaded.__all__)) == sorted(loaded.__all__)


def test_lazily_loaded_names_are_listed() -> None:
    assert set(kimi_agent.__all__) <= set(dir(kimi_agent))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(kimi_agent, "nothing")  # noqa: B009
    assert kimi_agent.PromptResult is kimi_agent.PromptResult


def test_submodule_loads_on_first_use() -> None:
    program = """
import sys
import kimi_agent
assert {"sync", "testing"} <= set(dir(kimi_agent))
assert not {"kimi_agent.sync", "kimi_agent.testing"} & set(sys.modules)
assert kimi_agent.sync.create_session
assert kimi_agent.testing.scripted_agent
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_public_names_are_documented() -> None:
    undocumented = [
        f"{name}.{member}".rstrip(".")
        for name in kimi_agent.__all__
        if isinstance(owner := getattr(kimi_agent, name), type) and owner.__module__.startswith("kimi_agent")
        for member, value in [("", owner), *vars(owner).items()]
        if not member.startswith("_") and (callable(value) or isinstance(value, property)) and not value.__doc__
    ]
    assert undocumented == []
