"""Speaks Wire for one prompt and does one thing more: `own.py THING ARGUMENT [flags of kimi-cli]`."""

import json
import os
import signal
import sys
import time

THING, ARGUMENT = sys.argv[1:3]


def hear():
    line = sys.stdin.buffer.readline()
    if not line:
        os._exit(0)
    return json.loads(line)


def say(message):
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def event(kind, payload):
    say({"method": "event", "params": {"type": kind, "payload": payload}})


def private_folder():
    """The place of the inline configuration."""
    config = next(one.split("=", 1)[1] for one in sys.argv if one.startswith("--config-file="))
    return os.path.dirname(config)


def deep():
    """Nests folders in the private folder."""
    os.chdir(private_folder())
    for _ in range(int(ARGUMENT)):
        os.mkdir("d")
        os.chdir("d")


def link():
    """Puts a link to another folder, with files of the same names, in the place of the private folder."""
    folder = private_folder()
    for name in os.listdir(folder):
        with open(os.path.join(ARGUMENT, name), "w") as file:
            file.write("precious")
    os.rename(folder, folder + "-away")
    os.symlink(ARGUMENT, folder)


def flood():
    """Dies, and leaves a process outside of its group that writes to a stream as fast as it can."""
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        kind, stream = ARGUMENT.split()
        part = {"type": "ContentPart", "payload": {"type": "text", "text": "x"}}
        line = {"events": json.dumps({"jsonrpc": "2.0", "method": "event", "params": part}), "noise": "x"}[kind]
        block = f"{line}\n".encode() * 100
        until = time.monotonic() + 60
        while time.monotonic() < until:
            os.write(int(stream), block)
        os._exit(0)
    os._exit(3)


def mask():
    """Says which signals are blocked here."""
    with open("/proc/self/status") as status:
        blocked = next(row.split()[1] for row in status if row.startswith("SigBlk"))
    event("ContentPart", {"type": "text", "text": f"{int(blocked, 16):x}"})


call = hear()
result = {
    "protocol_version": "1.10",
    "server": {"name": "own", "version": "1.0"},
    "slash_commands": [],
    "external_tools": {"accepted": [], "rejected": []},
}
say({"id": call["id"], "result": result})
prompt = hear()
event("TurnBegin", {"user_input": "hi"})
event("StepBegin", {"n": 1})
globals()[THING]()
event("TurnEnd", {})
say({"id": prompt["id"], "result": {"status": "finished"}})
while True:
    hear()
