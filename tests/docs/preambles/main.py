import asyncio

import kimi_agent
from kimi_agent import ApprovalRequest, Block, Hook, HookRequest, QuestionRequest, Reject, create_session


async def main() -> None:
    # the block


asyncio.run(main())
