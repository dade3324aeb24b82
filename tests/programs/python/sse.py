"""A server with FastAPI that streams answers as server-sent events. A client that disconnects cancels its turn."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel
from starlette.middleware.trustedhost import TrustedHostMiddleware

import kimi_agent


class Conversation:
    """The session of one user. Its lock makes a second question wait for the end of the first."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.session: kimi_agent.Session | None = None

    async def open(self) -> kimi_agent.Session:
        if self.session is None or self.session.state == "closed":
            self.session = await kimi_agent.create_session(work_dir=".")
        return self.session


class Question(BaseModel):
    user: str
    question: str


conversations: defaultdict[str, Conversation] = defaultdict(Conversation)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    for conversation in conversations.values():
        if conversation.session is not None:
            await conversation.session.close()


app = FastAPI(lifespan=lifespan)
# Pages of other sites cannot reach the server by a host name of their own. FastAPI refuses what is not JSON.
app.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])


@app.post("/ask", response_class=EventSourceResponse)
async def ask(question: Question) -> AsyncIterator[ServerSentEvent]:
    conversation = conversations[question.user]
    async with conversation.lock:
        try:
            session = await conversation.open()
            async with session.prompt(question.question) as turn:
                async for text in turn.text_stream:
                    yield ServerSentEvent(event="text", data=text)
                yield ServerSentEvent(event="end", data=(await turn.result()).status)
        except kimi_agent.KimiAgentError as error:
            yield ServerSentEvent(event="error", data=error.code)
