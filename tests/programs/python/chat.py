"""A chat in a terminal: Ctrl-C stops the answer, Ctrl-D ends the program."""

import asyncio
import signal
import sys

import kimi_agent


async def ask(session: kimi_agent.Session, question: str) -> None:
    async for event in session.prompt(question):
        match event:
            case kimi_agent.TextPart(text=text):
                print(text, end="", flush=True)
            case kimi_agent.ToolCall(function=function):
                print(f"\n[{function.name}]", flush=True)
    print()


def approve(request: kimi_agent.ApprovalRequest) -> kimi_agent.Approval:
    return "approve" if input(f"{kimi_agent.printable(request.description)}? ") == "y" else "reject"


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
