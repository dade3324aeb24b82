"""JSON Schema from Python types, and values back from JSON."""

from __future__ import annotations

from .nodes import Member, Mismatch, Node, Object
from .resolve import Resolver, Unsupported, member, render

__all__ = ["Member", "Mismatch", "Node", "Object", "Resolver", "Unsupported", "member", "render"]
