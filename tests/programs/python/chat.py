"""A chat in a terminal: Ctrl-C stops the answer, Ctrl-D ends the program."""

import asyncio
import json
import re
import signal
import sys

import kimi_agent

# Letters and marks that look like nothing.
BLANKS = "\u034f\u115f\u1160\u2800\u3164\uffa0"


def shown(value: object) -> str:
    """Returns a value in one line, in which no blanks and no characters without a glyph hide anything."""
    text = json.dumps(value, ensure_ascii=False)
    text = "".join(f"\\u{ord(c):04x}" if not c.isprintable() or c in BLANKS else c for c in text)
    return re.sub(" {17,}", lambda run: f"[{len(run[0])} blanks]", text)


async def ask(session: kimi_agent.Session, question: str) -> None:
    async for event in session.prompt(question):
        match event:
            case kimi_agent.TextPart(text=text):
                print(kimi_agent.printable(text), end="", flush=True)
            case kimi_agent.ToolCall(function=function):
                print(f"\n[{kimi_agent.printable(function.name)}]", flush=True)
            case _:
                pass
    print()


def approve(request: kimi_agent.ApprovalRequest) -> kimi_agent.Approval:
    call = request.tool_call
    # The description is the agent's. The arguments are what it does.
    arguments = call.arguments if call and call.arguments is not None else "unknown arguments"
    answer = input(f"{shown(request.description)}: {shown(arguments)}? ")
    return "approve" if answer == "y" else "reject"


async def main() -> None:
    async with kimi_agent.create_session(work_dir=sys.argv[1], on_approval=approve) as session:
        while True:
            try:
                question = await asyncio.to_thread(input, "> ")
            except EOFError:
                break
            answer = asyncio.create_task(ask(session, question))
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGINT, answer.cancel)
            try:
                await answer
            except asyncio.CancelledError:
                print("\n(stopped)")
            finally:
                loop.remove_signal_handler(signal.SIGINT)


asyncio.run(main())
