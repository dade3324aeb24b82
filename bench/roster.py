"""The measured clients: each is a command that gets the agent's path as its last argument."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["AGENT", "CLIENTS", "NODE", "NOTHING", "PYTHON", "SCRIPTED", "TARGET", "Client"]

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent / ".cache" / "bench"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", CACHE / "target")) / "release"
PYTHON = CACHE / "venv" / "bin" / "python"
NODE = "node"
AGENT = TARGET / "bench-agent"
# The agent for measurements over Kimi Code's server, which follow a script.
SCRIPTED = TARGET / "kimi-scripted-agent"
RUST = str(TARGET / "kimi-agent-bench")
# Measurements of the claude-agent-sdk's transport and of kimi-wire, in addition to a turn of events.
TURNS = frozenset({"events", "large", "start"})
ASKED = TURNS | {"approvals"}
ALL = ASKED | {"tools"}
OURS = ALL | {"acp", "server"}
SESSIONS = {"sessions", "server sessions"}
SERVER = frozenset({"server", "server sessions"})
# Many jobs, some of them at once.
BATCH = {"batch"}
# The cost of the option `record`.
RECORDED = frozenset({"events"})
# Not clients, but programs that do nothing: a part of the start of a replayed agent.
NOTHING = frozenset({"replayed"})


@dataclass(frozen=True)
class Client:
    """One way to drive the agent, and the measurements that it takes part in."""

    name: str
    language: str
    argv: tuple[str, ...]
    tasks: frozenset[str]
    ours: bool = False


def _python(file: str, *args: str) -> tuple[str, ...]:
    return (str(PYTHON), str(HERE / "clients" / file), *args)


def _node(file: str, *args: str) -> tuple[str, ...]:
    return (NODE, str(HERE / "clients" / file), *args)


def _recorded(argv: tuple[str, ...]) -> tuple[str, ...]:
    return ("env", f"KIMI_AGENT_RECORD={CACHE / 'recording.jsonl'}", *argv)


CLIENTS = (
    Client("read + memchr (the limit)", "rust", (RUST, "limit"), ALL),
    Client("kimi-agent, Rust", "rust", (RUST, "ours"), OURS | SESSIONS | BATCH, ours=True),
    Client("kimi-agent, Rust, recorded", "rust", _recorded((RUST, "ours")), RECORDED, ours=True),
    Client("tokio + serde by hand", "rust", (RUST, "by-hand"), ALL),
    Client("tokio + ACP's schema by hand", "rust", (RUST, "acp-by-hand"), frozenset({"acp"})),
    Client("hyper + tokio-tungstenite by hand", "rust", (RUST, "server-by-hand"), SERVER),
    # Its limit of a line is 16 MiB.
    Client("kimi-wire 0.5", "rust", (RUST, "kimi-wire"), ALL - {"large"}),
    Client("kimi-agent, Python", "python", _python("ours.py"), OURS | SESSIONS | BATCH, ours=True),
    Client("kimi-agent, Python, blocking", "python", _python("ours_blocking.py"), OURS, ours=True),
    Client("kimi-agent, Python, recorded", "python", _recorded(_python("ours.py")), RECORDED, ours=True),
    Client("python -c pass", "python", (str(PYTHON), "-c", "pass"), NOTHING),
    Client("asyncio + orjson in batches", "python", _python("by_hand.py", "orjson"), ALL | {"acp"}),
    Client("asyncio + json", "python", _python("by_hand.py", "json"), ALL | BATCH | {"acp", "sessions"}),
    Client("asyncio + pydantic", "python", _python("by_hand.py", "pydantic"), ALL),
    Client("aiohttp + orjson", "python", _python("server_by_hand.py"), SERVER),
    Client("claude-agent-sdk's transport", "python", _python("claude.py"), ASKED),
    Client("kimi-agent, Node", "node", _node("ours.mjs"), OURS | SESSIONS | BATCH, ours=True),
    Client("kimi-agent, Node, recorded", "node", _recorded(_node("ours.mjs")), RECORDED, ours=True),
    Client("node -e 0", "node", (NODE, "-e", "0"), NOTHING),
    Client("JSON.parse in batches", "node", _node("by_hand.mjs", "batches"), ALL | {"acp"}),
    Client("readline + JSON.parse", "node", _node("by_hand.mjs", "readline"), ALL | {"acp"}),
    Client("fetch + ws", "node", _node("server_by_hand.mjs"), SERVER),
    Client("official Node SDK", "node", _node("official.mjs"), ALL | BATCH | {"sessions"}),
)
