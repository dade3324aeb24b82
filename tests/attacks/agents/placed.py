"""Does what the prompt says, and answers with JSON: `placed.py PIPE [flags of kimi-cli]`.

`look` says where it is. `stay` ignores the end of its input and all signals that can be ignored, and starts a process
that does so, too; both hold PIPE open. `hang` is never answered. `drop` kills the ssh server's process of this
connection.
"""

import json
import os
import signal
import sys
import time

pipe = sys.argv[1]
stays = False


def look():
    return {"cwd": os.getcwd(), "canary": os.environ.get("CANARY"), "home": os.environ.get("HOME"), "uid": os.getuid()}


def stay():
    global stays
    stays = True
    for name in ("SIGTERM", "SIGHUP", "SIGINT", "SIGPIPE"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    os.open(pipe, os.O_WRONLY)
    if not os.fork():
        while True:
            time.sleep(1000)
    return "stays"


def drop():
    pid = os.getppid()
    while pid > 1:
        with open(f"/proc/{pid}/stat") as file:
            name, rest = file.read().split("(", 1)[1].rsplit(")", 1)
        if name.startswith("sshd"):
            os.kill(pid, signal.SIGKILL)
            return "dropped"
        pid = int(rest.split()[1])
    return "there is no ssh server"


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def event(kind, payload):
    say({"method": "event", "params": {"type": kind, "payload": payload}})


for line in sys.stdin:
    call = json.loads(line)
    if call.get("method") == "initialize":
        server = {"name": "placed", "version": "1.0"}
        tools = {"accepted": [], "rejected": []}
        result = {"protocol_version": "1.10", "server": server, "slash_commands": [], "external_tools": tools}
        say({"id": call["id"], "result": result})
    elif call.get("method") == "prompt":
        asked = call["params"]["user_input"]
        asked = asked if isinstance(asked, str) else asked[0]["text"]
        event("TurnBegin", {"user_input": asked})
        event("StepBegin", {"n": 1})
        if asked == "hang":
            continue
        event("ContentPart", {"type": "text", "text": json.dumps({"look": look, "stay": stay, "drop": drop}[asked]())})
        event("TurnEnd", {})
        say({"id": call["id"], "result": {"status": "finished"}})
while stays:
    time.sleep(1000)
