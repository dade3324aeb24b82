"""A page in the browser on which a person prompts the agent, and approves or rejects what it wants to do."""

import asyncio
import json
import logging
import os
import re
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal

import uvicorn
from fastapi import Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, StreamingResponse
from pydantic import BaseModel
from starlette.middleware.trustedhost import TrustedHostMiddleware

from kimi_agent import Approval, ApprovalRequest, KimiAgentError, Session, ToolCallInfo, create_session, printable

TOKEN = secrets.token_urlsafe(32)
PAGE = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
# Characters without a glyph, and blanks that are no spaces: nothing that a person decides about is hidden by them.
HIDDEN = re.compile(
    "[\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u202a-\u202f\u205f-\u206f\u2800\u3000"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
Event = dict[str, Any]


class Desk:
    """What the open pages show: the state of the agent, and the approvals that wait for a person."""

    def __init__(self) -> None:
        self.pages: set[asyncio.Queue[Event | None]] = set()
        self.waiting: dict[str, tuple[Event, asyncio.Future[Approval]]] = {}
        self.turn: asyncio.Task[None] | None = None
        self.session: Session | None = None

    @property
    def busy(self) -> bool:
        return self.turn is not None and not self.turn.done()

    def show(self, event: Event | None) -> None:
        for page in self.pages:
            page.put_nowait(event)

    async def ask_person(self, request: ApprovalRequest) -> Approval:
        """Waits until a person answers. If the turn ends first, the SDK cancels this handler."""
        number = secrets.token_hex(8)
        event: Event = {
            "type": "approval",
            "id": number,
            "sender": shown(request.sender),
            "description": shown(request.description),
            "input": shown(input_of(request.tool_call)),
        }
        future: asyncio.Future[Approval] = asyncio.get_running_loop().create_future()
        self.waiting[number] = event, future
        self.show(event)
        outcome: Any = "withdrawn"
        try:
            outcome = await future
        finally:
            del self.waiting[number]
            self.show({"type": "resolved", "id": number, "answer": outcome})
        return future.result()

    async def run(self, session: Session, prompt: str) -> None:
        self.show({"type": "prompt", "prompt": prompt})
        self.show({"type": "state", "state": "working"})
        try:
            turn = session.prompt(prompt)
            async for text in turn.text_stream:
                self.show({"type": "text", "text": text})
            state: str = (await turn.result()).status
        except KimiAgentError as error:
            logging.exception("the turn failed")
            state = error.code
        self.show({"type": "state", "state": state})


def input_of(call: ToolCallInfo | None) -> str:
    """Describes what the call does: its arguments, and the further paths that the agent names."""
    if call is None:
        return "The arguments are not known."
    paths = [*(call.locations or ()), *(call.diffs or ())]
    return json.dumps(call.arguments) + (f" on {json.dumps(paths)}" if paths else "")


def shown(text: str) -> str:
    visible = HIDDEN.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", printable(text))
    return re.sub(r"\s{17,}", lambda found: f"[{len(found[0])} blanks]", visible)


desk = Desk()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with create_session(work_dir=".", on_approval=desk.ask_person) as desk.session:
        yield


def check_token(authorization: Annotated[str, Header()] = "") -> None:
    if not secrets.compare_digest(authorization.encode(), f"Bearer {TOKEN}".encode()):
        raise HTTPException(401, "The address lacks the token that the program printed.")


app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
# A page of another site may reach this port by a host name of its own.
app.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1"])
PROTECTED = [Depends(check_token)]


class Prompt(BaseModel):
    prompt: str


class Answer(BaseModel):
    id: str
    answer: Literal["approve", "approve_for_session", "reject"]


@app.exception_handler(HTTPException)
async def refuse(request: Request, error: HTTPException) -> PlainTextResponse:
    return PlainTextResponse(error.detail, error.status_code)


@app.get("/")
async def page() -> HTMLResponse:
    nonce = secrets.token_urlsafe(16)
    # No script but the page's own runs, and no other page can frame this one to steal a click.
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = {"cache-control": "no-store", "content-security-policy": policy, "referrer-policy": "no-referrer"}
    return HTMLResponse(PAGE.replace("NONCE", nonce), headers=headers)


@app.get("/events", dependencies=PROTECTED)
async def events() -> StreamingResponse:
    async def lines() -> AsyncIterator[str]:
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        desk.pages.add(queue)
        try:
            queue.put_nowait({"type": "state", "state": "working" if desk.busy else "ready"})
            for waiting, _ in desk.waiting.values():
                queue.put_nowait(waiting)
            while (event := await queue.get()) is not None:
                yield f"data: {json.dumps(event)}\n\n"
        finally:
            desk.pages.discard(queue)

    return StreamingResponse(lines(), media_type="text/event-stream", headers={"cache-control": "no-store"})


@app.post("/prompt", status_code=204, dependencies=PROTECTED)
async def prompt(asked: Prompt) -> None:
    if desk.session is None or desk.busy:
        raise HTTPException(409, "The agent is working.")
    desk.turn = asyncio.create_task(desk.run(desk.session, asked.prompt))


@app.post("/answer", status_code=204, dependencies=PROTECTED)
async def answer(given: Answer) -> None:
    _, future = desk.waiting.get(given.id, (None, None))
    if future is None or future.done():
        raise HTTPException(404, "Nothing waits for this answer.")
    future.set_result(given.answer)


@app.post("/cancel", status_code=204, dependencies=PROTECTED)
async def cancel() -> None:
    if desk.session is not None and desk.busy:
        await desk.session.cancel()


class Server(uvicorn.Server):
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Open pages would never end their requests.
        desk.show(None)
        super().handle_exit(sig, frame)


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", int(os.environ.get("PORT", "0")))) as listener:
        print(f"http://127.0.0.1:{listener.getsockname()[1]}/#{TOKEN}", flush=True)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
        with suppress(KeyboardInterrupt):
            Server(config).run(sockets=[listener])
