"""Lines that agents may write, and their expected effect."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

from .ends import SHORT
from .fault import CLOSE, DRAIN, FINISHED, OPEN, PROMPT, RESULT, Fault, Step, error, step

DEEP = 100_000
MB = 1_000_000
MIB = 1024 * 1024

Raw = dict[str, Any]


def line(text: str) -> Raw:
    return {"raw": text}


def data(content: bytes) -> Raw:
    return {"raw_base64": base64.b64encode(content).decode()}


def event(payload: str, kind: str = "Odd") -> str:
    return f'{{"jsonrpc":"2.0","method":"event","params":{{"type":"{kind}","payload":{payload}}}}}'


def seen(payload: Any, kind: str = "Odd") -> dict[str, Any]:
    return {"event": {"type": kind, "payload": payload}}


TEXT = seen({"type": "text", "text": "b"}, "ContentPart")

# Lines that are not messages: they are dropped, before the handshake and in a turn, except notifications, which are
# delivered in a turn.
NOISE: dict[str, list[tuple[str, Raw]]] = {
    "noise on stdout": [
        ("text", line("Loading 50% ...")),
        ("escapes", data(b"\x1b[2J\x1b[1m*\x07\r\n")),
        ("zeros", data(b"\0" * 100 + b"\n")),
        ("empty", data(b"\n\n \t \n")),
        ("megabytes", {"raw": {"repeat": "noise ", "times": 10 * MB // 6}}),
    ],
    "JSON that is not a message": [
        ("empty_batch", line("[]")),
        ("null", line("null")),
        ("number", line("-0")),
        ("huge_number", line("1e999")),
        ("text", line('"text"')),
        ("true", line("true")),
        ("empty_object", line("{}")),
        ("half", line('{"jsonrpc":"2.0","method":"event"')),
        ("duplicate_method", line('{"method":"event","method":"request","id":"1","params":{}}')),
        ("notification", line('{"jsonrpc":"2.0","method":"unheard_of","params":{}}')),
        ("method_of_number", line('{"jsonrpc":"2.0","method":7,"id":"1"}')),
    ],
    "100,000 brackets": [
        ("brackets", {"raw": {"repeat": "[", "times": DEEP}}),
        ("closed", {"raw": {"before": "[" * 10, "repeat": "[]", "times": DEEP}}),
        ("objects", {"raw": {"repeat": '{"a":', "times": DEEP}}),
        ("in_params", {"raw": {"before": '{"jsonrpc":"2.0","method":"event","params":', "repeat": "[", "times": DEEP}}),
    ],
    "invalid UTF-8": [
        ("lone_byte", data(b'{"jsonrpc":"2.0","method":"event\xff"}\n')),
        ("in_payload", data(event('"caf\\"é"').encode("latin-1") + b"\n")),
        ("cut_sequence", data(event('"x"').replace("x", "\xe2\x82").encode("latin-1") + b"\n")),
        ("surrogate", data(b'{"method":"\xed\xa0\x80"}\n')),
        ("utf_16", data(event("{}").encode("utf-16") + b"\n")),
    ],
}

NOTIFICATIONS = {"duplicate_method", "notification", "lone_byte", "in_payload", "cut_sequence", "surrogate"}
"""Their names in `NOISE`."""

# Lines that are events all the same: they are delivered.
EVENTS: dict[str, list[tuple[str, Raw, dict[str, Any]]]] = {
    "unexpected JSON in an event": [
        ("duplicate_key", line(event('{"a":1,"a":2}')), seen({"a": 2})),
        ("negative_zero", line(event('{"a":-0,"b":-0.0}')), seen({})),
        ("null_payload", line(event("null")), seen(None)),
        ("list_payload", line(event("[1,2]")), seen([1, 2])),
        ("escaped_key", line(event('{"\\u0061":1}')), seen({"a": 1})),
        ("zero_character", line(event('"\\u0000"')), seen("\0")),
        ("separators", line(event('"\u2028\u2029\u0085"')), seen("\u2028\u2029\x85")),
        ("bom", line("\ufeff" + event("{}")), seen({})),
        ("crlf", data(event("{}").encode() + b"\r\n"), seen({})),
        ("spaces", line("  " + event("{}") + "  "), seen({})),
        ("wrong_shape", line(event('{"type":"text"}', "ContentPart")), seen({"type": "text"}, "ContentPart")),
        ("unknown_version", line(event("{}").replace("2.0", "3.0")), seen({})),
        ("without_type", line('{"jsonrpc":"2.0","method":"event","params":{}}'), seen({}, "event")),
        (
            "type_of_number",
            line('{"jsonrpc":"2.0","method":"event","params":{"type":7,"payload":{}}}'),
            seen({"type": 7}, "event"),
        ),
        ("without_params", line('{"jsonrpc":"2.0","method":"event"}'), seen(None, "event")),
    ],
}

# A value below the 100th level is a text.
EVENTS["100,000 brackets in an event"] = [
    (
        "payload",
        {"raw": {"before": event("")[:-2], "repeat": "[", "times": DEEP, "after": "]" * DEEP + "}}"}},
        {"event": {"type": "Odd"}},
    ),
    (
        "field",
        {
            "raw": {
                "before": event('{"type":"text","text":"x","more":', "ContentPart")[:-2],
                "repeat": "[",
                "times": DEEP,
                "after": "]" * DEEP + "}}}",
            }
        },
        {"event": {"type": "ContentPart"}},
    ),
    (
        "subagents",
        {
            "raw": {
                "before": event("", "SubagentEvent")[:-2],
                "repeat": '{"event":{"type":"SubagentEvent","payload":',
                "times": DEEP // 2,
                "after": "{}" + "}}" * (DEEP // 2) + "}}",
            }
        },
        {"event": {"type": "SubagentEvent"}},
    ),
]

# Where the languages have no number or no character for it, only that an event comes is the same.
LOOSE: dict[str, list[tuple[str, Raw]]] = {
    "huge numbers in an event": [
        ("1e999", line(event('{"a":1e999}'))),
        ("400_digits", {"raw": {"before": event('{"a":1')[:-2], "repeat": "0", "times": 400, "after": "}}}"}}),
        ("100000_digits", {"raw": {"before": event('{"a":1')[:-2], "repeat": "0", "times": 100_000, "after": "}}}"}}),
        ("as_usage", line(event('{"token_usage":{"output":1e999}}', "StatusUpdate"))),
        ("as_count", line(event('{"n":99999999999999999999}', "StepBegin"))),
    ],
    "lone surrogates in an event": [
        ("in_text", line(event('{"type":"text","text":"\\ud800"}', "ContentPart"))),
        ("in_unknown", line(event('{"a":"\\ud800"}'))),
        ("in_key", line(event('{"\\udc00":1}'))),
    ],
}  # fmt: skip


def noise() -> Iterator[Fault]:
    for family, lines in NOISE.items():
        for name, raw in lines:
            slug = f"{family}_{name}".replace(" ", "_").replace(",", "")
            yield Fault(
                f"{family}: in a turn",
                f"{slug}_in_turn",
                (OPEN, PROMPT, DRAIN, step("result", {**FINISHED, "text": "ab"}), CLOSE),
                [[{"text": "a"}, raw, {"text": "b"}]],
                total=6 if name in NOTIFICATIONS else 5,
            )
            yield Fault(
                f"{family}: before the handshake",
                f"{slug}_early",
                (OPEN, PROMPT, RESULT, CLOSE),
                {"before_handshake": [raw], "turns": [[{"text": "b"}]]},
            )


def events() -> Iterator[Fault]:
    turn = (OPEN, PROMPT, DRAIN, RESULT, CLOSE)
    for family, exact in EVENTS.items():
        for name, raw, pattern in exact:
            slug = f"{family}_{name}".replace(" ", "_").replace(",", "")
            yield Fault(family, slug, turn, [[raw, {"text": "b"}]], events=(pattern, TEXT), total=5)
    for family, loose in LOOSE.items():
        for name, raw in loose:
            slug = f"{family}_{name}".replace(" ", "_").replace(",", "")
            yield Fault(family, slug, turn, [[raw, {"text": "b"}]], events=(TEXT,), total=5, calm=False)


def answer(call: str, result: str = '{"status":"finished"}') -> Raw:
    return line(f'{{"jsonrpc":"2.0","id":{call},"result":{result}}}')


MINE = '"{{id.prompt}}"'


def ids() -> Iterator[Fault]:
    """Answers without a call, in a turn that must end as it does without them."""
    family = "answers to no call, or to another"
    for name, raw in (
        ("unknown", answer('"nobody"')),
        ("numeric", answer("2")),
        ("zero", answer("0")),
        ("null", answer("null")),
        ("missing", line('{"jsonrpc":"2.0","result":{"status":"finished"}}')),
        ("list", answer("[]")),
        ("boolean", answer("true")),
        ("object", answer(f'{{"id":{MINE}}}')),
        ("other_case", answer('"PROMPT-2"')),
        ("handshake_again", answer('"initialize-1"')),
        ("error_without_id", line('{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}')),
    ):
        yield Fault(
            family,
            f"answer_{name}",
            (OPEN, PROMPT, DRAIN, step("result", {**FINISHED, "text": "b"}), CLOSE),
            [[raw, {"text": "b"}]],
            total=4,
        )
    yield Fault(
        family,
        "answer_to_a_finished_turn",
        (OPEN, PROMPT, step("result", {**FINISHED, "text": "prompt-2"}), PROMPT, DRAIN,
         step("result", {**FINISHED, "text": "b"}), CLOSE),
        [[{"text": "{{id.prompt}}"}], [answer('"prompt-2"'), {"text": "b"}]],
        total=4,
    )  # fmt: skip
    yield Fault(
        family,
        "answered_twice",
        (OPEN, PROMPT, DRAIN, step("result", {**FINISHED, "text": "b"}), PROMPT, DRAIN,
         step("result", {**FINISHED, "text": "c"}), CLOSE),
        [[{"text": "b"}, {"end": "finished"}, answer(MINE)], [{"text": "c"}]],
    )  # fmt: skip
    both = f'{{"id":{MINE},"result":{{"status":"finished"}},"error":{{"code":-32003,"message":"down"}}}}'
    down = error("llm_service_error", "^down", rpc_code=-32003)
    yield Fault(
        "an answer with both result and error",
        "answer_both",
        (OPEN, PROMPT, step("drain", down), step("result", down), CLOSE),
        [[{"never_answer": True}, line(both)]],
    )
    refused = error("rpc_error", "^no$")
    yield Fault(
        "an answer whose error is a text",
        "answer_error_of_text",
        (OPEN, PROMPT, step("drain", refused), step("result", refused), CLOSE),
        [[{"never_answer": True}, line(f'{{"jsonrpc":"2.0","id":{MINE},"error":"no"}}')]],
    )
    yield Fault(
        "an answer with an unknown status",
        "answer_of_unknown_status",
        (OPEN, PROMPT, DRAIN, RESULT, PROMPT, RESULT, CLOSE),
        [[{"never_answer": True}, answer(MINE, '{"status":"tired"}')], [{"text": "b"}]],
    )
    unread = error("protocol_error", "answer to `prompt` can't be read")
    for name, raw, outcome in (
        ("number", answer(MINE, "7"), (step("drain", unread), step("result", unread))),
        ("null", answer(MINE, "null"), (DRAIN, RESULT)),
        ("list", answer(MINE, "[]"), (step("drain", unread), step("result", unread))),
        ("nothing", line(f'{{"jsonrpc":"2.0","id":{MINE}}}'), (DRAIN, RESULT)),
        ("null_error", line(f'{{"jsonrpc":"2.0","id":{MINE},"error":null}}'), (DRAIN, RESULT)),
    ):
        yield Fault(
            "an answer of another form",
            f"answer_of_{name}",
            (OPEN, PROMPT, *outcome, PROMPT, RESULT, CLOSE),
            [[{"never_answer": True}, raw], [{"text": "b"}]],
        )
    yield from orders()


def orders() -> Iterator[Fault]:
    """A steer and a prompt that wait at once."""
    waiting = (OPEN, PROMPT, step("next", count=3), step("spawn_result"))
    steered = answer('"{{id.steer}}"', '{"status":"steered"}')
    cases: dict[str, tuple[list[Raw], tuple[Step, ...]]] = {
        "out_of_order": ([answer(MINE), steered], (step("steer", input="x"), step("join", FINISHED), CLOSE)),
        "in_order": ([steered, answer(MINE)], (step("steer", input="x"), step("join", FINISHED), CLOSE)),
        "twice": ([steered, steered, answer(MINE), answer(MINE)],
                  (step("steer", input="x"), step("join", FINISHED), CLOSE)),
        "swapped": ([answer(MINE, '{"status":"steered"}'), answer('"{{id.steer}}"')],
                    (step("steer", input="x"), step("join", FINISHED), CLOSE)),
    }  # fmt: skip
    for name, (actions, steps) in cases.items():
        yield Fault(
            "answers out of order, twice, or swapped",
            f"answers_{name}",
            (*waiting, *steps),
            {
                "turns": [[{"text": "a"}, {"wait_cancel": True}]],
                "deaf_to": ["steer"],
                "cut": {"call": "steer", "actions": actions},
            },
        )


def requests() -> Iterator[Fault]:
    """Requests with unusual ids: one is answered under the very id that it has."""
    payload = '{"id":"a1","tool_call_id":"c1","sender":"Shell","action":"run","description":"ls"}'
    for name, rpc_id in (("numeric", "7"), ("text", '"7"'), ("large", "12345678901234567890"), ("float", "1.5"),
                         ("empty", '""'), ("list", "[1]"), ("null", "null"), ("missing", None)):  # fmt: skip
        ident = f'"id":{rpc_id},' if rpc_id else ""
        params = f'{{"type":"ApprovalRequest","payload":{payload}}}'
        request = f'{{"jsonrpc":"2.0",{ident}"method":"request","params":{params}}}'
        # A request without an id cannot be answered: it is an event.
        yield Fault(
            "requests with unusual ids",
            f"request_{name}",
            (OPEN, PROMPT, DRAIN, RESULT, CLOSE),
            [[line(request), {"text": "b"}]],
            options={"on_approval": {"answers": ["approve"]}},
            events=(TEXT,),
            total=5,
        )
    twice = {"request": {"type": "ApprovalRequest", "payload": json.loads(payload)}, "wait": False}
    yield Fault(
        "requests with unusual ids",
        "request_repeated",
        (OPEN, PROMPT, DRAIN, RESULT, CLOSE),
        [[{**twice, "id": "a1"}, {**twice, "id": "a1"}, {"text": "b"}]],
        options={"on_approval": {"answers": ["approve"]}},
        events=(TEXT,),
    )


def sizes() -> Iterator[Fault]:
    limit = 64 * 1024
    frame = len(event('{"a":""}'))
    for name, length in (("under", limit - 1), ("at", limit)):
        raw = {"raw": {"before": event('{"a":"')[:-2], "repeat": "x", "times": length - frame, "after": '"}}}'}}
        yield Fault(
            "a line just within `max_line_bytes`",
            f"line_{name}_the_limit",
            (OPEN, PROMPT, DRAIN, RESULT, CLOSE),
            [[raw, {"text": "b"}]],
            options={"max_line_bytes": limit},
            total=5,
            events=({"event": {"type": "Odd"}}, TEXT),
        )
    over = error("protocol_error", f"{limit + 1} bytes or more; `max_line_bytes` is {limit}")
    for name, raw in (
        ("line", {"raw": {"before": event('{"a":"')[:-2], "repeat": "x", "times": limit + 1 - frame, "after": '"}}}'}}),
        ("noise", {"raw": {"repeat": "x", "times": limit + 1}}),
    ):
        yield Fault(
            "a line one byte over `max_line_bytes`",
            f"{name}_over_the_limit",
            (OPEN, PROMPT, step("drain", over), step("result", over), step("prompt", over, input="hi"), CLOSE),
            [[raw, {"text": "b"}, {"wait_cancel": True}]],
            options={"max_line_bytes": limit},
        )
    huge = error("protocol_error", "`max_line_bytes` is 1048576")
    yield Fault(
        "a line of 50 MiB, above `max_line_bytes`",
        "line_of_50_mib_over",
        (OPEN, PROMPT, step("drain", huge), step("result", huge), CLOSE),
        [[{"raw": {"repeat": "x", "times": 50 * MIB}}, {"wait_cancel": True}]],
        options={"max_line_bytes": MIB},
    )
    yield Fault(
        "a line of 50 MiB, allowed",
        "line_of_50_mib",
        (OPEN, PROMPT, RESULT, CLOSE),
        [[{"raw": {"before": event('{"a":"')[:-2], "repeat": "x", "times": 50 * MIB, "after": '"}}}'}}, {"text": "b"}]],
    )
    loud = {"repeat": {"times": 1000, "actions": [{"stderr": "e" * 9_999}]}}
    turn = (OPEN, PROMPT, DRAIN, RESULT, CLOSE)
    family = "10 MB of stderr that nobody reads"
    yield Fault(family, "stderr_early", turn, {"before_handshake": [loud], "turns": [[{"text": "b"}]]})
    yield Fault(family, "stderr_in_turn", turn, [[loud, {"text": "b"}]], events=(TEXT,))
    died = error("agent_exited", "code 3; the end of its stderr:.*e{100}$", exit_code=3)
    yield Fault(family, "stderr_then_death", (OPEN, PROMPT, step("drain", died), step("result", died), CLOSE),
                [[loud, {"exit": 3}]], options=SHORT)  # fmt: skip


def faults() -> Iterator[Fault]:
    yield from noise()
    yield from events()
    yield from ids()
    yield from requests()
    yield from sizes()
