"""Claude Code, watched and steered: watch.py PROMPT. A line that you type steers it; `stop ID` stops a subagent."""

import asyncio
import sys

import kimi_agent
from kimi_agent import Event, SubagentEvent, TextPart, ToolCall, TurnBegin, TurnEnd, printable


class Screen:
    """Prints events. What a subagent does is indented below the agent that started it."""

    def __init__(self) -> None:
        self.speaker: str | None = None

    def end_line(self) -> None:
        if self.speaker is not None:
            print()
        self.speaker = None

    def line(self, text: str) -> None:
        self.end_line()
        print(text, flush=True)

    def show(self, event: Event, indent: str = "", agent: str = "") -> None:
        match event:
            case TextPart(text=text):
                if self.speaker != agent:
                    self.end_line()
                    print(indent, end="")
                self.speaker = agent
                print(printable(text).replace("\n", f"\n{indent}"), end="", flush=True)
            case ToolCall(function=function):
                self.line(f"{indent}[{printable(function.name)}]")
            case SubagentEvent(event=TurnBegin(), session_id=session, title=title):
                self.line(f"{indent}> {printable(title or 'a subagent')} ({printable(session or 'not to be stopped')})")
            case SubagentEvent(event=TurnEnd(), title=title, state=state):
                self.line(f"{indent}< {printable(title or 'a subagent')}: {printable(state or 'ended')}")
            case SubagentEvent(event=inner, agent_id=inner_agent):
                self.show(inner, f"{indent}    ", inner_agent or agent)
            case _:
                pass


async def typed(turn: kimi_agent.Turn, screen: Screen) -> None:
    """Passes the lines of the keyboard to the turn."""
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async for line in lines:
        text = line.decode("utf-8", "replace").strip()
        try:
            if text.startswith("stop "):
                await turn.cancel_subagent(text.removeprefix("stop "))
            elif text:
                await turn.steer(text)
        except kimi_agent.KimiAgentError as error:
            screen.line(f"{error.code}: {error}")


async def main(prompt: str) -> int:
    screen = Screen()
    try:
        async with kimi_agent.create_session(
            work_dir=".", executable="claude-agent-acp", policy={"extends": "read-only", "default": "deny"}
        ) as session:
            turn = session.prompt(prompt)
            keyboard = asyncio.create_task(typed(turn, screen))
            try:
                async for event in turn:
                    screen.show(event)
                result = await turn.result()
            finally:
                keyboard.cancel()
    except kimi_agent.KimiAgentError as error:
        screen.line(f"{error.code}: {error}")
        return 1
    screen.line(f"({result.status})")
    return 0


if len(sys.argv) != 2:
    sys.exit("usage: watch.py PROMPT")
sys.exit(asyncio.run(main(sys.argv[1])))
