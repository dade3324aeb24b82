"""Tries to leave its sandbox, and says what came of it: `sandboxed.py OUTSIDE SECRET PORT PIPE [flags of kimi-cli]`.

The answer to the prompt is a JSON object. A process that is to outlive the session holds PIPE open.
"""

import json
import os
import signal
import socket
import sys
import time

outside, secret, port, pipe = sys.argv[1:5]


def tried(attempt):
    """What came of an attempt: its result, or the name of the error."""
    try:
        return attempt()
    except OSError as error:
        return type(error).__name__


def write(path):
    with open(path, "w") as file:
        file.write("x")
    return "written"


def read(path):
    with open(path) as file:
        return file.read()


def open_setting():
    """Opens a setting of the kernel that names a program, which would run outside. Nothing is written."""
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
    return "opened"


def connect():
    with socket.create_connection(("127.0.0.1", int(port)), timeout=5):
        return "connected"


def link():
    os.symlink(outside, "link")
    return write("link/file")


def mounts():
    """Whether it may take the sandbox's own mounts away."""
    return "unmounted" if os.system(f"umount '{os.path.dirname(secret)}' 2>/dev/null") == 0 else "refused"


def outlive():
    held = os.open(pipe, os.O_WRONLY)
    if os.fork():
        os.close(held)
        return "started"
    os.setsid()
    if os.fork():
        os._exit(0)
    for name in ("SIGTERM", "SIGHUP", "SIGINT"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    while True:
        time.sleep(1000)


def report():
    return {
        "project": tried(lambda: write("allowed")),
        "temporary": tried(lambda: write("/tmp/allowed")),
        "outside": tried(lambda: write(os.path.join(outside, "file"))),
        "home": tried(lambda: write(os.path.expanduser("~/.bashrc-of-test"))),
        "by_link": tried(link),
        "system": tried(lambda: write("/usr/file")),
        "kernel": tried(open_setting),
        "docker": "seen" if os.path.exists("/run/docker.sock") or os.path.exists("/var/run/docker.sock") else "gone",
        "secret": tried(lambda: read(secret)),
        "umount": mounts(),
        "secret_again": tried(lambda: read(secret)),
        "network": tried(connect),
        "host_processes": "seen" if len([name for name in os.listdir("/proc") if name.isdigit()]) > 20 else "gone",
        "terminal": tried(lambda: write("/dev/tty")),
        "outlive": tried(outlive),
    }


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def event(kind, payload):
    say({"method": "event", "params": {"type": kind, "payload": payload}})


def main():
    for line in sys.stdin:
        call = json.loads(line)
        if call.get("method") == "initialize":
            server = {"name": "sandboxed", "version": "1.0"}
            tools = {"accepted": [], "rejected": []}
            result = {"protocol_version": "1.10", "server": server, "slash_commands": [], "external_tools": tools}
            say({"id": call["id"], "result": result})
        elif call.get("method") == "prompt":
            event("TurnBegin", {"user_input": "hi"})
            event("StepBegin", {"n": 1})
            event("ContentPart", {"type": "text", "text": json.dumps(report())})
            event("TurnEnd", {})
            say({"id": call["id"], "result": {"status": "finished"}})


main()
