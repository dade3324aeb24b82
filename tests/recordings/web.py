"""Traffic of a client of Kimi Code's server, as messages between the SDK and its gateway.

The recorded client was not the SDK: it asks for pages that the SDK does not read, and lets the server choose the ids of
prompts. Such requests are left out with their answers, and the prompts get ids as the SDK makes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from .messages import Converted, NotTraffic, Said

# The beginning of the ids that the SDK gives its prompts: 32 hexadecimal digits.
_NONCE = "c0de" * 8
_SESSION = re.compile(r"/sessions/([^/:?]+)")
# The requests of the SDK in an open session, by the end of their path.
_OF_SDK = re.compile(r"/(prompts|prompts/[^/]+:abort|prompts:steer|approvals/[^/]+|questions/[^/]+|profile)$")
_FRAMES_OF_CONNECTION = ("server_hello", "ack", "ping", "pong")


def read(records: list[dict[str, Any]]) -> list[Said]:
    """The requests, answers and frames as JSON-RPC."""
    said: list[Said] = []
    # The server answers the requests of this client in their order.
    waiting: list[int] = []
    for number, record in enumerate(records, 1000):
        is_ours = record["dir"] == "in"
        match record["via"], record["dir"]:
            case "http", "in":
                waiting.append(number)
                message = {"id": number, "method": record["line"], "params": record.get("body") or {}}
            case "http", "out":
                message = {"id": waiting.pop(0), **_outcome(record["body"])}
            case "ws", "out" if record["frame"]["type"] not in _FRAMES_OF_CONNECTION:
                message = {"method": record["frame"]["type"], "params": record["frame"]}
            case _:
                continue
        line = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False, separators=(",", ":"))
        said.append(Said(is_ours, record.get("t", 0.0), line))
    return said


def _outcome(body: dict[str, Any]) -> dict[str, Any]:
    if body["code"] == 0:
        return {"result": body.get("data")}
    return {"error": {"code": body["code"], "message": body["msg"]}}


def sessions(said: list[Said]) -> Iterator[tuple[str, Converted]]:
    """The sessions that have a prompt, each opened as in a recording of this folder."""
    from .convert import opening

    prompted = [found[1] for one in said if one.from_sdk and (found := _prompted(one))]
    names = list(dict.fromkeys(prompted))
    if not names:
        raise NotTraffic("it has no prompt")
    for name in names:
        begin = opening("kimi-web", name)
        own, steered = _with_ids(list(_of_session(said, name)))
        _check_queue(own, steered)
        yield (name if len(names) > 1 else ""), Converted("kimi-web", begin + own, len(begin), steered)


def _check_queue(said: list[Said], steered: frozenset[str]) -> None:
    """Refuses a session in which a client sent a prompt while a turn ran. The SDK has one turn at a time."""
    is_running = False
    for one in said:
        if one.from_sdk and _prompted(one) and one.params["prompt_id"] not in steered:
            if is_running:
                raise NotTraffic("the client sent a prompt while a turn ran, which the SDK refuses")
            is_running = True
        elif one.method in ("turn.ended", "prompt.aborted", "prompt.completed"):
            is_running = False


def _prompted(one: Said) -> re.Match[str] | None:
    return _SESSION.search(one.method or "") if (one.method or "").endswith("/prompts") else None


def _of_session(said: list[Said], name: str) -> Iterator[Said]:
    """The messages of a session that the SDK would have exchanged."""
    kept: set[int] = set()
    known: set[str] = set()
    for one in said:
        message = one.json or {}
        if one.from_sdk:
            found = _SESSION.search(one.method or "")
            if found and found[1] == name and _is_of_sdk(one, known):
                kept.add(message["id"])
                yield one
        elif one.method:
            if message["params"].get("session_id") == name:
                yield one
        elif message["id"] in kept:
            known.add(str((message.get("result") or {}).get("prompt_id")))
            yield one


def _is_of_sdk(one: Said, known: set[str]) -> bool:
    """Whether the SDK makes such a request. It steers its own prompts, and cancels a prompt once."""
    method = one.method or ""
    if not _OF_SDK.search(method) or not method.startswith("POST "):
        return False
    if method.endswith("/profile"):
        return "plan_mode" in one.params.get("agent_config", {})
    if method.endswith(":steer"):
        return set(one.params["prompt_ids"]) <= known
    if method.endswith(":abort"):
        once = f"abort {method}"
        first = once not in known
        known.add(once)
        return first
    return True


def _with_ids(said: list[Said]) -> tuple[list[Said], frozenset[str]]:
    """The messages with ids of prompts as the SDK makes them, and the ids of those that are steers."""
    answers = {(one.json or {}).get("id"): one for one in said if not one.from_sdk and not one.method}
    names: dict[str, str] = {}
    for one in said:
        if not (one.from_sdk and _prompted(one)):
            continue
        result = (answers[(one.json or {})["id"]].json or {}).get("result") or {}
        given = one.params.get("prompt_id") or result.get("prompt_id")
        own = f"{_NONCE}-{len(names) + 1}"
        names[str(given or own)] = own

    def renamed(one: Said, number: int) -> Said:
        line = one.line
        for theirs, ours in names.items():
            line = line.replace(theirs, ours)
        if number:
            message = json.loads(line)
            message["params"] = {"prompt_id": f"{_NONCE}-{number}", **message["params"]}
            line = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        return Said(one.from_sdk, one.time, line)

    number, told = 0, []
    for one in said:
        is_prompt = bool(one.from_sdk and _prompted(one))
        number += is_prompt
        told.append(renamed(one, number if is_prompt else 0))
    steered = {
        str(prompt)
        for one in told
        if one.from_sdk and (one.method or "").endswith(":steer")
        for prompt in one.params["prompt_ids"]
    }
    return told, frozenset(steered)
