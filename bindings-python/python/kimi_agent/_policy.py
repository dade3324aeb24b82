"""Rules that decide about tool calls. Loaded when a program makes a policy."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from . import _native
from ._encode import option_problem, to_jsonable
from ._errors import InvalidOption
from ._loop import called

if TYPE_CHECKING:
    from ._option_types import StrPath
    from ._wire import ToolCallInfo

__all__ = ["Policy", "PolicyRules", "PolicyVerdict"]


class PolicyRules(TypedDict, total=False):
    """The rules of the option `policy`. The order is deny, ask, allow, default.

    Type checkers refuse rules from a file that the program has read itself: pass them as `Policy(rules)`.

    >>> rules: PolicyRules = {"extends": "read-only", "deny": ["execute(rm *)"]}
    >>> async with create_session(work_dir=".", policy=rules) as session:
    ...     print(session.state)
    idle
    """

    extends: Literal["read-only", "edit-files"]
    """A preset whose rules come first."""
    default: Literal["ask", "deny", "allow"]
    """The decision if no rule matches. Default: "ask"."""
    deny: Sequence[str]
    """The calls that must not run."""
    ask: Sequence[str]
    """The calls that `on_approval` decides about, also if an allow rule matches."""
    allow: Sequence[str]
    """The calls that may run."""


@dataclass(frozen=True)
class PolicyVerdict:
    """A decision and its reason, from `Policy.check()`.

    >>> verdict = Policy({"deny": ["execute(rm *)"]}).check({"name": "Shell", "arguments": {"command": "rm x"}})
    >>> print(verdict.decision, verdict.rule)
    deny execute(rm *)
    """

    decision: Literal["allow", "ask", "deny"]
    """The decision."""
    rule: str | None = None
    """The rule that decided. None if the default decided, or if a part of the call cannot be decided."""
    source: str | None = None
    """The place of the rule, for example `policy.toml:3`. For a policy without a file, `deny[0]`."""
    reason: str = field(default="", compare=False)
    """Why, in a sentence for people. It names the part that decided, and if possible the narrowest rule that would
    allow it."""
    part: str | None = field(default=None, compare=False)
    """The part of the call that decided: a simple command, a path, an address or the name of a tool."""


def _wrong(problem: str) -> InvalidOption:
    return InvalidOption(f"invalid option `policy`: {problem}", "policy")


class Policy:
    """Rules that decide which tool calls an agent may make, for the option `policy`.

    The order is deny, ask, allow, default. Each part of a compound command needs a decision of its own, and the
    strictest one counts.

    Args:
        rules: A mapping with the keys `default` ("ask", "deny" or "allow"), `deny`, `ask` and `allow` (lists of rules),
            and `extends` (a preset). Or the name of a preset: "read-only" or "edit-files".

    Raises:
        InvalidOption: A rule is wrong. The text names it.

    >>> policy = Policy({"allow": ["read", "execute(git status)"]})
    >>> call = {"name": "Shell", "arguments": {"command": "git status && rm -rf ~"}}
    >>> policy.check(call).decision
    'ask'
    """

    __slots__ = ("_json", "_rules", "_warnings")

    def __init__(self, rules: Mapping[str, Any] | Literal["read-only", "edit-files"]) -> None:
        if rules in ("read-only", "edit-files"):
            rules = {"extends": rules}
        if isinstance(rules, (str, os.PathLike)):
            presets = 'there are "read-only" and "edit-files"; to read a file, write `Policy.load(path)`'
            raise _wrong(f'there is no preset "{os.fspath(rules)}"; {presets}')
        if not isinstance(rules, Mapping):
            raise _wrong(f"expected a mapping with rules, got {rules!r}")
        try:
            given = to_jsonable(rules)
        except TypeError as error:
            raise _wrong(str(error)) from None
        self._read(given)

    def _read(self, given: Any) -> None:
        read = called(_native.read_policy, given)
        self._rules: dict[str, Any] = read["policy"]
        self._json = json.dumps(self._rules)
        self._warnings: list[str] = read["warnings"]

    @classmethod
    def load(cls, path: StrPath) -> Policy:
        """Reads the file of a policy: JSON if its name ends with `.json`, else TOML.

        Args:
            path: The path of the file.

        Returns:
            The policy.

        Raises:
            InvalidOption: The file cannot be read, or a rule is wrong. The text names the file, the line and the rule.

        >>> with open("policy.toml", "w") as file:
        ...     print('deny = ["execute(rm *)"]', file=file)
        >>> Policy.load("policy.toml").warnings
        []
        """
        policy = cls.__new__(cls)
        try:
            given = to_jsonable(os.fspath(path))
        except TypeError as error:
            raise _wrong(option_problem("policy", path, error)) from None
        policy._read(given)
        return policy

    @property
    def warnings(self) -> list[str]:
        """Rules that can never decide, because they match nothing or because another rule decides first.

        >>> Policy({"deny": ["execute"], "allow": ["execute(ls)"]}).warnings
        ['allow[0]: allow "execute(ls)": it has no effect, because deny "execute" decides first']
        """
        return list(self._warnings)

    @property
    def rules(self) -> dict[str, Any]:
        """The rules, also those of a preset: `default`, `deny`, `ask` and `allow`.

        >>> "read(**)" in Policy("read-only").rules["allow"]
        True
        """
        return {key: self._rules[key] for key in ("default", "deny", "ask", "allow")}

    def check(self, tool_call: ToolCallInfo | Mapping[str, Any], work_dir: StrPath = ".") -> PolicyVerdict:
        """Decides about a tool call, without an agent.

        Args:
            tool_call: The call: `request.tool_call`, or a mapping with `name`, and optionally `kind`, `arguments`, and
                lists of paths, `locations` and `diffs`.
            work_dir: The directory that the agent would work in. Default: the current directory.

        Returns:
            The decision, the rule that decided, and the reason.

        Raises:
            InvalidOption: This is not a tool call.

        >>> Policy({"allow": ["edit(src/**)"]}).check({"name": "WriteFile", "arguments": {"path": "src/a.py"}}).decision
        'allow'
        """
        try:
            call = to_jsonable(tool_call)
        except TypeError as error:
            raise InvalidOption(f"invalid option `tool_call`: {error}", "tool_call") from None
        verdict = called(_native.check_policy, self._json, call, os.fspath(work_dir))
        return PolicyVerdict(**verdict)

    def to_payload(self) -> dict[str, Any]:
        """Returns the rules as JSON, with their places.

        >>> Policy({"deny": ["mcp"]}).to_payload()["deny"]
        ['mcp']
        """
        return self._rules

    def __repr__(self) -> str:
        lists = ", ".join(f"{key}={len(self._rules[key])}" for key in ("deny", "ask", "allow"))
        return f"<Policy default={self._rules['default']} {lists}>"
