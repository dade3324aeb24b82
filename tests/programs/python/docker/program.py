"""Asks the agent one question in a container. The key of the model's service is a file, which only the agent gets."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import kimi_agent

KEY_FILE = Path(os.environ.get("KEY_FILE", "/run/secrets/model_key"))


def approve(request: kimi_agent.ApprovalRequest) -> kimi_agent.Approval:
    print(f"[{kimi_agent.printable(request.description)}]", file=sys.stderr)
    return "approve"


async def main(prompt: str) -> int:
    task = asyncio.current_task()
    assert task is not None
    # `docker stop` sends SIGTERM. The session is then closed, and its agent with it.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    settings = {
        "KIMI_MODEL_NAME": "kimi-k2",
        "KIMI_MODEL_BASE_URL": "https://api.moonshot.ai/v1",
        "KIMI_MODEL_API_KEY": KEY_FILE.read_text().strip(),
    }
    try:
        async with (
            kimi_agent.create_session(work_dir=".", env=settings, on_approval=approve) as session,
            session.prompt(prompt) as turn,
        ):
            async for text in turn.text_stream:
                print(text, end="", flush=True)
            (await turn.result()).raise_for_status()
    except kimi_agent.KimiAgentError as error:
        print(f"{error.code}: {error}", file=sys.stderr)
        return 1
    except asyncio.CancelledError:
        return 143
    return 0


sys.exit(asyncio.run(main(sys.argv[1])))
