"""A chat in a terminal: Ctrl-C stops the answer, Ctrl-D ends the program."""

import asyncio
import json
import re
import signal
import sys
import termios
import threading
import time

import kimi_agent

# Letters and marks that look like nothing.
BLANKS = "\u034f\u115f\u1160\u2800\u3164\uffa0"
# While a question waits, nothing else is printed or asked.
terminal = threading.Lock()
# How many seconds a person reads before the question can be answered. A key that was on its way answers nothing.
READING_TIME = 1.0


def shown(value: object) -> str:
    """Returns a value in one line, in which no blanks and no characters without a glyph hide anything."""
    text = json.dumps(value, ensure_ascii=False)
    text = "".join(f"\\u{ord(c):04x}" if not c.isprintable() or c in BLANKS else c for c in text)
    return re.sub(" {17,}", lambda run: f"[{len(run[0])} blanks]", text)


async def show(text: str) -> None:
    while not terminal.acquire(blocking=False):
        await asyncio.sleep(0.05)
    try:
        print(kimi_agent.printable(text), end="", flush=True)
    finally:
        terminal.release()


def question(text: str = "> ") -> str:
    with terminal:
        return input(text)


async def ask(session: kimi_agent.Session, prompt: str) -> None:
    async for event in session.prompt(prompt):
        match event:
            case kimi_agent.TextPart(text=text):
                await show(text)
            case kimi_agent.ToolCall(function=function):
                await show(f"\n[{function.name}]\n")
            case _:
                pass
    print()


def approve(request: kimi_agent.ApprovalRequest) -> kimi_agent.Approval:
    call = request.tool_call
    # The description is the agent's. The arguments are what it does.
    arguments = call.arguments if call and call.arguments is not None else "unknown arguments"
    paths = [*(call.locations or ()), *(call.diffs or ())] if call else []
    with terminal:
        # The agent's text cannot be in reverse video, because `printable` replaces the control characters.
        print(
            f"\n\x1b[7m{shown(request.description)}: {shown(arguments)}{f' on {shown(paths)}' if paths else ''}\x1b[0m"
        )
        time.sleep(READING_TIME)
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
        return "approve" if input("\x1b[7mApprove? [y/N]\x1b[0m ") == "y" else "reject"


async def main() -> None:
    async with kimi_agent.create_session(work_dir=sys.argv[1], on_approval=approve) as session:
        while True:
            try:
                prompt = await asyncio.to_thread(question)
            except EOFError:
                break
            answer = asyncio.create_task(ask(session, prompt))
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGINT, answer.cancel)
            try:
                await answer
            except asyncio.CancelledError:
                print("\n(stopped)")
            finally:
                loop.remove_signal_handler(signal.SIGINT)


asyncio.run(main())
