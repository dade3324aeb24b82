"""Exceptions: classes, codes, attributes."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import kimi_agent
from kimi_agent import (
    AgentExited,
    InvalidOption,
    KimiAgentError,
    MaxStepsReached,
    PromptResult,
    RpcError,
    TokenUsage,
    TurnInProgress,
)
from kimi_agent._errors import from_native

pytestmark = pytest.mark.interpreter

CODES = {
    "invalid_option": "InvalidOption",
    "spawn_error": "SpawnError",
    "handshake_error": "HandshakeError",
    "agent_exited": "AgentExited",
    "protocol_error": "ProtocolError",
    "unsupported": "Unsupported",
    "session_closed": "SessionClosed",
    "timeout": "Timeout",
    "event_buffer_full": "EventBufferFull",
    "rpc_error": "RpcError",
    "turn_in_progress": "TurnInProgress",
    "no_active_turn": "NoActiveTurn",
    "llm_not_set": "LlmNotSet",
    "llm_not_supported": "LlmNotSupported",
    "llm_service_error": "LlmServiceError",
    "auth_expired": "AuthExpired",
    "context_too_long": "ContextTooLong",
    "answer_truncated": "AnswerTruncated",
    "answer_refused": "AnswerRefused",
    "turn_cancelled": "TurnCancelled",
    "max_steps_reached": "MaxStepsReached",
    "budget_exceeded": "BudgetExceeded",
    "output_invalid": "OutputInvalid",
    "internal_error": "KimiAgentError",
}


@pytest.mark.parametrize(("code", "name"), CODES.items())
def test_every_code_has_its_class(code: str, name: str) -> None:
    error = from_native(code, "what happened", {})
    assert type(error) is getattr(kimi_agent, name)
    assert error.code == code
    assert str(error) == "what happened"
    assert isinstance(error, KimiAgentError)
    # As a traceback names it.
    assert f"{type(error).__module__}.{type(error).__qualname__}" == f"kimi_agent.{name}"


def test_unknown_code_gives_base_class() -> None:
    assert type(from_native("from_the_future", "x", {"more": 1})) is KimiAgentError


NOTHING = PromptResult("cancelled", 0, "", TokenUsage(0, 0, 0, 0))
ERRORS: list[tuple[KimiAgentError, str]] = [
    (KimiAgentError("x"), "KimiAgentError('x')"),
    (from_native("invalid_option", "no", {"option": "model"}), "InvalidOption('no', option='model')"),
    (
        from_native("agent_exited", "gone", {"exit_code": None, "signal": "SIGKILL", "stderr": "bye"}),
        "AgentExited('gone', exit_code=None, signal='SIGKILL', stderr='bye')",
    ),
    (
        from_native("turn_in_progress", "busy (-32000)", {"rpc_code": -32000, "message": "busy", "data": {"a": 1}}),
        "TurnInProgress('busy (-32000)', rpc_code=-32000, message='busy', data={'a': 1}, hint=None)",
    ),
    (
        from_native("llm_not_set", "", {"message": "no model", "rpc_code": None, "hint": "log in"}),
        "LlmNotSet('no model; log in', rpc_code=None, message='no model', data=None, hint='log in')",
    ),
    (from_native("timeout", "slow", {}), "Timeout('slow')"),
    (from_native("spawn_error", "none", {}), "SpawnError('none')"),
    (
        from_native("budget_exceeded", "too much", {"option": "budget", "counter": "steps", "limit": 2, "used": 3}),
        f"BudgetExceeded('too much', option='budget', counter='steps', limit=2, used=3, result={NOTHING})",
    ),
    (
        from_native(
            "output_invalid",
            "no value",
            {"attempts": 3, "text": "{}", "errors": [{"pointer": "/n", "message": "Field required"}]},
        ),
        "OutputInvalid('no value', attempts=3, text='{}', "
        f"errors=[OutputError(pointer='/n', message='Field required')], result={NOTHING})",
    ),
    (from_native("max_steps_reached", "enough", {"steps": 3}), "MaxStepsReached('enough', steps=3)"),
]


def test_login_error_keeps_methods() -> None:
    method = {"id": "api-key", "name": "API Key", "description": None, "kind": "agent"}
    error = from_native("auth_expired", "log in", {"message": "log in", "rpc_code": -32000, "methods": [method]})
    for each in (error, pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert isinstance(each, kimi_agent.AuthExpired)
        assert each.methods == (kimi_agent.AuthMethod(id="api-key", name="API Key", description=None, kind="agent"),)
    assert kimi_agent.AuthExpired("log in").methods == ()


def test_service_error_keeps_status_and_result() -> None:
    usage = TokenUsage(0, 0, 0, 0)
    lists: dict[str, Any] = {"tool_calls": [], "rejected": [], "handler_failures": [], "output": None, "plan": None}
    ended = {"status": "cancelled", "stop_reason": None, "steps": 1, "text": "half", "usage": usage, "cost": None}
    result = {**ended, **lists}
    fields = {"message": "slow down", "rpc_code": 429, "status": 429, "retry_after": 7.0, "result": result}
    error = from_native("llm_service_error", "slow down (429)", fields)
    for each in (error, pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert isinstance(each, kimi_agent.LlmServiceError)
        assert (each.status, each.retry_after) == (429, 7.0)
        assert each.result is not None
        assert each.result.text == "half"
    assert from_native("timeout", "slow", {}).result is None


@pytest.mark.parametrize(("error", "text"), ERRORS, ids=[type(error).__name__ for error, _ in ERRORS])
def test_attributes_survive_repr_pickling_and_copying(error: KimiAgentError, text: str) -> None:
    assert repr(error) == text
    pickled = [pickle.loads(pickle.dumps(error, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    for again in (*pickled, copy.copy(error), copy.deepcopy(error)):
        assert repr(again) == text
        assert type(again) is type(error)
        assert again.args == error.args


def test_errors_have_their_attributes() -> None:
    errors: Any = [error for error, _ in ERRORS]
    assert isinstance(errors[1], InvalidOption)
    assert errors[1].option == "model"
    assert isinstance(errors[2], AgentExited)
    assert (errors[2].exit_code, errors[2].signal, errors[2].stderr) == (None, "SIGKILL", "bye")
    assert isinstance(errors[3], TurnInProgress)
    assert isinstance(errors[3], RpcError)
    assert (errors[3].rpc_code, errors[3].message, errors[3].data) == (-32000, "busy", {"a": 1})
    assert isinstance(errors[-1], MaxStepsReached)
    assert errors[-1].steps == 3


def test_errors_derive_from_matching_built_in() -> None:
    for code, base in (("timeout", TimeoutError), ("invalid_option", ValueError), ("spawn_error", OSError)):
        error: Any = from_native(code, "why", {})
        assert isinstance(error, base)
        assert isinstance(error, KimiAgentError)
        assert str(error) == "why"
        assert error.args == ("why",)
        if isinstance(error, OSError):
            assert (error.errno, error.strerror, error.filename) == (None, None, None)


@pytest.mark.parametrize("code", CODES)
def test_help_links_to_section_of_code(code: str) -> None:
    error = from_native(code, "what happened", {})
    for one in (error, copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert one.help.endswith(f"/docs/reference/errors.md#{code}")
        # A note would change the text that `pytest.raises(match=…)` sees, and only from Python 3.11 on.
        assert not hasattr(one, "__notes__")


RETRYABLE = {"agent_exited", "timeout", "turn_in_progress", "llm_service_error"}


@pytest.mark.parametrize("code", CODES)
def test_retryable_depends_on_class_or_error(code: str) -> None:
    assert from_native(code, "x", {}).retryable is (code in RETRYABLE)
    for retryable in (True, False):
        error = from_native(code, "x", {"retryable": retryable})
        assert error.retryable is retryable
        assert copy.copy(error).retryable is retryable
        assert pickle.loads(pickle.dumps(error)).retryable is retryable
