"""Structured output: agents that die, talk or send too much, schemas that lead elsewhere, and checks that never end."""

from __future__ import annotations

import functools
import json
import socket
from collections.abc import Iterator
from typing import Any

from .ends import IDLE, WAYS
from .fault import CLOSE, DONE, FINISHED, OPEN, PROMPT, Fault, Outcome, Step, error, step
from .turns import KILLS, name_of

COUNT: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
COUNTED = {"n": 1}
SAID = json.dumps(COUNTED)
PROTOCOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "wire": ("", {}),
    "acp": ("ACP: ", {"dialect": "acp"}),
    "web": ("server: ", {"dialect": "kimi-web"}),
}
"""The beginning of a family's name, and the options. Only over Wire does the scripted agent take tools."""
LINES = {"type": "object", "properties": {"lines": {"type": "array", "items": {"type": "string", "maxLength": 99}}}}
LARGE = {"lines": ["x" * 99] * 100_000}
TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
    "required": ["name"],
}
RECURSIVE = {"$ref": "#/$defs/Node", "$defs": {"Node": TREE}}


def script(protocol: str, turns: Any) -> Any:
    return turns if protocol == "wire" else {"wire": PROTOCOLS[protocol][1]["dialect"], "turns": turns}


def call(arguments: Any, number: int = 1) -> dict[str, Any]:
    """A call of the tool that takes the value."""
    return {"external_tool": {"id": f"c{number}", "name": "final_result", "arguments": arguments}}


def shaped(schema: Any, **details: Any) -> dict[str, Any]:
    """The option of a session, for which the model has the tool."""
    return {"output": {"schema": schema, **details}}


def asked(schema: Any = COUNT, outcome: Outcome = DONE, limits: dict[str, Any] | None = None, **details: Any) -> Step:
    """A prompt that has the output, so that the value is in the text."""
    return step(
        "prompt", outcome, input="hi", prompt_options={"output": {"schema": schema, **details}, **(limits or {})}
    )


def values(value: Any) -> Step:
    return step("result", {**FINISHED, "output": value})


def deaths() -> Iterator[Fault]:
    for way in KILLS:
        action, end = WAYS[way]
        family = f"`output`: killed during a correction: {way}"
        died = (step("drain", end), step("result", end), CLOSE)
        for name, turns in {
            "call": [[call({"n": "one"}), action]],
            "prompt": [[{"text": "Done"}], [action]],
            "answer": [[{"text": "Done"}], [{"text": "{"}, action]],
        }.items():
            yield Fault(family, name_of("output_killed", way, name), (OPEN, PROMPT, *died), turns,
                        options=shaped(COUNT))  # fmt: skip
        for protocol, (title, options) in PROTOCOLS.items():
            yield Fault(
                f"{title}{family}",
                name_of("output_killed", way, "text", protocol),
                (OPEN, asked(), *died),
                script(protocol, [[{"text": "Done"}], [{"text": "{"}, action]]),
                options=options,
            )
            yield Fault(
                f"{title}`output`: killed while the program checks the value: {way}",
                name_of("output_killed", way, "checked", protocol),
                (OPEN, asked(check=HANGS), step("next", until="ContentPart"), step("touch", path="{dir}/go"), *died),
                script(protocol, [[{"text": SAID}, {"end": "finished"}, {"wait_file": "{dir}/go"}, action]]),
                options=options,
            )


HANGS = {"answers": [{"hang": True}, None]}
"""A check whose first call never ends."""


def prose() -> Iterator[Fault]:
    answers = ["It is one.", "As I said, one.", "One!"]
    turns = [[{"text": answer}] for answer in answers]
    invalid = error("output_invalid", "no valid output after 3 attempts")

    def end(*messages: str) -> tuple[Step, ...]:
        errors = [{"pointer": "", "message": message} for message in messages]
        seen = {"attempts": 3, "text": answers[-1], "errors": errors, "result": {"text": answers[-1]}}
        return (step("drain", invalid), step("result", {**invalid, "fields": seen}, fields=True), CLOSE)

    uncalled, missing = "the tool `final_result` was not called", "the answer has no complete JSON value"
    family = "`output`: prose instead of the value"
    yield Fault(family, "output_prose_tool", (OPEN, PROMPT, *end(uncalled, missing)), turns, options=shaped(COUNT))
    for protocol, (title, options) in PROTOCOLS.items():
        yield Fault(f"{title}{family}", f"output_prose_{protocol}", (OPEN, asked(), *end(missing)),
                    script(protocol, turns), options=options)  # fmt: skip


def sizes() -> Iterator[Fault]:
    yield Fault("`output`: a value of 10 MB", "output_large_tool", (OPEN, PROMPT, values(LARGE), CLOSE),
                [[call(LARGE)]], options=shaped(LINES))  # fmt: skip
    for protocol, (title, options) in PROTOCOLS.items():
        yield Fault(
            f"{title}`output`: a value of 10 MB",
            f"output_large_{protocol}",
            (OPEN, asked(LINES), values(LARGE), CLOSE),
            script(protocol, [[{"text": json.dumps(LARGE)}]]),
            options=options,
        )


def schemas() -> Iterator[Fault]:
    tree, deep = nested(20), nested(100)
    yield Fault("`output`: a recursive schema", "output_recursive_tool", (OPEN, PROMPT, values(tree), CLOSE),
                [[call({"name": 1}), call(tree, 2)]], options=shaped(RECURSIVE))  # fmt: skip
    yield Fault("`output`: a recursive schema", "output_recursive_text", (OPEN, asked(RECURSIVE), values(tree), CLOSE),
                [[{"text": json.dumps(tree)}]])  # fmt: skip
    yield Fault("`output`: a value nested too deep", "output_deep", (OPEN, PROMPT, values(tree), CLOSE),
                [[call(json.dumps(deep)), call(tree, 2)]], options=shaped(RECURSIVE))  # fmt: skip
    for name, schema, message in (
        ("endless", {"$ref": "#"}, "refers to itself"),
        ("network", {"$ref": f"{address()}/item.json"}, f'refers to "{address()}/item.json"'),
        ("meta", {"$schema": f"{address()}/schema"}, f'"{address()}/schema" at `/\\$schema`'),
        ("file", {"$ref": "file:///etc/passwd"}, 'refers to "file:///etc/passwd"'),
    ):
        family = "`output`: a schema without an end" if name == "endless" else "`output`: a schema that is elsewhere"
        refused = error("invalid_option", message, option="output")
        yield Fault(family, f"output_{name}_session", (step("open", refused),), [[]], options=shaped(schema))
        yield Fault(family, f"output_{name}_prompt", (OPEN, asked(schema, refused), asked(), values(COUNTED), CLOSE),
                    [[{"text": SAID}]])  # fmt: skip


def nested(levels: int) -> dict[str, Any]:
    tree: dict[str, Any] = {"name": "leaf"}
    for _ in range(levels - 1):
        tree = {"name": "node", "children": [tree]}
    return tree


@functools.cache
def listener() -> socket.socket:
    """A server to which nothing may connect."""
    server = socket.create_server(("127.0.0.1", 0))
    server.setblocking(False)
    return server


def address() -> str:
    return f"http://127.0.0.1:{listener().getsockname()[1]}"


def contacted() -> Iterator[str]:
    """Reports a connection to the address in a schema."""
    try:
        listener().accept()[0].close()
    except BlockingIOError:
        return
    yield "a schema that is elsewhere was fetched"


def hanging() -> Iterator[Fault]:
    """A check of the program that never ends; then the next turn, if the check was one of its turn alone."""
    cancelled = {"status": "cancelled"}
    late, spent = (
        error("timeout", "the prompt's `timeout`"),
        error("budget_exceeded", "seconds were used", option="budget"),
    )
    ways: dict[str, tuple[tuple[Step, ...], dict[str, Any]]] = {
        "cancel()": ((step("cancel"), step("result", cancelled)), {}),
        "close()": ((CLOSE, step("result", cancelled)), {}),
        "`timeout`": ((step("drain", late), step("result", late)), {"timeout": IDLE}),
        "`budget`": ((step("drain", spent), step("result", spent)), {"budget": {"seconds": IDLE}}),
    }
    for way, (steps, limits) in ways.items():
        word, family = way.strip("`()"), f"`output`: the check of the program never ends: {way}"
        calm = word in ("cancel", "close")
        # The check belongs to the session: if the turn ended before it has begun, it would hang the next turn.
        yield Fault(
            family,
            f"output_check_hangs_tool_{word}",
            (OPEN, step("prompt", input="hi", prompt_options=limits), step("next", until="ToolCallRequest"), *steps,
             *(() if word == "close" else (CLOSE,))),
            [[call(COUNTED)]],
            options=shaped(COUNT, check=HANGS),
            calm=calm,
        )  # fmt: skip
        again = (asked(), values(COUNTED), CLOSE)
        for protocol, (title, options) in PROTOCOLS.items():
            yield Fault(
                f"{title}{family}",
                f"output_check_hangs_{protocol}_{word}",
                (OPEN, asked(limits=limits, check=HANGS), step("next", until="ContentPart"), *steps,
                 *(() if word == "close" else again)),
                script(protocol, [[{"text": SAID}], [{"text": SAID}]]),
                options=options,
                calm=calm,
            )  # fmt: skip


def faults() -> Iterator[Fault]:
    """All of them."""
    yield from deaths()
    yield from prose()
    yield from sizes()
    yield from schemas()
    yield from hanging()
