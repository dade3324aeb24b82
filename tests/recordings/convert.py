#!/usr/bin/env python3
"""Makes recordings of raw traffic: `tests/recordings/convert.py FOLDER TO`.

FOLDER and the folders below it have logs of these kinds:

- `.wire` and `.acp`, as in `tests/recorded`: a line of the SDK begins with `> `, a line of the agent with `< `.
- JSON Lines with `dir` (`in` is the SDK), `t` in seconds, and `line`.
- `.web`, or JSON Lines with `via`: requests over HTTP and frames of a WebSocket, to and from Kimi Code's server.

A recording has the messages of one session, so a log with several sessions becomes several recordings. The calls of
the program are derived from the messages. A log that begins at the first prompt gets the opening of a recording of
this folder. A time that is not known is 0.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from recordings import web  # noqa: E402
from recordings.messages import Converted, NotTraffic, Said, sdk_and_agent  # noqa: E402

# The calls that open a session over ACP.
_OPENINGS = ("session/new", "session/load", "session/resume", "session/fork")
# The first id of the calls of an opening that the log lacks.
_FIRST_ID = 100_000


@dataclass(frozen=True)
class Call:
    """A call of the program."""

    name: str
    arguments: dict[str, Any]
    in_turn: bool = True


def convert(log: Path) -> list[Converted]:
    """Makes the recordings of a log. `NotTraffic` says why it has none."""
    said, dialect = read(log)
    if dialect == "kimi-web":
        return [finished(part, name) for name, part in web.sessions(said)]
    if dialect == "acp":
        return [finished(part, name) for name, part in acp_sessions(said)]
    return [finished(Converted(dialect, said), "")]


def read(log: Path) -> tuple[list[Said], str]:
    """Reads a log. Returns its messages and their protocol."""
    rows = [row for row in log.read_text("utf-8").split("\n") if row]
    if rows and rows[0][:2] in ("> ", "< "):
        said = [Said(row[0] == ">", 0.0, row[2:]) for row in rows]
    else:
        records = [json.loads(row) for row in rows]
        if any("via" in record for record in records):
            return web.read(records), "kimi-web"
        if not all({"dir", "line"} <= record.keys() for record in records):
            raise NotTraffic("it has no messages between a client and an agent")
        spoken = [record for record in records if record["dir"] in ("in", "out")]
        said = [Said(record["dir"] == "in", record.get("t", 0.0), record["line"]) for record in spoken]
    methods = {str(one.json.get("method")) for one in said if one.from_sdk and one.json}
    if not methods:
        raise NotTraffic("it has no messages to an agent")
    if "run" in methods:
        return said, "legacy"
    return said, "acp" if any(method.startswith("session/") for method in methods) else "wire"


def acp_sessions(said: list[Said]) -> Iterable[tuple[str, Converted]]:
    """The sessions of a connection over ACP. All of them have its handshake."""
    owners = acp_owners(said)
    names = list(dict.fromkeys(name for name in owners if name)) or [""]
    for name in names:
        own = [one for one, owner in zip(said, owners, strict=True) if owner in (name, "")]
        if not any(one.method == "initialize" for one in own):
            own = [*opening("acp", name), *own]
        yield (name if len(names) > 1 else ""), Converted("acp", own)


def acp_owners(said: list[Said]) -> list[str]:
    """The session of each message; empty for those of the connection."""
    owners: list[str] = []
    by_id: dict[tuple[bool, str], str] = {}
    opened: dict[str, int] = {}
    for place, one in enumerate(said):
        message = one.json or {}
        params, result = message.get("params") or {}, message.get("result")
        key = (one.from_sdk if one.method else not one.from_sdk, json.dumps(message.get("id")))
        owner = str(params.get("sessionId") or "") if isinstance(params, dict) else ""
        if one.method:
            by_id[key] = owner
            if one.method in _OPENINGS:
                opened[key[1]] = place
        else:
            owner = by_id.get(key, "")
            if not one.from_sdk and key[1] in opened and isinstance(result, dict):
                owner = str(result.get("sessionId") or owner)
                owners[opened.pop(key[1])] = owner
        owners.append(owner)
    return owners


def opening(dialect: str, session: str) -> list[Said]:
    """The messages that open the session of a recording of this folder, with another id of the session."""
    said: list[Said] = []
    for row in (HERE / f"{dialect}.jsonl").read_text("utf-8").split("\n"):
        entry = json.loads(row)
        if entry["type"] == "opened":
            own = entry["session_id"]
            return [Said(one.from_sdk, 0.0, one.line.replace(own, session)) for one in said]
        if entry["type"] == "message":
            message = entry["message"]
            if "id" in message:
                # The ids of the log begin with the same numbers.
                message["id"] += _FIRST_ID
            line = json.dumps(message, separators=(",", ":"), ensure_ascii=False)
            said.append(Said(entry["from"] == "sdk", 0.0, line))
    raise NotTraffic(f"the recording {dialect}.jsonl has no opening")


def finished(part: Converted, name: str) -> Converted:
    """The recording with its header, its calls and its end."""
    part.name = name
    part.said = said = with_hook_ids(opening_first(part.said))
    check_queue(part)
    part.options = options(part)
    tools = next((one.params.get("external_tools") for one in said if one.method == "initialize"), None)
    entries: list[dict[str, Any]] = [header(part, tools or [])]
    opens = opening_end(part)
    turn = 0
    for place, one in enumerate(said):
        if place == opens:
            entries.append({"time": one.time, "type": "opened", **about_session(said[:place])})
        call = call_of(part, place) if one.from_sdk and place >= opens else None
        if call:
            turn += call.name == "prompt"
            entry = {"time": one.time, "type": "call", "call": call.name}
            entry |= {"turn": turn} if call.in_turn else {}
            entries.append({**entry, "arguments": call.arguments} if call.arguments else entry)
        entries.append(one.entry())
    last = said[-1].time if said else 0.0
    if opens < len(said):
        entries.append({"time": last, "type": "call", "call": "close"})
    entries.append({"time": last, "type": "end", "reason": "closed"})
    part.entries = entries
    return part


def opening_first(said: list[Said]) -> list[Said]:
    """The messages with the answer to the handshake before a prompt. Older SDKs do not wait for it."""
    begin = next((place for place, one in enumerate(said) if one.method == "initialize"), None)
    if begin is None:
        return said
    key = (said[begin].json or {}).get("id")
    answers = (place for place, one in enumerate(said) if not one.method and one.json and one.json.get("id") == key)
    answer = next(answers, begin + 1)
    return [*said[: begin + 1], said[answer], *said[begin + 1 : answer], *said[answer + 1 :]]


def with_hook_ids(said: list[Said]) -> list[Said]:
    """The messages with ids of hooks as the SDK makes them, and without hooks for events that the agent lacks."""
    names: dict[str, str] = {}
    events = {event for one in said for event in _supported_events(one)}
    told = []
    for one in said:
        line = one.line
        hooks = one.params.get("hooks") if one.method == "initialize" else None
        if hooks:
            message = json.loads(line)
            kept = [hook for hook in hooks if not events or hook["event"] in events]
            names = {hook["id"]: f"hook-{number}" for number, hook in enumerate(kept, 1)}
            message["params"]["hooks"] = [{**hook, "id": names[hook["id"]]} for hook in kept]
            line = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        elif names and one.method == "request" and one.params.get("type") == "HookRequest":
            message = json.loads(line)
            payload = message["params"]["payload"]
            payload["subscription_id"] = names.get(payload["subscription_id"], payload["subscription_id"])
            line = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        told.append(Said(one.from_sdk, one.time, line))
    return told


def _supported_events(one: Said) -> list[str]:
    result = (one.json or {}).get("result")
    hooks = result.get("hooks") if isinstance(result, dict) else None
    return list(hooks.get("supported_events") or []) if isinstance(hooks, dict) else []


def check_queue(part: Converted) -> None:
    """Refuses a session in which a client sent a prompt while a turn ran. The SDK has one turn at a time."""
    answers = [
        (place, one.json) for place, one in enumerate(part.said) if not (one.from_sdk or one.method) and one.json
    ]
    ends = {json.dumps(answer.get("id")): place for place, answer in answers}
    end = -1
    for place, one in enumerate(part.said):
        if one.from_sdk and one.method in ("prompt", "run", "session/prompt"):
            if place < end:
                raise NotTraffic("the client sent a prompt while a turn ran, which the SDK refuses")
            end = ends.get(json.dumps((one.json or {}).get("id")), -1)


def header(part: Converted, tools: list[dict[str, Any]]) -> dict[str, Any]:
    head: dict[str, Any] = {
        "type": "header",
        "format": 1,
        "started": "2026-01-01T00:00:00.000Z",
        "sdk": {"name": "kimi-agent", "version": "0.1.0", "language": "python"},
        "dialect": part.dialect,
        "executable": ["kimi"],
        "options": part.options,
    }
    if tools:
        head["tools"] = [{key: tool.get(key) for key in ("name", "description", "parameters")} for tool in tools]
    return head


def options(part: Converted) -> dict[str, Any]:
    """The options that the messages show: without a handshake, the version of Wire is 1.0."""
    has_handshake = any(one.method == "initialize" for one in part.said)
    return {"dialect": "1.0"} if part.dialect == "wire" and not has_handshake else {}


def opening_end(part: Converted) -> int:
    """The place of the first message of the open session."""
    if part.opened is not None:
        return part.opened
    ends = [place for place, one in enumerate(part.said) if one.method in ("initialize", *_OPENINGS)]
    if not ends:
        return 0
    answered = part.said[ends[-1]].json or {}
    for place, one in enumerate(part.said[ends[-1] :], ends[-1]):
        if not one.from_sdk and not one.method and one.json and one.json.get("id") == answered.get("id"):
            return place + 1 if "error" not in one.json or part.dialect == "wire" else len(part.said)
    return len(part.said)


def about_session(opening: list[Said]) -> dict[str, Any]:
    """The members of the entry `opened`."""
    about: dict[str, Any] = {"protocol_version": "1.0"}
    for one in opening:
        result = (one.json or {}).get("result")
        if not isinstance(result, dict):
            continue
        named = result.get("server") or result.get("agentInfo")
        if isinstance(named, dict) and {"name", "version"} <= named.keys():
            about["agent"] = {key: named[key] for key in ("name", "version")}
        if "protocol_version" in result:
            about["protocol_version"] = result["protocol_version"]
        if "protocolVersion" in result:
            about["protocol_version"] = f"acp-{result['protocolVersion']}"
        if "server_version" in result:
            about["protocol_version"] = "kimi-web-2"
        if "sessionId" in result or str(result.get("id", "")).startswith("session_"):
            about["session_id"] = result.get("sessionId") or result["id"]
    return about


def call_of(part: Converted, place: int) -> Call | None:
    """The call of the program that leads to a message of the SDK, if one does."""
    one = part.said[place]
    params = one.params
    if part.dialect == "kimi-web":
        return web_call(part, place)
    match one.method:
        case "prompt" | "run" | "session/prompt":
            return Call("prompt", {"input": content(params)})
        case "cancel" | "interrupt" | "session/cancel":
            return Call("cancel", {})
        case "steer":
            return Call("steer", {"input": content(params)})
        case "set_plan_mode":
            return Call("set_plan_mode", {"on": params["enabled"]}, in_turn=False)
        case "replay":
            return Call("replay", {}, in_turn=False)
        case "session/set_mode":
            return Call("set_plan_mode", {"on": params["modeId"] == "plan"}, in_turn=False)
        case "session/set_config_option" if params["configId"] in ("mode", "collaboration_mode"):
            return Call("set_plan_mode", {"on": params["value"] == "plan"}, in_turn=False)
        case "session/set_config_option":
            arguments = {"option": params["configId"], "value": params["value"]}
            return Call("set_config_option", arguments, in_turn=False)
    return None


def web_call(part: Converted, place: int) -> Call | None:
    one = part.said[place]
    path = (one.method or "").rpartition("/")[2]
    if path == "prompts":
        is_steer = one.params.get("prompt_id") in part.steered
        return Call("steer" if is_steer else "prompt", {"input": content(one.params)})
    if path.endswith(":abort"):
        return Call("cancel", {})
    if path == "profile" and "plan_mode" in one.params.get("agent_config", {}):
        return Call("set_plan_mode", {"on": one.params["agent_config"]["plan_mode"]}, in_turn=False)
    return None


def content(params: dict[str, Any]) -> Any:
    """The input of a prompt or a steer, as a program passes it."""
    given = next(params[key] for key in ("user_input", "input", "prompt", "content") if key in params)
    is_text = isinstance(given, list) and len(given) == 1 and given[0].get("type") == "text"
    return given[0]["text"] if is_text else given


def logs(folder: Path) -> list[Path]:
    """The logs below a folder, in order."""
    kinds = {".wire", ".acp", ".web", ".jsonl"}
    return sorted(path for path in folder.rglob("*") if path.suffix in kinds and path.is_file())


def convert_all(folder: Path, to: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """Writes the recordings of a folder's logs. Returns their paths by name, and why the other logs have none."""
    made: dict[str, Path] = {}
    refused: dict[str, str] = {}
    for log in logs(folder):
        name = log.relative_to(folder).as_posix()
        try:
            for part in convert(log):
                title = f"{name} {part.name}".strip()
                path = to / f"{title.replace('/', '--').replace(' ', '--')}.jsonl"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(sdk_and_agent(part), "utf-8")
                made[title] = path
        except NotTraffic as reason:
            refused[name] = str(reason)
    return made, refused


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("to", type=Path)
    chosen = parser.parse_args()
    made, refused = convert_all(chosen.folder, chosen.to)
    for name, reason in refused.items():
        print(f"{name}: {reason}")
    print(f"{len(made)} recordings, {len(refused)} logs without one")
    return 0


if __name__ == "__main__":
    sys.exit(main())
