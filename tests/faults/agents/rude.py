"""An agent for what the scripted one can't do, as it reads on a thread of its own: `rude.py MODE [flags of kimi-cli]`.

Without the site module it starts in some ten milliseconds.
"""

import json
import os
import signal
import sys
import time


def hear():
    """The client's next message."""
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def say(message):
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def event(kind, payload):
    say({"method": "event", "params": {"type": kind, "payload": payload}})


def welcome():
    call = hear()
    server = {"name": "rude", "version": "1.0"}
    accepted = [tool["name"] for tool in call["params"].get("external_tools", [])]
    tools = {"accepted": accepted, "rejected": []}
    say({"id": call["id"], "result": {"protocol_version": "1.10", "server": server, "slash_commands": [],
                                      "external_tools": tools}})  # fmt: skip


def begin():
    """Takes a prompt, and begins its turn."""
    call = hear()
    event("TurnBegin", {"user_input": "hi"})
    event("StepBegin", {"n": 1})
    return call["id"]


def stay():
    """Neither reads nor writes; ends by a signal."""
    while True:
        signal.pause()


def end(prompt):
    event("TurnEnd", {})
    say({"id": prompt, "result": {"status": "finished"}})


def closes_stdin_at_once():
    os.close(0)
    stay()


def closes_stdin_in_turn():
    welcome()
    begin()
    os.close(0)
    # It reports that the pipe is closed now.
    event("ContentPart", {"type": "text", "text": "closed"})
    stay()


def closes_stdin_between_turns():
    welcome()
    prompt = begin()
    os.close(0)
    end(prompt)
    stay()


def closes_stdout_at_once():
    os.close(1)
    stay()


def closes_stdout_between_turns():
    welcome()
    end(begin())
    os.close(1)
    stay()


def reads_nothing():
    stay()


def reads_no_prompt():
    welcome()
    stay()


def reads_no_answer():
    """Calls the program's tool, and does not want to know what it gives."""
    welcome()
    begin()
    call = {"id": "c1", "name": "big", "arguments": "{}"}
    say({"id": "r1", "method": "request", "params": {"type": "ToolCallRequest", "payload": call}})
    stay()


def writes_byte_by_byte():
    global say

    def say(message):
        for byte in json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n":
            os.write(1, bytes([byte]))

    welcome()
    prompt = begin()
    event("ContentPart", {"type": "text", "text": "wörd by wörd"})
    end(prompt)
    hear()


def leaves_a_child(own_session):
    """Exits in mid-turn; its child still has the pipes, and stays until the file `go` is there or its folder is not."""
    welcome()
    begin()
    read, write = os.pipe()
    if os.fork() == 0:
        if own_session:
            os.setsid()
        os.close(write)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while os.path.exists(".") and not os.path.exists("go") and os.getppid() != 0:
            time.sleep(0.05)
        os._exit(0)
    os.close(read)
    os._exit(3)


def leaves_a_child_in_its_group():
    leaves_a_child(False)


def leaves_a_child_in_another_session():
    leaves_a_child(True)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
