"""The messages of a turn as pydantic's models, told apart by their type."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, TypeAdapter


class Begin(BaseModel):
    kind: Literal["TurnBegin"]
    user_input: str


class End(BaseModel):
    kind: Literal["TurnEnd"]


class Step(BaseModel):
    kind: Literal["StepBegin"]
    n: int


class Part(BaseModel):
    kind: Literal["ContentPart"]
    text: str | None = None
    think: str | None = None


class Function(BaseModel):
    name: str
    arguments: str | None = None


class Call(BaseModel):
    kind: Literal["ToolCall"]
    id: str
    function: Function


class CallPart(BaseModel):
    kind: Literal["ToolCallPart"]
    arguments_part: str | None = None


class Returned(BaseModel):
    is_error: bool
    output: str
    message: str
    display: list[Any]


class Result(BaseModel):
    kind: Literal["ToolResult"]
    tool_call_id: str
    return_value: Returned


class Usage(BaseModel):
    input_other: int
    output: int
    input_cache_read: int
    input_cache_creation: int


class Status(BaseModel):
    kind: Literal["StatusUpdate"]
    context_usage: float | None = None
    token_usage: Usage | None = None
    message_id: str | None = None


EVENT: TypeAdapter[Any] = TypeAdapter(
    Annotated[Begin | End | Step | Part | Call | CallPart | Result | Status, Field(discriminator="kind")]
)
