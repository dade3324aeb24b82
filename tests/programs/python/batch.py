"""Asks many questions, a few at a time; what fails is reported, and does not stop the rest."""

import asyncio
import json
import sys

import kimi_agent


async def ask(question: str, limit: asyncio.Semaphore) -> dict[str, str]:
    async with limit:
        try:
            result = await kimi_agent.prompt(question, work_dir=sys.argv[1], timeout=600)
            return {"question": question, "text": result.raise_for_status().text}
        except kimi_agent.KimiAgentError as error:
            return {"question": question, "error": error.code}


async def main() -> None:
    limit = asyncio.Semaphore(3)
    jobs = [ask(line.strip(), limit) for line in sys.stdin]
    for job in asyncio.as_completed(jobs):
        print(json.dumps(await job), flush=True)


asyncio.run(main())
