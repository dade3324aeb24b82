"""Answers the questions of stdin, three at a time. A question that fails is reported, and does not stop the others."""

import asyncio
import json
import sys

from kimi_agent import run_batch


async def main() -> None:
    questions = (line.strip() for line in sys.stdin)
    async for result in run_batch(questions, concurrency=3, turn_timeout=600, work_dir=sys.argv[1]):
        answer = {"question": result.prompt, "status": result.status, "text": result.text}
        if result.error is not None:
            answer["error"] = result.error.code
        print(json.dumps(answer), flush=True)


asyncio.run(main())
