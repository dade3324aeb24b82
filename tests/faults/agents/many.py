"""An agent that speaks ACP. In it turns of several sessions run at once, as they can't in the scripted one; what a
prompt says decides what becomes of it.
"""

import json
import os
import signal
import sys

CHUNK = "x" * (64 << 10)
ABLE = {"sessionCapabilities": {"close": {}}}
# Prompts without an answer, by session.
open_prompts = {}


def say(message):
    data = memoryview(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    while data:
        data = data[os.write(1, data) :]


def text(session, said):
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": said}}
    say({"method": "session/update", "params": {"sessionId": session, "update": update}})


def end(session, reason):
    say({"id": open_prompts.pop(session), "result": {"stopReason": reason}})


def ask(session):
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"},
               {"optionId": "no", "name": "No", "kind": "reject_once"}]  # fmt: skip
    call = {"toolCallId": "t", "title": "Bash"}
    params = {"sessionId": session, "toolCall": call, "options": options}
    say({"id": f"ask {session}", "method": "session/request_permission", "params": params})


def prompted(session, words):
    if words[0] == "hang":
        text(session, "Well.")
    elif words[0] == "ask":
        ask(session)
    elif words[0] == "signal":
        text(session, "Farewell.")
        os.kill(os.getpid(), getattr(signal, f"SIG{words[1]}"))
    elif words[0] == "exit":
        text(session, "Farewell.")
        sys.exit(int(words[1]))
    elif words[0] == "line":
        text(session, "x" * int(words[1]))
    elif words[0] == "close":
        os.close(1)
        while True:
            signal.pause()
    elif words[0] == "turn":
        text(session, f"Hello, turn {words[1]}!")
        end(session, "end_turn")
    else:
        # So many texts of 64 KiB, and then its name.
        for _ in range(int(words[1]) if words[0] == "pour" else 0):
            text(session, CHUNK)
        text(session, f"I am {session}.")
        end(session, "end_turn")


count = 0
for line in sys.stdin.buffer:
    message = json.loads(line)
    method, number, params = message.get("method"), message.get("id"), message.get("params", {})
    session = params.get("sessionId")
    if method == "initialize":
        say({"id": number, "result": {"protocolVersion": 1, "agentCapabilities": ABLE}})
    elif method == "session/new":
        count += 1
        say({"id": number, "result": {"sessionId": f"session-{count}"}})
    elif method == "session/prompt":
        open_prompts[session] = number
        prompted(session, params["prompt"][0]["text"].split())
    elif method == "session/cancel":
        if session in open_prompts:
            end(session, "cancelled")
    elif method is None:
        session = number.removeprefix("ask ")
        if session in open_prompts:
            text(session, message["result"]["outcome"].get("optionId", "nothing"))
            end(session, "end_turn")
    else:
        say({"id": number, "result": {}})
