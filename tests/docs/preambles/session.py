import asyncio

import kimi_agent
from kimi_agent import ApprovalRequest, Block, Hook, Reject, TextPart


async def main() -> None:
    async with kimi_agent.create_session(work_dir=".") as session:
        # the block


asyncio.run(main())
