"""Agents of ACP that others have written: where each comes from, and what it needs to run on its own.

Each is installed from its registry, into the cache that real releases of kimi-cli are in, and leads to a model on
loopback. Its home is the case's own.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TESTS))

from real import install  # noqa: E402

# The Node of this release of Kimi Code runs an agent that needs one.
_NODE_OF = "2.1.0"
# Neither a terminal nor pictures are asked for, and nothing is to be built.
_HOW = ("--omit=optional", "--ignore-scripts")


@dataclass(frozen=True)
class Agent:
    """One release of an agent."""

    name: str
    version: str
    package: str
    program: str
    """Below the folder that npm has filled."""
    arguments: tuple[str, ...]
    on_node: bool
    left_out: dict[str, str]
    """Cases that it does not play, and why."""
    names: dict[str, str]
    """What its tools are called, and what else a case can't know."""
    configure: Callable[[Path, str], dict[str, str]]
    """Writes what it reads below its home, and gives its variables, by the model's address."""

    def command(self, say: Callable[[str], None]) -> list[str]:
        """What starts it, installed if it isn't there yet."""
        folder = install.cache_dir() / f"{self.name}-{self.version}"
        install.from_npm(folder, [f"{self.package}@{self.version}"], [self.program], say, _HOW)
        if self.on_node:
            install.kimi_code(_NODE_OF, say)
        node = [str(install.node_of(_NODE_OF))] if self.on_node else []
        return [*node, str(folder / self.program), *self.arguments]

    def env(self, home: Path, base_url: str, model: bool) -> dict[str, str]:
        """Its variables; without a model it finds none."""
        home.mkdir(parents=True, exist_ok=True)
        found = self.configure(home, base_url) if model else {}
        # Whatever is set where the tests run must not lead it elsewhere.
        return {"HOME": str(home), "XDG_CONFIG_HOME": "", "XDG_DATA_HOME": "", "NO_PROXY": "127.0.0.1", **found}


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1), "utf-8")


def _qwen(home: Path, base_url: str) -> dict[str, str]:
    settings = {
        "$version": 4,
        "security": {"auth": {"selectedType": "openai"}},
        # Otherwise a model is asked whether a command is safe.
        "tools": {"approvalMode": "default"},
        # Requests of its own would take the replies that are meant for the turn.
        "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False},
        "ui": {"enableFollowupSuggestions": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"enableAutoUpdate": False},
    }
    _write(home / ".qwen/settings.json", settings)
    return {"OPENAI_API_KEY": "sk-scripted", "OPENAI_BASE_URL": base_url, "OPENAI_MODEL": "scripted-model"}


def _opencode(home: Path, base_url: str) -> dict[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Scripted",
        "options": {"baseURL": base_url, "apiKey": "sk-scripted"},
        "models": {"model": {"name": "Scripted", "tool_call": True, "limit": {"context": 100_000, "output": 4096}}},
    }
    config = {
        "autoupdate": False,
        "share": "disabled",
        "model": "scripted/model",
        "small_model": "scripted/model",
        "enabled_providers": ["scripted"],
        "provider": {"scripted": provider},
        "permission": {"bash": "ask", "edit": "ask"},
        # It would ask the model for a title.
        "agent": {"title": {"disable": True}},
        "snapshot": False,
        "lsp": False,
        "formatter": False,
    }
    _write(home / ".config/opencode/opencode.json", config)
    return {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    }


def _machine() -> str:
    """As npm names it."""
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(platform.machine().lower(), platform.machine())
    return f"{'windows' if os.name == 'nt' else sys.platform}-{machine}"


QWEN_CODE = Agent(
    name="qwen-code",
    version="0.24.4",
    package="@qwen-code/qwen-code",
    program="node_modules/@qwen-code/qwen-code/cli-entry.js",
    arguments=("--acp",),
    on_node=True,
    left_out={"tool": "it looks for a server's tools beside the first turn: they may come too late for it"},
    names={
        "agent": "Qwen Code",
        "shell": "run_shell_command",
    },
    configure=_qwen,
)

OPENCODE = Agent(
    name="opencode",
    version="1.18.33",
    package=f"opencode-{_machine()}",
    program=f"node_modules/opencode-{_machine()}/bin/opencode",
    arguments=("acp",),
    on_node=False,
    left_out={"no_login": "it brings models on the net that need no login"},
    names={
        "agent": "OpenCode",
        "shell": "bash",
        "tool": "program_lookup",
    },
    configure=_opencode,
)

AGENTS = {agent.name: agent for agent in (QWEN_CODE, OPENCODE)}
