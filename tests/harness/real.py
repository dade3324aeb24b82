"""Real agents: what a case needs around the `kimi` it starts."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from real.install import node_of
from real.model import ScriptedModel

from .releases import Release
from .scenario import Scenario, fill, prepared

REAL = Path(__file__).resolve().parent.parent / "real"
# They would overrule the case's configuration, or lead a request past the scripted model.
_OVERRULING = ("KIMI_", "OPENAI_", "MOONSHOT_", "ANTHROPIC_", "CLAUDE", "GEMINI_", "GOOGLE_")
_KEPT = ("KIMI_AGENT_RECORD", "KIMI_AGENT_TEST_CACHE", "KIMI_TEST_PYTHON")
HANDSHAKE_SECONDS = 100
# Of the options that a case is given here, those that are an agent's where it opens one for several sessions.
AGENT_OPTIONS = ("dialect", "env", "handshake_timeout")
# How long an agent may take to exit after its session was dropped.
LINGER_SECONDS = 20.0


def configuration(base_url: str) -> dict[str, Any]:
    """The agent's configuration of its model, unless a case overrides it."""
    return {
        "default_model": "scripted",
        "telemetry": False,
        "models": {
            "scripted": {
                "provider": "scripted",
                "model": "scripted-model",
                "max_context_size": 100_000,
                "capabilities": ["thinking"],
            }
        },
        "providers": {"scripted": {"type": "kimi", "base_url": base_url, "api_key": "sk-scripted"}},
    }


def kimi_code_configuration(base_url: str) -> dict[str, Any]:
    """The same for Kimi Code."""
    model = {
        "provider": "scripted",
        "model": "scripted-model",
        "max_context_size": 100_000,
        "capabilities": ["thinking"],
    }
    return {
        "default_model": "scripted",
        "providers": {"scripted": {"type": "kimi", "base_url": base_url, "api_key": "sk-scripted"}},
        "models": {"scripted": model},
    }


def toml(data: dict[str, Any], above: str = "") -> str:
    """Of texts, numbers, truths, lists of them, tables, and lists of tables; JSON's spelling of values is TOML's."""
    tables: list[tuple[str, str, dict[str, Any]]] = []
    text = ""
    for key, value in data.items():
        name = f"{above}{json.dumps(key)}"
        if isinstance(value, dict):
            tables.append((name, f"[{name}]", value))
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            tables += [(name, f"[[{name}]]", item) for item in value]
        else:
            text += f"{json.dumps(key)} = {json.dumps(value)}\n"
    return text + "".join(f"\n{head}\n{toml(table, f'{name}.')}" for name, head, table in tables)


def overlaid(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`base` with the entries of `over`, objects entry by entry; null takes an entry away."""
    result = dict(base)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = overlaid(result[key], value)
        else:
            result[key] = value
    return result


def runner_env(kimi: list[str]) -> dict[str, str]:
    """The runner's own environment: the agent inherits it, so nothing in it may concern a model."""
    env = {name: value for name, value in os.environ.items() if name in _KEPT or not name.startswith(_OVERRULING)}
    env["SCENARIO_EXECUTABLE"] = json.dumps(kimi)
    return env


def left_behind(directory: Path) -> list[str]:
    """Processes in the case's directory, or that name something in it, and don't end; none where there is no /proc."""
    end = time.monotonic() + LINGER_SECONDS
    # With the separator, as another case may have a name that only begins with this one's.
    inside = f"{directory}{os.sep}"
    while True:
        found = [row for row in _processes() if inside in row]
        if not found or time.monotonic() > end:
            return found
        time.sleep(0.1)


def _processes() -> Iterator[str]:
    """Command line and directory of each: kimi-cli writes a title over its command line."""
    for path in Path("/proc").glob("[0-9]*"):
        # It may end while it is being looked at.
        with contextlib.suppress(OSError):
            line = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
            yield f"{line} in {os.readlink(path / 'cwd')}"


@contextlib.contextmanager
def staged(scenario: Scenario, directory: Path, release: Release) -> Iterator[tuple[dict[str, Any], ScriptedModel]]:
    """The case with its files in place and its model serving, as a runner gets it."""
    home = directory / "home"
    for folder in (home / "share", directory / "work"):
        folder.mkdir(parents=True)
    names = {"dir": str(directory), "python": sys.executable, "tests": str(REAL)}
    kimi = scenario.kimi
    with ScriptedModel(fill(kimi.get("model", []), names)) as model:
        names["model_url"] = model.base_url
        for name, content in kimi.get("files", {}).items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(fill(content, names), "utf-8")
        base = kimi_code_configuration if release.kimi_code else configuration
        config = overlaid(base(model.base_url), fill(kimi.get("config", {}), names))
        at_home = ".kimi-code/config.toml" if release.kimi_code else ".kimi/config.json"
        is_at_home = release.kimi_code or release.config_at_home
        place = home / at_home if is_at_home else directory / "config.json"
        place.parent.mkdir(exist_ok=True)
        place.write_text(toml(config) if release.kimi_code else json.dumps(config, indent=2), "utf-8")
        case = prepared(scenario, names)
        options = dict(case.get("options", {}))
        if "config" not in options and not is_at_home:
            options.setdefault("config_file", str(place))
        if release.server:
            options["dialect"] = "kimi-web"
        options.setdefault("work_dir", str(directory / "work"))
        options.setdefault("handshake_timeout", HANDSHAKE_SECONDS)
        options["env"] = {
            "HOME": str(home),
            "KIMI_SHARE_DIR": str(home / "share"),
            "KIMI_CLI_NO_AUTO_UPDATE": "1",
            "KIMI_DISABLE_TELEMETRY": "1",
            "NO_PROXY": "127.0.0.1",
            **(_kimi_code_env(home, release) if release.kimi_code else {}),
            **options.get("env", {}),
        }
        yield {**case, "options": options, "program": with_agent_options(case["program"], options)}, model


def with_agent_options(program: list[dict[str, Any]], options: dict[str, Any]) -> list[dict[str, Any]]:
    """The program, with what is the agent's among the options moved to where it opens one."""
    if not any(op["op"] == "open_agent" for op in program):
        return program
    moved = {name: options.pop(name) for name in AGENT_OPTIONS if name in options}
    return [{**op, "options": {**moved, **op.get("options", {})}} if op["op"] == "open_agent" else op for op in program]


def _kimi_code_env(home: Path, release: Release) -> dict[str, str]:
    """Its program begins with a line that looks for `node` on the path."""
    node = node_of(release.number)
    path = os.pathsep.join([str(node.parent), os.environ.get("PATH", os.defpath)])
    return {"KIMI_CODE_HOME": str(home / ".kimi-code"), "PATH": path}
