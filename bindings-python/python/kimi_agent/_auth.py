"""The ways to log in that agents offer. Imported when first needed, because dataclasses take long to import."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["AuthMethod"]


@dataclass(frozen=True)
class AuthMethod:
    """A way to log in that an agent of ACP offers. `AuthExpired.methods` lists them.

    >>> try:
    ...     result = await session.prompt("What is in this directory?").result()
    ... except AuthExpired as error:
    ...     print([(method.id, method.kind) for method in error.methods])
    [('api-key', 'agent')]
    """

    id: str
    """The id. The option `auth` takes it."""
    name: str
    """The name, for people."""
    description: str | None
    """The description, if the agent sends one."""
    kind: Literal["agent", "terminal", "env_var"] | str
    """`agent` if the agent logs in itself, `terminal` if a person does in a terminal, `env_var` with variables."""
