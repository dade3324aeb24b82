"""A server that streams answers as server-sent events. A client that disconnects stops its answer."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.responses import StreamingResponse

import kimi_agent


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    app.state.sessions = {}
    yield
    for session in app.state.sessions.values():
        await session.close()


app = FastAPI(lifespan=lifespan)


async def session_of(user: str) -> kimi_agent.Session:
    if user not in app.state.sessions:
        app.state.sessions[user] = await kimi_agent.create_session(work_dir=".")
    return app.state.sessions[user]


async def streamed(turn: kimi_agent.Turn) -> AsyncIterator[str]:
    async with turn:
        async for event in turn:
            yield f"data: {json.dumps(event.to_dict())}\n\n"


@app.get("/ask")
async def ask(user: str, question: str) -> StreamingResponse:
    session = await session_of(user)
    return StreamingResponse(streamed(session.prompt(question)), media_type="text/event-stream")


@app.get("/state")
async def state(user: str) -> str:
    return app.state.sessions[user].state
