"""Asks for approval under unusual ids and reports the answers: `ids.py REPORT [flags of kimi-cli]`.

The report is a JSON list: for each id as it was sent, the ids (as they came) of the answers to it, with what they said.
"""

import json
import os
import sys

# As they stand in the line. The last two kinds cannot be answered.
IDS = [
    "7", "0", "-1", "1.5", "1e3", "-0.0", "12345678901234567890", "1" + "0" * 300,
    "0.1000000000000000055511151231257827",
    '"7"', '""', '" "', '"a\\u0000b"', '"\\u00fc\\u0301\\ud83d\\ude00"', '"\\u202eevil"',
    '"__proto__"', '"constructor"',
    '"' + "x" * 70_000 + '"', '"{\\"id\\": 7}"', '"\\n{\\"jsonrpc\\": \\"2.0\\"}\\n"', '"prompt"',
    "null", "",
]  # fmt: skip


def hear():
    """The client's next message, with numbers as they are written."""
    line = sys.stdin.buffer.readline()
    return json.loads(line, parse_int=lambda text: f"#{text}", parse_float=lambda text: f"#{text}") if line else None


def number(text):
    """A number as it came; ids of the client's own calls are texts."""
    return text[1:] if isinstance(text, str) and text.startswith("#") else json.dumps(text)


def say(text):
    data = memoryview(text.encode() + b"\n")
    while data:
        data = data[os.write(1, data) :]


def event(kind, payload):
    say(json.dumps({"jsonrpc": "2.0", "method": "event", "params": {"type": kind, "payload": payload}}))


def answer(call, result):
    say(f'{{"jsonrpc": "2.0", "id": {number(call["id"])}, "result": {json.dumps(result)}}}')


call = hear()
server = {"name": "ids", "version": "1.0"}
answer(call, {"protocol_version": "1.10", "server": server, "slash_commands": [],
              "external_tools": {"accepted": [], "rejected": []}})  # fmt: skip
prompt = hear()
event("TurnBegin", {"user_input": "hi"})
event("StepBegin", {"n": 1})
for place, text in enumerate(IDS):
    payload = {
        "id": f"a{place}",
        "tool_call_id": f"c{place}",
        "sender": "Shell",
        "action": f"run {place}",
        "description": "ls",
    }
    ident = f'"id": {text}, ' if text else ""
    params = json.dumps({"type": "ApprovalRequest", "payload": payload})
    say(f'{{"jsonrpc": "2.0", {ident}"method": "request", "params": {params}}}')
answers = []
while len(answers) < len(IDS) - 2:
    message = hear()
    if message is None:
        break
    answers.append(message)
event("TurnEnd", {})
answer(prompt, {"status": "finished"})
# Whatever comes until the end of the session is in the report as well.
while message := hear():
    answers.append(message)
with open(sys.argv[1] + ".part", "w") as report:
    json.dump(
        [IDS, [[number(one.get("id")), one.get("result"), one.get("error"), one.get("method")] for one in answers]],
        report,
    )
os.rename(sys.argv[1] + ".part", sys.argv[1])
