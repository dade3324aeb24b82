"""One program for several agents: agents.py NAME PROMPT. The handlers are the same for all of them."""

import asyncio
import json
import re
import sys
import threading
import time

import kimi_agent

# Letters and marks that look like nothing.
BLANKS = "\u034f\u115f\u1160\u2800\u3164\uffa0"

# While a question waits, nothing else is printed.
terminal = threading.Lock()
# How many seconds a person reads before the question can be answered. A key that was on its way answers nothing.
READING_TIME = 1.0

# The option `executable`. The SDK knows the arguments and the protocol of each program.
AGENTS: dict[str, str | list[str]] = {
    "kimi-code": "kimi",
    "kimi-cli": ["uvx", "--from", "kimi-cli==1.51.0", "kimi"],
    "gemini": "gemini",
    "claude": "claude-agent-acp",
}


def shown(value: object) -> str:
    """Returns a value in one line, in which no blanks and no characters without a glyph hide anything."""
    text = json.dumps(value, ensure_ascii=False)
    text = "".join(f"\\u{ord(c):04x}" if not c.isprintable() or c in BLANKS else c for c in text)
    return re.sub(" {17,}", lambda run: f"[{len(run[0])} blanks]", text)


def decide(request: kimi_agent.ApprovalRequest) -> kimi_agent.Approval:
    """Asks the person. The name of a tool differs between agents; over ACP a call also has a kind, which does not."""
    call = request.tool_call
    kind = (call.kind or call.name) if call else "unknown"
    arguments = call.arguments if call and call.arguments is not None else "unknown arguments"
    paths = [*(call.locations or ()), *(call.diffs or ())] if call else []
    on = f" on {shown(paths)}" if paths else ""
    with terminal:
        print(f"\n[{kimi_agent.printable(kind)}] {shown(request.description)}: {shown(arguments)}{on}", flush=True)
        discard_keys()
        return "approve" if input("Approve? [y/N] ") == "y" else "reject"


def discard_keys() -> None:
    if sys.platform != "win32" and sys.stdin.isatty():
        import termios

        time.sleep(READING_TIME)
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


async def show(text: str) -> None:
    while not terminal.acquire(blocking=False):
        await asyncio.sleep(0.05)
    try:
        print(kimi_agent.printable(text), end="", flush=True)
    finally:
        terminal.release()


async def main(name: str, prompt: str) -> int:
    try:
        async with kimi_agent.create_session(work_dir=".", executable=AGENTS[name], on_approval=decide) as session:
            able = [feature for feature in ("steer", "replay", "plan_mode") if getattr(session.capabilities, feature)]
            print(f"{session.server} speaks {session.protocol_version}, and can: {', '.join(able) or 'no extras'}")
            async with session.prompt(prompt) as turn:
                async for text in turn.text_stream:
                    await show(text)
                result = await turn.result()
            print(f"\n{result.status}, {result.usage.total} tokens, {len(result.rejected)} rejected")
    except kimi_agent.KimiAgentError as error:
        print(f"{error.code}: {error}", file=sys.stderr)
        return 1
    return 0


if len(sys.argv) != 3 or sys.argv[1] not in AGENTS:
    sys.exit(f"usage: agents.py {{{','.join(AGENTS)}}} PROMPT")
sys.exit(asyncio.run(main(*sys.argv[1:])))
