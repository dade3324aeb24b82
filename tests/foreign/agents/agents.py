"""The agents in the table of docs/reference/agents.md: where each comes from, and what it needs to run on its own.

Each is installed from its registry, into the cache that real releases of kimi-cli are in, and leads to a model on
loopback. Its home is the case's own.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TESTS))

from harness import real  # noqa: E402
from real import install  # noqa: E402

# The Node of this release of Kimi Code runs an agent that needs one.
_NODE_OF = "2.1.0"
# Neither a terminal nor pictures are asked for, and nothing is to be built.
_HOW = ("--omit=optional", "--ignore-scripts")


Say = Callable[[str], None]


@dataclass(frozen=True)
class Agent:
    """One release of an agent."""

    name: str
    title: str
    version: str
    launch: Callable[[Say], list[str]]
    """Installs it, if it isn't there yet, and gives the words that start it."""
    names: dict[str, Any]
    """What its tools are called, and what else a case can't know."""
    configure: Callable[[Path, str], dict[str, str]]
    """Writes what it reads below its home, and gives its variables, by the model's address."""
    program: str = ""
    """The name of its program, by which the SDK knows how to start it; without one, `launch` gives the executable."""
    races: str = ""
    """A pattern for texts of which one or another comes, as the agent's own parts race."""
    late_titles: bool = False
    """Whether the title of a call that is refused may come after the result, which then has no title."""
    usage_races_cancel: bool = False
    """Whether a cancelled turn may end before the agent has counted its tokens; the turn's usage is then zero."""
    elsewhere: bool = False
    """Whether the cases of `tests/real` play it in CI."""
    nightly: bool = False
    """Whether only `--all` plays it: it is large, and starts slowly."""
    over: str = "ACP"
    """How the SDK speaks with it, for people."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options that it needs in each case."""
    dialect: str = ""
    """The option `dialect`, if it is not the default."""

    @property
    def heading(self) -> str:
        """Its name and its protocol, which distinguishes it from the same agent with another protocol."""
        return f"{self.title} ({self.over})" if self.dialect else self.title

    def env(self, home: Path, base_url: str, model: bool) -> dict[str, str]:
        """Its variables; without a model it finds none."""
        home.mkdir(parents=True, exist_ok=True)
        found = self.configure(home, base_url) if model else {}
        # Whatever is set where the tests run must not lead it elsewhere.
        unset = dict.fromkeys(("XDG_CONFIG_HOME", "XDG_DATA_HOME", "IS_SANDBOX"), "")
        own = {"KIMI_SHARE_DIR": str(home / ".kimi"), "KIMI_CODE_HOME": str(home / ".kimi-code")}
        node = install.node_of(_NODE_OF).parent
        path = os.pathsep.join([str(node), os.environ.get("PATH", os.defpath)])
        return {"HOME": str(home), "PATH": path, **own, **unset, "NO_PROXY": "127.0.0.1", **found}


def _from_npm(package: str, entry: str, on_node: bool = True, how: tuple[str, ...] = _HOW, **fields: Any) -> Agent:
    """An agent from npm; `entry` is its program below the folder that npm fills."""
    name, version = fields["name"], fields["version"]
    lock = Path(__file__).resolve().parent / "packages" / name

    def launch(say: Say) -> list[str]:
        folder = install.cache_dir() / f"{name}-{version}"
        # A folder next to this file pins the dependencies of the package, if it has any.
        pins = lock if lock.exists() else None
        install.from_npm(folder, [f"{package}@{version}"], [entry], say, how, pins)
        if on_node:
            install.kimi_code(_NODE_OF, say)
        node = [str(install.node_of(_NODE_OF))] if on_node else []
        return [*node, str(folder / entry)]

    return Agent(launch=launch, **fields)


def _from_pypi(program: str, **fields: Any) -> Agent:
    """An agent from PyPI. The file `requirements.txt` of its folder next to this file pins all packages."""
    name, version = fields["name"], fields["version"]
    lock = Path(__file__).resolve().parent / "packages" / name / "requirements.txt"

    def launch(say: Say) -> list[str]:
        return [str(install.from_pypi(install.cache_dir() / f"{name}-{version}", lock, program, say))]

    return Agent(launch=launch, program=program, **fields)


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
        "model": {"generationConfig": {"modalities": {"image": True}}},
    }
    _write(home / ".qwen/settings.json", settings)
    return {"OPENAI_API_KEY": "sk-scripted", "OPENAI_BASE_URL": base_url, "OPENAI_MODEL": "scripted-model"}


def _opencode(home: Path, base_url: str) -> dict[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Scripted",
        "options": {"baseURL": base_url, "apiKey": "sk-scripted"},
        "models": {
            "model": {
                "name": "Scripted",
                "tool_call": True,
                "attachment": True,
                "modalities": {"input": ["text", "image"], "output": ["text"]},
                "limit": {"context": 100_000, "output": 4096},
            }
        },
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


def _gemini(home: Path, base_url: str) -> dict[str, str]:
    settings = {
        # In a folder that is not trusted it takes no MCP server.
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        # Without a name for it, a model is asked which model is to answer.
        "model": {"name": "scripted-model"},
    }
    _write(home / ".gemini/settings.json", settings)
    return {"GEMINI_API_KEY": "scripted", "GOOGLE_GEMINI_BASE_URL": base_url.removesuffix("/v1")}


def _claude(home: Path, base_url: str) -> dict[str, str]:
    settings = {
        # Otherwise a model is asked whether a command is safe, and the program is not.
        "permissions": {"defaultMode": "default"},
        "promptSuggestionEnabled": False,
    }
    _write(home / ".claude/settings.json", settings)
    return {
        "ANTHROPIC_API_KEY": "sk-scripted",
        "ANTHROPIC_BASE_URL": base_url.removesuffix("/v1"),
        "ANTHROPIC_MODEL": "scripted-model",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def _codex(home: Path, base_url: str) -> dict[str, str]:
    path = home / ".codex/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    config = {
        "model": "scripted-model",
        "model_provider": "scripted",
        "check_for_update_on_startup": False,
        "analytics": {"enabled": False},
        "model_providers": {
            "scripted": {
                "name": "Scripted",
                "base_url": base_url,
                "wire_api": "responses",
                "requires_openai_auth": False,
                "request_max_retries": 0,
                "stream_max_retries": 0,
            }
        },
    }
    path.write_text(real.toml(config), "utf-8")
    # In its default mode a model is asked whether a command is safe, and the program is not.
    return {"CODEX_HOME": str(path.parent), "INITIAL_AGENT_MODE": "read-only"}


def _vibe(home: Path, base_url: str) -> dict[str, str]:
    path = home / ".vibe/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    config = {
        # In its default mode it edits files without a question.
        "default_agent": "ask",
        "active_model": "scripted",
        "enable_telemetry": False,
        "enable_update_checks": False,
        "enable_auto_update": False,
        # It would ask the model for a title.
        "session_logging": {"generate_titles": False},
        "providers": [{"name": "scripted", "api_base": base_url, "api_key_env_var": "SCRIPTED_KEY"}],
        "models": [{"name": "scripted-model", "provider": "scripted", "alias": "scripted", "supports_images": True}],
    }
    path.write_text(real.toml(config), "utf-8")
    return {"SCRIPTED_KEY": "sk-scripted"}


def _fast_agent(home: Path, base_url: str) -> dict[str, str]:
    folder = home / ".fast-agent"
    config = {
        # It shows thoughts only of models that it knows.
        "default_model": "generic.moonshotai/kimi-k2.5",
        "generic": {"api_key": "sk-scripted", "base_url": base_url},
        # With this profile it asks the program whether a command may run.
        "shell_execution": {"tool_profile": "native"},
    }
    # JSON is YAML.
    _write(folder / "fast-agent.yaml", config)
    card = "---\nname: agent\ndefault: true\nshell: true\n---\nYou are a helpful agent.\n"
    (folder / "agent-cards").mkdir(parents=True, exist_ok=True)
    (folder / "agent-cards/agent.md").write_text(card, "utf-8")
    return {"FAST_AGENT_HOME": str(folder)}


def _cline(home: Path, base_url: str) -> dict[str, str]:
    own = {"provider": "openai-compatible", "apiKey": "sk-scripted", "model": "scripted-model", "baseUrl": base_url}
    provider = {"settings": own, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    settings = {
        "version": 1,
        "lastUsedProvider": "openai-compatible",
        "modes": {},
        "providers": {"openai-compatible": provider},
    }
    _write(home / ".cline/data/settings/providers.json", settings)
    return {
        "CLINE_PROVIDER": "openai-compatible",
        "CLINE_MODEL": "scripted-model",
        "CLINE_API_KEY": "sk-scripted",
        "CLINE_NO_AUTO_UPDATE": "1",
        # Otherwise it leaves a process behind that other sessions share.
        "CLINE_SESSION_BACKEND_MODE": "local",
    }


def _kimi_cli(home: Path, base_url: str) -> dict[str, str]:
    config = real.configuration(base_url)
    config["models"]["scripted"]["capabilities"].append("image_in")
    _write(home / ".kimi/config.json", config)
    return {"KIMI_CLI_NO_AUTO_UPDATE": "1", "KIMI_DISABLE_TELEMETRY": "1"}


def _kimi_code(home: Path, base_url: str) -> dict[str, str]:
    config = real.kimi_code_configuration(base_url)
    config["models"]["scripted"]["capabilities"].append("image_in")
    path = home / ".kimi-code/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(real.toml(config), "utf-8")
    return {}


def _machine() -> str:
    """As npm names it."""
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(platform.machine().lower(), platform.machine())
    return f"{'windows' if os.name == 'nt' else sys.platform}-{machine}"


# What comes of a call whose approval is refused.
_REJECTED = {"type": "ToolResult", "payload": {"tool_call_id": "{c2}", "return_value": {"is_error": True}}}
_ENDS_AT_REJECT = {"after_reject": [], "rejected": [{"event": _REJECTED}], "text_after_reject": ""}
_GOES_ON_AFTER_REJECT = {**_ENDS_AT_REJECT, "after_reject": [{"text": "I see"}], "text_after_reject": "I see"}
# Calls have the ids that the model gave them.
_MODELS_IDS = {"c1": "c1", "c2": "c2", "c3": "c3"}

QWEN_CODE = _from_npm(
    "@qwen-code/qwen-code",
    "node_modules/@qwen-code/qwen-code/cli-entry.js",
    name="qwen-code",
    title="Qwen Code",
    version="0.24.4",
    program="qwen",
    names={
        "agent": "Qwen Code",
        "shell": "run_shell_command",
        "shown": "run_shell_command",
        **_ENDS_AT_REJECT,
        **_MODELS_IDS,
        "command": "summary",
        "login": "log in with Qwen Code itself.*Use OpenAI API key",
    },
    configure=_qwen,
)

OPENCODE = _from_npm(
    f"opencode-{_machine()}",
    f"node_modules/opencode-{_machine()}/bin/opencode",
    on_node=False,
    name="opencode",
    title="OpenCode",
    version="1.18.33",
    program="opencode",
    names={
        "agent": "OpenCode",
        "shell": "bash",
        "shown": "bash",
        **_ENDS_AT_REJECT,
        **_MODELS_IDS,
        "command": "init",
        "tool": "program_lookup",
    },
    configure=_opencode,
)

GEMINI_CLI = _from_npm(
    "@google/gemini-cli",
    "node_modules/@google/gemini-cli/bundle/gemini.js",
    name="gemini-cli",
    title="Gemini CLI",
    version="0.61.0",
    program="gemini",
    names={
        "agent": "Gemini CLI",
        "shell": "run_shell_command",
        "shown": "~^echo ",
        **_GOES_ON_AFTER_REJECT,
        "rejected": [],
        "c1": "~^run_shell_command__",
        "c2": "~^run_shell_command__",
        "c3": "~^run_shell_command__",
        "tool": "mcp_program_lookup",
        "command": "memory",
        "login": "log in with Gemini CLI itself.*Log in with Google",
    },
    configure=_gemini,
)

CLAUDE_AGENT = _from_npm(
    "@agentclientprotocol/claude-agent-acp",
    "node_modules/@agentclientprotocol/claude-agent-acp/dist/index.js",
    how=("--ignore-scripts",),
    name="claude-agent-acp",
    title="Claude Code",
    version="0.101.0",
    program="claude-agent-acp",
    names={
        "agent": "Claude Agent",
        "shell": "Bash",
        "shown": "Bash",
        **_GOES_ON_AFTER_REJECT,
        **_MODELS_IDS,
        "tool": "mcp__program__lookup",
        "command": "compact",
    },
    configure=_claude,
    late_titles=True,
    usage_races_cancel=True,
    # The output of a call that was open at a cancel, and why it was not run.
    races=r"The user doesn't want to proceed.*?how to proceed\.|Tool permission request failed: [\w: ]*"
    r"|(?<=\"nonExecutionKind\": \")(?:user-rejected|permission-rule)(?=\")",
)

CODEX = _from_npm(
    "@agentclientprotocol/codex-acp",
    "node_modules/@agentclientprotocol/codex-acp/dist/index.js",
    # The program of Codex is in an optional package.
    how=("--ignore-scripts",),
    name="codex-acp",
    title="Codex",
    version="2.6.0",
    program="codex-acp",
    names={
        "agent": "Codex",
        "shell": "exec_command",
        "shown": "~^echo ",
        **_ENDS_AT_REJECT,
        **_MODELS_IDS,
        "tool": "mcp__program__lookup",
        "command": "compact",
        "login": "log in with Codex itself.*API Key, ChatGPT",
    },
    configure=_codex,
)

MISTRAL_VIBE = _from_pypi(
    "vibe-acp",
    name="mistral-vibe",
    title="Mistral Vibe",
    version="3.0.3",
    names={
        "agent": "Mistral Vibe",
        "shell": "bash",
        "shell_arguments": {"command": "{line}"},
        "shown": "bash",
        **_GOES_ON_AFTER_REJECT,
        "c1": "~^effect-",
        "c2": "~^effect-",
        "c3": "~^effect-",
        "command": "compact",
        "login": "log in with Mistral Vibe itself.*Sign in through Mistral AI Studio",
    },
    configure=_vibe,
    nightly=True,
)

FAST_AGENT = _from_pypi(
    "fast-agent-acp",
    name="fast-agent-mcp",
    title="fast-agent",
    version="0.10.48",
    names={
        "agent": "fast-agent-acp",
        "shell": "execute",
        "shown": "execute",
        **_GOES_ON_AFTER_REJECT,
        "c1": "~^<id",
        "c2": "~^<id",
        "c3": "~^<id",
        "tool": "program__lookup",
        "command": "status",
    },
    configure=_fast_agent,
    # It asks whether a command may run only if the program runs it.
    options={"on_terminal": {"root": "{dir}/work"}},
    nightly=True,
)

CLINE = _from_npm(
    f"@cline/cli-{_machine()}",
    f"node_modules/@cline/cli-{_machine()}/bin/cline",
    on_node=False,
    name="cline",
    title="Cline",
    version="3.0.65",
    program="cline",
    names={
        "agent": "cline",
        "shell": "run_commands",
        "shell_arguments": {"commands": ["{line}"]},
        "shown": "~^run_commands: echo ",
        **_GOES_ON_AFTER_REJECT,
        **_MODELS_IDS,
        "login": "log in with cline itself.*Sign in with Cline",
    },
    configure=_cline,
    nightly=True,
)

KIMI_CLI = Agent(
    name="kimi-cli",
    title="kimi-cli",
    version="1.51.0",
    launch=lambda say: install.command("1.51.0", say=say),
    names={
        "agent": "Kimi Code CLI",
        "protocol": "1.10",
        "shell": "Shell",
        "shown": "Shell",
        **_ENDS_AT_REJECT,
        **_MODELS_IDS,
        "tool": "lookup",
        "command": "compact",
    },
    configure=_kimi_cli,
    elsewhere=True,
    over="Wire",
)

KIMI_CODE = Agent(
    name="kimi-code",
    title="Kimi Code",
    version=_NODE_OF,
    launch=lambda say: install.kimi_code(_NODE_OF, say),
    names={
        "agent": "Kimi Code CLI",
        "shell": "Bash",
        "shown": "Bash",
        **_GOES_ON_AFTER_REJECT,
        "c1": "~:c1$",
        "c2": "~:c2$",
        "c3": "~:c3$",
        "tool": "mcp__program__lookup",
        "command": "compact",
        "login": "`kimi login`",
    },
    configure=_kimi_code,
    elsewhere=True,
)

KIMI_CODE_SERVER = replace(
    KIMI_CODE,
    name="kimi-code-web",
    names={**KIMI_CODE.names, **_MODELS_IDS, "agent": "Kimi Code", "protocol": "kimi-web-2"},
    over="server",
    dialect="kimi-web",
)

_ALL = (
    KIMI_CLI,
    KIMI_CODE,
    KIMI_CODE_SERVER,
    QWEN_CODE,
    OPENCODE,
    GEMINI_CLI,
    CLAUDE_AGENT,
    CODEX,
    MISTRAL_VIBE,
    FAST_AGENT,
    CLINE,
)
AGENTS = {agent.name: agent for agent in _ALL}
