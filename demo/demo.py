"""The main job in Python: demo.py WORK_DIR [EXECUTABLE]. Without an executable the scripted agent plays along."""

import asyncio
import os
import sys
from pathlib import Path

import kimi_agent
from kimi_agent import ApprovalRequest, QuestionRequest, Reject, TextPart, ThinkPart, ToolCall, ToolCallPart, ToolResult
from kimi_agent.testing import scripted_agent

PROMPT = (
    "With 20 % off, prices.py makes tea cost 10; it should be 40. Look up its list price with the tool list_price, "
    "read prices.py, and fix the mistake."
)
LIST_PRICES = {"tea": 50, "coffee": 80}
COLOURS = sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR"))


@kimi_agent.tool
def list_price(item: str) -> int:
    """Looks up what an item costs before any discount.

    Args:
        item: the item, as `tea`.
    """
    return LIST_PRICES[item]


class Screen:
    """Writes what streams in; what is of another kind begins on a line of its own."""

    kind = ""

    def write(self, kind: str, text: str) -> None:
        if kind != self.kind and self.kind:
            print()
        self.kind = kind
        print(f"\033[2m{text}\033[0m" if kind == "thinking" and COLOURS else text, end="", flush=True)

    async def ask(self, question: str, default: str) -> str:
        self.write("question", f"? {question}: ")
        self.kind = ""
        if sys.stdin.isatty():
            # A person takes time to answer. The event loop continues meanwhile.
            return (await asyncio.to_thread(sys.stdin.readline)).strip() or default
        print(default)
        return default


def summary(result: ToolResult) -> str:
    output = result.return_value.output
    text = output if isinstance(output, str) else "".join(part.text for part in output if isinstance(part, TextPart))
    lines = (text or result.return_value.message).splitlines() or ["done"]
    return lines[0].strip() + (" …" if len(lines) > 1 else "")


async def main(work_dir: str, executable: str = "") -> None:
    screen = Screen()
    async with kimi_agent.create_session(
        work_dir=work_dir,
        executable=executable or scripted_agent(Path(__file__).with_name("script.json")),
        tools=[list_price],
        on_approval="manual",  # answered below, so that all is shown in its order; a function does, too
        on_question="manual",
    ) as session:
        print(f"> {PROMPT}")
        turn = session.prompt(PROMPT)
        async for event in turn:
            match event:
                case ThinkPart(think=text):
                    screen.write("thinking", text)
                case TextPart(text=text):
                    screen.write("text", text)
                case ToolCall(id=call, function=function):
                    screen.write(call, f"* {function.name} {function.arguments or ''}")
                case ToolCallPart(arguments_part=piece):
                    screen.write(screen.kind, piece or "")
                case ToolResult(tool_call_id=call):
                    screen.write(f"{call} result", f"  = {summary(event)}")
                case ApprovalRequest(description=description):
                    word = await screen.ask(f"{description} (approve, or why not)", "approve")
                    await turn.respond(event, "approve" if word == "approve" else Reject(word))
                case QuestionRequest(questions=questions):
                    answers = {}
                    for question in questions:
                        labels = ", ".join(option.label for option in question.options)
                        default = question.options[0].label
                        answers[question.question] = await screen.ask(f"{question.question} ({labels})", default)
                    await turn.respond(event, answers)
        result = await turn.result()
        tokens = f"{result.usage.input} tokens in, {result.usage.output} out"
        screen.write("end", f"{result.status} in {result.steps} steps, {tokens}\n")


asyncio.run(main(*sys.argv[1:]))
