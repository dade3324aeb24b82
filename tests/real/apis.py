"""The APIs of models that agents speak, as far as a scripted reply needs them: where each is, and how it streams.

A reply becomes a list of steps: bytes to send, a file to wait for, or the end that the reply asks for.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Reply = dict[str, Any]
Request = dict[str, Any]


@dataclass(frozen=True)
class Wait:
    """The stream pauses until this file exists; without a file, until the agent hangs up."""

    path: Path | None


class Drop:
    """The connection is closed without an end of the stream."""


Step = bytes | Wait | Drop

# The ids of messages differ, as those of the real service.
NUMBERS = itertools.count(1)


def _pieces(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _told(reply: Reply, key: str) -> Iterator[Wait | str]:
    """The pieces of a thought or a text, and the files to wait for between them."""
    for piece in _pieces(reply.get(key)):
        yield Wait(Path(piece["wait_file"])) if isinstance(piece, dict) else str(piece)


def _ending(reply: Reply) -> Iterator[Step]:
    """What comes in place of the stream's end, if the reply wants none."""
    end = reply.get("end", "done")
    if end == "hang":
        yield Wait(None)
    if end in ("hang", "drop"):
        yield Drop()


def _data(value: Any) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


def _tokens(reply: Reply) -> tuple[int, int, int]:
    """Input, output, and how much of the input was cached."""
    usage = reply.get("usage", {})
    return usage.get("input", 100), usage.get("output", 10), usage.get("cached", 0)


class OpenAi:
    """Chat completions."""

    def is_aside(self, request: Request) -> bool:
        """Whether the request is not about the conversation, so that it takes no reply."""
        return False

    def serves(self, path: str) -> bool:
        return path.endswith("/chat/completions")

    def messages(self, request: Request) -> Any:
        return request.get("messages", [])

    def offered(self, request: Request) -> set[Any]:
        return {tool.get("function", {}).get("name") for tool in request.get("tools") or []}

    def error(self, status: int, message: str) -> Any:
        return {"error": {"message": message, "type": "scripted"}}

    def stream(self, reply: Reply) -> Iterator[Step]:
        yield self._delta({"role": "assistant", "content": ""})
        for key, field in (("think", "reasoning_content"), ("text", "content")):
            for piece in _told(reply, key):
                yield piece if isinstance(piece, Wait) else self._delta({field: piece})
        for index, call in enumerate(reply.get("calls", [])):
            yield from self._call(index, call)
        yield from _ending(reply)
        words = {"token_limit": "length", "content_filter": "content_filter", "refusal": "stop"}
        if reply.get("finish") == "refusal":
            yield self._delta({"refusal": "I can't help with that."})
        yield self._delta({}, finish=words.get(reply.get("finish"), "tool_calls" if reply.get("calls") else "stop"))
        given, written, cached = _tokens(reply)
        usage = {
            "prompt_tokens": given,
            "completion_tokens": written,
            "total_tokens": given + written,
            "cached_tokens": cached,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        yield self._chunk([], usage=usage)
        yield b"data: [DONE]\n\n"

    def _call(self, index: int, call: dict[str, Any]) -> Iterator[Step]:
        arguments = call.get("arguments", {})
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        function = {"name": call["name"], "arguments": ""}
        yield self._delta(
            {"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": function}]}
        )
        size = max(1, -(-len(text) // call.get("pieces", 2)))
        for start in range(0, len(text), size):
            part = {"arguments": text[start : start + size]}
            yield self._delta({"tool_calls": [{"index": index, "function": part}]})

    def _delta(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        return self._chunk([{"index": 0, "delta": delta, "finish_reason": finish}])

    def _chunk(self, choices: list[Any], **more: Any) -> bytes:
        chunk = {"id": "chatcmpl-scripted", "object": "chat.completion.chunk", "created": 0}
        return _data({**chunk, "model": "scripted", "choices": choices, **more})


class Anthropic:
    """Messages."""

    def is_aside(self, request: Request) -> bool:
        # Claude Code asks for titles, and whether the model is there.
        return not request.get("tools")

    def serves(self, path: str) -> bool:
        return path.partition("?")[0].endswith("/v1/messages")

    def messages(self, request: Request) -> Any:
        return request.get("messages", [])

    def offered(self, request: Request) -> set[Any]:
        return {tool.get("name") for tool in request.get("tools") or []}

    def error(self, status: int, message: str) -> Any:
        kind = {
            400: "invalid_request_error",
            401: "authentication_error",
            429: "rate_limit_error",
            529: "overloaded_error",
        }.get(status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}}

    def stream(self, reply: Reply) -> Iterator[Step]:
        given, written, cached = _tokens(reply)
        usage = {
            "input_tokens": given - cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": cached,
            "output_tokens": 1,
        }
        message = {"id": f"msg_{next(NUMBERS)}", "type": "message", "role": "assistant", "model": "scripted-model"}
        message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        yield self._event("message_start", message=message)
        index = 0
        for key, kind in (("think", "thinking"), ("text", "text")):
            if key not in reply:
                continue
            block = {"type": kind, kind: ""} | ({"signature": ""} if kind == "thinking" else {})
            yield self._event("content_block_start", index=index, content_block=block)
            for piece in _told(reply, key):
                told = piece if isinstance(piece, Wait) else self._delta(index, kind, piece)
                yield told
            if kind == "thinking":
                yield self._event(
                    "content_block_delta", index=index, delta={"type": "signature_delta", "signature": "signed"}
                )
            if not (reply.get("end") in ("hang", "drop") and kind == "text"):
                yield self._event("content_block_stop", index=index)
            index += 1
        for call in reply.get("calls", []):
            arguments = call.get("arguments", {})
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            block = {"type": "tool_use", "id": call["id"], "name": call["name"], "input": {}}
            yield self._event("content_block_start", index=index, content_block=block)
            delta = {"type": "input_json_delta", "partial_json": text}
            yield self._event("content_block_delta", index=index, delta=delta)
            yield self._event("content_block_stop", index=index)
            index += 1
        yield from _ending(reply)
        words = {"token_limit": "max_tokens", "content_filter": "refusal", "refusal": "refusal"}
        reason = words.get(reply.get("finish"), "tool_use" if reply.get("calls") else "end_turn")
        delta = {"stop_reason": reason, "stop_sequence": None}
        yield self._event("message_delta", delta=delta, usage={"output_tokens": written})
        yield self._event("message_stop")

    def whole(self, text: str) -> Any:
        """The answer to a request that wants no stream."""
        message = {"id": f"msg_{next(NUMBERS)}", "type": "message", "role": "assistant", "model": "scripted-model"}
        usage = {"input_tokens": 0, "output_tokens": 0}
        content = [{"type": "text", "text": text}]
        return message | {"content": content, "stop_reason": "end_turn", "stop_sequence": None, "usage": usage}

    def _delta(self, index: int, kind: str, piece: str) -> bytes:
        return self._event("content_block_delta", index=index, delta={"type": f"{kind}_delta", kind: piece})

    def _event(self, kind: str, **fields: Any) -> bytes:
        return f"event: {kind}\n".encode() + _data({"type": kind, **fields})


class Gemini:
    """`generateContent`, streamed. A call has no id, because Gemini has none."""

    def is_aside(self, request: Request) -> bool:
        return False

    def serves(self, path: str) -> bool:
        return path.partition("?")[0].endswith(":streamGenerateContent")

    def messages(self, request: Request) -> Any:
        return request.get("contents", [])

    def offered(self, request: Request) -> set[Any]:
        tools = request.get("tools") or []
        return {one.get("name") for tool in tools for one in tool.get("functionDeclarations", [])}

    def error(self, status: int, message: str) -> Any:
        word = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED"}.get(status, "INTERNAL")
        return {"error": {"code": status, "message": message, "status": word}}

    def stream(self, reply: Reply) -> Iterator[Step]:
        for key, more in (("think", {"thought": True}), ("text", {})):
            for piece in _told(reply, key):
                yield piece if isinstance(piece, Wait) else self._chunk([{"text": piece, **more}])
        calls = [
            {"functionCall": {"name": call["name"], "args": call.get("arguments", {})}, "thoughtSignature": "c2lnbmVk"}
            for call in reply.get("calls", [])
        ]
        if calls:
            yield self._chunk(calls)
        yield from _ending(reply)
        given, written, cached = _tokens(reply)
        usage = {
            "promptTokenCount": given,
            "candidatesTokenCount": written,
            "totalTokenCount": given + written,
            "cachedContentTokenCount": cached,
        }
        words = {"token_limit": "MAX_TOKENS", "content_filter": "SAFETY", "refusal": "PROHIBITED_CONTENT"}
        reason = words.get(reply.get("finish"), "STOP")
        yield self._chunk([] if calls else [{"text": ""}], finishReason=reason, usage=usage)

    def _chunk(self, parts: list[Any], usage: Any = None, **more: Any) -> bytes:
        candidate = {"content": {"role": "model", "parts": parts}, "index": 0, **more}
        told = {"candidates": [candidate], "modelVersion": "scripted-model", "responseId": "scripted"}
        return _data(told | ({"usageMetadata": usage} if usage else {}))


class Responses:
    """OpenAI's Responses, streamed. Codex speaks no other API."""

    def is_aside(self, request: Request) -> bool:
        # Codex asks for titles.
        return not request.get("tools")

    def serves(self, path: str) -> bool:
        return path.partition("?")[0].endswith("/responses")

    def messages(self, request: Request) -> Any:
        return request.get("input", [])

    def offered(self, request: Request) -> set[Any]:
        tools = request.get("tools") or []
        spaces = [tool for tool in tools if tool.get("type") == "namespace"]
        inner = {f"{space['name']}__{tool.get('name')}" for space in spaces for tool in space.get("tools", [])}
        return {tool.get("name") for tool in tools} | inner

    def error(self, status: int, message: str) -> Any:
        return {"error": {"message": message, "type": "scripted", "param": None, "code": None}}

    def stream(self, reply: Reply) -> Iterator[Step]:
        number = next(NUMBERS)
        thought, message = f"rs_{number}", f"msg_{number}"
        yield self._event("response.created", response={"id": "resp_scripted"})
        if "think" in reply:
            yield self._added({"type": "reasoning", "id": thought, "summary": []})
            whole = ""
            for piece in _told(reply, "think"):
                if isinstance(piece, Wait):
                    yield piece
                    continue
                whole += piece
                place = {"item_id": thought, "summary_index": 0}
                yield self._event("response.reasoning_summary_text.delta", delta=piece, **place)
            summary = [{"type": "summary_text", "text": whole}]
            yield self._done({"type": "reasoning", "id": thought, "summary": summary})
        if "text" in reply:
            yield self._added({"type": "message", "role": "assistant", "id": message, "content": []})
            whole = ""
            for piece in _told(reply, "text"):
                if isinstance(piece, Wait):
                    yield piece
                    continue
                whole += piece
                yield self._event("response.output_text.delta", delta=piece, item_id=message)
            if reply.get("end") not in ("hang", "drop"):
                content = [{"type": "output_text", "text": whole}]
                yield self._done({"type": "message", "role": "assistant", "id": message, "content": content})
        for call in reply.get("calls", []):
            arguments = call.get("arguments", {})
            if call["name"] == "exec_command" and "command" in arguments:
                # Without this, Codex runs the command in its sandbox and does not ask.
                arguments = {"cmd": arguments["command"], "sandbox_permissions": "require_escalated"}
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            # Tools of a server of MCP are in a namespace.
            space, _, name = call["name"].rpartition("__")
            item = {"type": "function_call", "call_id": call["id"], "name": name, "arguments": text}
            yield self._done({**item, "namespace": space} if space else item)
        yield from _ending(reply)
        given, written, cached = _tokens(reply)
        usage = {
            "input_tokens": given,
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens": written,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": given + written,
        }
        words = {"token_limit": "max_output_tokens", "content_filter": "content_filter"}
        response = {"id": "resp_scripted", "usage": usage}
        if reply.get("finish") in words:
            details = {"reason": words[reply["finish"]]}
            yield self._event("response.incomplete", response={**response, "incomplete_details": details})
            return
        if reply.get("finish") == "refusal":
            content = [{"type": "refusal", "refusal": "I can't help with that."}]
            yield self._done({"type": "message", "role": "assistant", "id": f"{message}r", "content": content})
        yield self._event("response.completed", response=response)

    def _added(self, item: dict[str, Any]) -> bytes:
        return self._event("response.output_item.added", item=item)

    def _done(self, item: dict[str, Any]) -> bytes:
        return self._event("response.output_item.done", item=item)

    def _event(self, kind: str, **fields: Any) -> bytes:
        return f"event: {kind}\n".encode() + _data({"type": kind, **fields})


Api = OpenAi | Anthropic | Gemini | Responses
APIS: tuple[Api, ...] = (OpenAi(), Anthropic(), Gemini(), Responses())
