import asyncio

from kimi_agent import TextPart, create_session
from kimi_agent.testing import scripted_agent


async def main() -> None:
    async with create_session(executable=scripted_agent([[{"text": ["hello ", "{{prompt}}"]}]])) as session:
        async for event in session.prompt("world"):
            if isinstance(event, TextPart):
                print(event.text, end="")


asyncio.run(main())
