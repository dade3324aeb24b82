"""Writes docs/reference/events.md and docs/reference/requests.md from the catalogue of messages and from recordings.

`--check` fails if one of the pages is not up to date.
"""

# The texts are wrapped as pages are.
# ruff: noqa: E501

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from catalog import ROOT, load_catalog

FOLDER = ROOT / "docs" / "reference"
RECORDINGS = ROOT / "tests" / "recorded"
# Longer lines are not used as examples; the best have this length.
LONGEST, BEST = 900, 280

Message = dict[str, Any]

# The events in the order of the page: what a section is about, and its events.
SECTIONS = {
    "The turn": ("TurnBegin", "TurnEnd", "SteerInput"),
    "Steps": ("StepBegin", "StepInterrupted", "StepRetry"),
    "The answer": ("ContentPart", "Plan", "PlanDisplay"),
    "Tool calls": ("ToolCall", "ToolCallPart", "ToolResult", "ApprovalResponse", "SubagentEvent"),
    "Tokens and context": ("StatusUpdate", "CompactionBegin", "CompactionEnd"),
    "MCP servers": ("MCPLoadingBegin", "MCPLoadingEnd"),
    "Hooks, notifications and side questions": (
        "HookTriggered",
        "HookResolved",
        "Notification",
        "BtwBegin",
        "BtwEnd",
    ),
    "From the SDK": ("PolicyDecision", "HandlerFailed", "UnknownEvent"),
}
REQUESTS = (
    "ApprovalRequest",
    "QuestionRequest",
    "ToolCallRequest",
    "HookRequest",
    "ReadFileRequest",
    "WriteFileRequest",
    "TerminalRequest",
)
# Types that are parts of messages, in the order of the page.
PARTS = (
    "TextPart",
    "ThinkPart",
    "ImageURLPart",
    "AudioURLPart",
    "VideoURLPart",
    "ResourcePart",
    "MediaURL",
    "UnknownContentPart",
    "FunctionCall",
    "ToolReturnValue",
    "BriefDisplayBlock",
    "DiffDisplayBlock",
    "ShellDisplayBlock",
    "TodoDisplayBlock",
    "TodoDisplayItem",
    "BackgroundTaskDisplayBlock",
    "UnknownDisplayBlock",
    "PlanEntry",
    "TokenUsage",
    "Cost",
    "MCPStatus",
    "MCPServer",
    "ToolCallInfo",
)
REQUEST_PARTS = ("Question", "QuestionOption", "TerminalResult")
# The session has these as properties.
SESSION_PARTS = ("InitializeResult", "ServerInfo", "SlashCommand", "ExternalToolsResult", "RejectedTool", "HooksInfo")

# Examples of messages that no recording has.
EXAMPLES: dict[str, Any] = {
    "BtwBegin": {"id": "btw-1", "question": "Which tests are slow?"},
    "BtwEnd": {"id": "btw-1", "response": "Those of the scheduler."},
    "PolicyDecision": {
        "tool_call": {"id": "call-1", "name": "Shell", "arguments": {"command": "rm -rf build"}},
        "decision": "deny",
        "rule": "execute(rm *)",
        "source": "policy.toml:2",
    },
    "HandlerFailed": {
        "handler": "tool",
        "name": "get_price",
        "request_id": "call-1",
        "message": "KeyError: 'no such product'",
    },
    "UnknownEvent": {"type": "Weather", "payload": {"sky": "clear"}},
    "ReadFileRequest": {"id": "7", "path": "/project/notes.txt", "line": 1, "limit": 1000},
    "WriteFileRequest": {"id": "8", "path": "/project/copy.txt", "content": "buy milk\n"},
    "TerminalRequest": {
        "id": "terminal-1",
        "command": "make",
        "args": ["test"],
        "env": {"CI": "1"},
        "cwd": "/project",
        "output_byte_limit": 1048576,
    },
}
ONLY_SDK = ("PolicyDecision", "HandlerFailed", "UnknownEvent")

EVENTS_HEAD = """\
# Events

A turn delivers events: the parts of the answer, the tool calls, the tokens. This page lists all of them, with their fields and
with the protocols over which they are sent. [Requests](requests.md) are events, too; they have a page of their own.

| language | an event is | its fields are |
| --- | --- | --- |
| Python | an object of the class with the event's name, for example `kimi_agent.StepBegin`. A `ContentPart` is an object of its own class, for example `TextPart` | attributes |
| Node | `{ type, payload }`; `type` is the name | properties of `payload` |
| Rust | a variant of `kimi_agent::wire::Event` | fields of the struct inside |

Field names are the same in the three languages, in snake case. An optional field that the agent leaves out is `None` in Python and
Rust, and absent in Node. Fields that this version of the SDK does not know are kept, in `extra` (Node: among the other properties).
An optional field whose value cannot be read counts as left out. Its value is kept in `extra` (Node: `JSON.stringify()` has it).
Over ACP, texts and tool calls keep of the unknown fields only `_meta`.
[Stream text and events](../guides/stream-a-turn.md) shows how to read them.

## Overview

**Wire** is the version of the protocol that brought the event; [dialects](dialects.md) says which release of kimi-cli speaks which
version. **ACP** is Kimi Code and the other agents of the [Agent Client Protocol](agents.md). **kimi-web** is
[Kimi Code's own server](../guides/use-kimi-code.md#kimi-codes-own-server). If an agent does not send
an event that programs rely on, for example `TurnEnd`, the SDK makes this event, and its `synthesized` is true.
"""

REQUESTS_HEAD = """\
# Requests

A request is an event that the agent waits for: a handler answers it. Every request also appears in the turn's events, so that a
program can show it. [Handlers](handlers.md) says how they run.

| request | handler | without a handler |
| --- | --- | --- |
| [`ApprovalRequest`](#approvalrequest) | `on_approval` | rejected |
| [`QuestionRequest`](#questionrequest) | `on_question` | the agent cannot ask; a question that it asks nevertheless is dismissed |
| [`ToolCallRequest`](#toolcallrequest) | the tool in `tools` | the model has no such tool; a call of it gets an error |
| [`HookRequest`](#hookrequest) | the hook in `hooks` | no hook is called; a request that comes nevertheless is allowed |
| [`ReadFileRequest`](#readfilerequest), [`WriteFileRequest`](#writefilerequest), [`TerminalRequest`](#terminalrequest) | `on_read_file`, `on_write_file`, `on_terminal` | the agent does it itself |

[Files and terminals](../guides/files-and-terminals.md) is the guide to the last three.

Field names are the same in the three languages, in snake case. An optional field that the agent leaves out is `None` in Python and
Rust, and absent in Node.

## Overview

**Wire** is the version of the protocol that brought the request. **ACP** is Kimi Code and the other agents of the
[Agent Client Protocol](agents.md). **kimi-web** is [Kimi Code's own server](../guides/use-kimi-code.md#kimi-codes-own-server).
"""

ACTIONS = """\
### Values of `action`

The text is the agent's, and it is not a closed list. Compare it exactly, and treat an unknown value as something that you have not
allowed.

| `action` | agent | asked before |
| --- | --- | --- |
| `run command` | kimi-cli, Kimi Code with `dialect="kimi-web"` | a shell command |
| `run shell command` | kimi-cli 0.58 | a shell command |
| `run background command` | kimi-cli with background tasks | a shell command that continues after its tool call |
| `stop background task` | kimi-cli with background tasks | the end of such a command |
| `edit file` | kimi-cli, Kimi Code with `dialect="kimi-web"` | a change of a file in the working directory; in old releases of any file |
| `edit file outside of working directory` | kimi-cli, not 0.79 and before | a change of any other file |
| `mcp:` and the name of the tool | kimi-cli | a call of a tool of an MCP server |
| the title of the tool call, for example `Bash`, `Write`, `Edit` | agents over ACP | the tool call with this title |
| a sentence, for example `Presenting plan and exiting plan mode` | Kimi Code with `dialect="kimi-web"` | anything else |

A program that has to decide on the same things with every agent looks at `tool_call.kind` over ACP, and at `tool_call.name` and
`tool_call.arguments`, instead of `action`.
"""


def typed(kind: Any, known: set[str]) -> str:
    """A type in words."""
    what, of = kind["kind"], kind.get("of")
    plain = {
        "bool": "boolean",
        "float": "number",
        "int": "integer",
        "json": "any JSON",
        "object": "object",
        "string": "text",
    }
    if what == "words":
        return ", ".join(f"`{word}`" for word in of)
    if what == "list":
        return f"list of {typed(of, known)}"
    if what == "optional":
        return typed(of, known)
    if what == "ref":
        return linked(of, known)
    return plain[what]


def linked(name: str, known: set[str]) -> str:
    if name == "Content":
        return "text, or list of [content parts](events.md#contentpart)"
    if name == "DisplayBlock":
        return "[display blocks](events.md#display-blocks)"
    if name == "Event":
        return "an event of this page"
    page = "requests.md" if name in (*REQUESTS, *REQUEST_PARTS) else "events.md"
    return f"[`{name}`]({page}#{name.lower()})" if name in known else f"`{name}`"


def meaning(text: str) -> str:
    """Documentation of the core as Markdown in one line, without its links."""
    return re.sub(r"\[(`\w+`)\]", r"\1", " ".join(text.split()))


def fields(message: Message, known: set[str]) -> Iterator[str]:
    rows = [field for field in message["fields"] if field["name"] != "type" or not message["tag"]]
    if message["tag"]:
        yield f"`type` is `{message['tag']}`."
        yield ""
    if not rows and not message.get("adds"):
        if not message["tag"]:
            yield "It has no fields."
            yield ""
        return
    yield "| field | type | presence | meaning | Wire |"
    yield "| --- | --- | --- | --- | --- |"
    for field in rows:
        presence = "always" if field["required"] else "optional"
        row = (f"`{field['name']}`", typed(field["type"], known), presence, meaning(field["doc"]), field["since"])
        yield f"| {' | '.join(row)} |"
    if message.get("adds"):
        about = "The tool call that this is about, with its complete arguments. Added by the SDK."
        yield f"| `{message['adds']}` | {linked('ToolCallInfo', known)} | optional | {about} | |"
    yield ""


def recorded() -> dict[str, Any]:
    """An example of each type, from the newest release that has sent it: with the most fields, and of a good length."""
    found: dict[str, tuple[tuple[Any, ...], Any]] = {}
    for path in sorted(RECORDINGS.glob("*/*.wire")):
        release = tuple(int(part) for part in path.parent.name.split(".") if part.isdigit())
        for line in path.read_text("utf-8").split("\n"):
            if not line.startswith("< "):
                continue
            params = json.loads(line[2:].replace("{dir}/home", "/home/me")).get("params")
            if not isinstance(params, dict) or "payload" not in params or len(line) > LONGEST:
                continue
            payload = without_null(params["payload"])
            rank = (release, len(payload), -abs(len(line) - BEST))
            if params["type"] not in found or rank > found[params["type"]][0]:
                found[params["type"]] = (rank, payload)
    return {name: payload for name, (_, payload) in found.items()}


def without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_null(inner) for name, inner in value.items() if inner is not None}
    return [without_null(inner) for inner in value] if isinstance(value, list) else value


def example(name: str, examples: dict[str, Any]) -> Iterator[str]:
    yield "<!-- data -->"
    yield "```json"
    yield json.dumps({"type": name, "payload": examples[name]}, indent=2, ensure_ascii=False)
    yield "```"
    yield ""


def sent(name: str, message: Message, catalog: dict[str, Any]) -> tuple[str, str, str]:
    """Since which version of Wire, whether over ACP, whether with Kimi Code's server."""
    if name in ONLY_SDK:
        return ("every version", "yes", "yes")
    wire = f"from {message['since']}" if message["since"] else "no"
    acp, web = ("yes" if name in catalog[key] else "no" for key in ("over_acp", "over_kimi_web"))
    return (wire, acp, web)


def overview(names: Iterable[str], messages: dict[str, Message], catalog: dict[str, Any]) -> Iterator[str]:
    yield "| name | meaning | Wire | ACP | kimi-web |"
    yield "| --- | --- | --- | --- | --- |"
    for name in names:
        about = meaning(messages[name]["doc"]).split(". ")[0].rstrip(".")
        yield f"| [`{name}`](#{name.lower()}) | {about} | {' | '.join(sent(name, messages[name], catalog))} |"
    yield ""


def section(name: str, messages: dict[str, Message], examples: dict[str, Any], level: int = 3) -> Iterator[str]:
    message = messages[name]
    known = set(messages)
    yield f"{'#' * level} {name}"
    yield ""
    yield meaning(message["doc"])
    yield ""
    if name == "ContentPart":
        for part in message["members"]:
            yield f"- {linked(part, known)}: {meaning(messages[part]['doc'])}"
        yield ""
    else:
        yield from fields(message, known)
    if name in examples:
        yield from example(name, examples)


def events_page(catalog: dict[str, Any], messages: dict[str, Message], examples: dict[str, Any]) -> str:
    listed = [name for names in SECTIONS.values() for name in names]
    if missing := set(catalog["events"]) - set(listed):
        raise SystemExit(f"no section of tools/generate_reference.py has the events {sorted(missing)}")
    lines = [*EVENTS_HEAD.splitlines(), "", *overview(listed, messages, catalog)]
    for title, names in SECTIONS.items():
        lines += [f"## {title}", ""]
        for name in names:
            lines += section(name, messages, examples)
    lines += ["## Types", "", "These are parts of events and requests.", ""]
    for name in PARTS:
        if name == "BriefDisplayBlock":
            lines += ["### Display blocks", "", "The agent offers them for display; the model does not see them.", ""]
        lines += section(name, messages, {})
    lines += [
        "## The agent",
        "",
        "A session has these as properties; `InitializeResult` is the answer to the handshake.",
        "",
    ]
    for name in SESSION_PARTS:
        lines += section(name, messages, {})
    return "\n".join(lines).rstrip("\n") + "\n"


def requests_page(catalog: dict[str, Any], messages: dict[str, Message], examples: dict[str, Any]) -> str:
    if missing := set(catalog["requests"]) - set(REQUESTS):
        raise SystemExit(f"tools/generate_reference.py lacks the requests {sorted(missing)}")
    lines = [*REQUESTS_HEAD.splitlines(), "", *overview(REQUESTS, messages, catalog)]
    for name in REQUESTS:
        lines += section(name, messages, examples, 2)
        if name == "ApprovalRequest":
            lines += [*ACTIONS.splitlines(), ""]
    lines += ["## Types", ""]
    for name in REQUEST_PARTS:
        lines += section(name, messages, {})
    return "\n".join(lines).rstrip("\n") + "\n"


def generated(catalog: dict[str, Any]) -> dict[str, str]:
    messages = {message["name"]: message for message in catalog["messages"]}
    messages["ContentPart"] = {
        "doc": "A part of the model's answer: text, thinking, an image, a sound or a video.",
        "since": "1.0",
        "members": catalog["content_parts"],
    }
    shown = {*SECTIONS, *(name for names in SECTIONS.values() for name in names), *REQUESTS}
    shown |= {*PARTS, *REQUEST_PARTS, *SESSION_PARTS}
    if missing := set(messages) - shown:
        raise SystemExit(f"tools/generate_reference.py shows no {sorted(missing)}")
    examples = {**recorded(), **EXAMPLES}
    return {
        "events.md": events_page(catalog, messages, examples),
        "requests.md": requests_page(catalog, messages, examples),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if a page is not up to date")
    check = parser.parse_args().check
    status = 0
    for name, text in generated(load_catalog()).items():
        path = FOLDER / name
        if not check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(
                f"{path.relative_to(ROOT)} is not up to date: run python tools/generate_reference.py", file=sys.stderr
            )
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
