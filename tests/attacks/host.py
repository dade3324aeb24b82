#!/usr/bin/env python3
"""A program that uses the SDK as its input says: operations arrive as JSON lines on stdin, answers are JSON lines, too.

host.py --api async
host.py --api sync
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import kimi_agent
import kimi_agent.sync

Answer = dict[str, Any]


def report(error: Exception) -> Answer:
    code = error.code if isinstance(error, kimi_agent.KimiAgentError) else type(error).__name__
    return {"error": code, "message": str(error), **{key: getattr(error, key, None) for key in ("exit_code", "signal")}}


def options_of(op: Answer) -> Answer:
    """Returns the options of a session. `terminals` is the folder in which the agent may run commands."""
    handlers = {"on_terminal": kimi_agent.terminals(op["terminals"])} if "terminals" in op else {}
    return {**op["options"], **handlers}


def system(op: Answer) -> Answer | None:
    """Does what concerns the process and not the SDK."""
    if op["op"] == "default_action":
        signal.signal(getattr(signal, op["signal"]), signal.SIG_DFL)
    elif op["op"] == "ignore":
        signal.signal(getattr(signal, op["signal"]), signal.SIG_IGN)
    elif op["op"] == "become":
        # The former user can be taken back.
        os.setresuid(op["uid"], op["uid"], 0)
    elif op["op"] == "execv":
        os.execv(op["argv"][0], op["argv"])
    elif op["op"] == "log":
        logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(message)s")
    else:
        return None
    return {}


async def play_async(op: Answer, kept: Answer) -> Answer:
    if op["op"] == "open":
        kept["session"] = await kimi_agent.create_session(**options_of(op))
        return {"pid": kept["session"].pid}
    if op["op"] == "prompt":
        result = await kept["session"].prompt(op["input"]).result()
        return {"status": result.status, "text": result.text}
    if op["op"] == "close":
        await kept["session"].close()
        return {}
    del kept["session"]
    return {}


def play_sync(op: Answer, kept: Answer) -> Answer:
    if op["op"] == "open":
        kept["session"] = kimi_agent.sync.create_session(**options_of(op))
        return {"pid": kept["session"].pid}
    if op["op"] == "prompt":
        result = kept["session"].prompt(op["input"]).result()
        return {"status": result.status, "text": result.text}
    if op["op"] == "close":
        kept["session"].close()
        return {}
    del kept["session"]
    return {}


def say(answer: Answer) -> None:
    print(json.dumps(answer), flush=True)


async def main_async() -> None:
    kept: Answer = {}
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    say({})
    while line := await reader.readline():
        op = json.loads(line)
        try:
            done = system(op)
            say(await play_async(op, kept) if done is None else done)
        except Exception as error:
            say(report(error))


def main_sync() -> None:
    kept: Answer = {}
    say({})
    for line in sys.stdin:
        op = json.loads(line)
        try:
            done = system(op)
            say(play_sync(op, kept) if done is None else done)
        except Exception as error:
            say(report(error))


if __name__ == "__main__":
    main: Callable[[], None] = main_sync if sys.argv[2] == "sync" else lambda: asyncio.run(main_async())
    main()
