"""What a declared type means in JSON: its schema, and the way from a JSON value back to the type.

Every node answers two questions, and the tests hold them against each other: what `schema` accepts,
`convert` must accept too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Union

Json = dict[str, Any]
Path = tuple[Union[str, int], ...]

# A model that gets everything wrong need not read all of it.
_MOST_TOLD = 20


class Mismatch(ValueError):
    """An argument does not have the declared type; says where and what was wanted.

    `others` are further mismatches of the same arguments.
    """

    def __init__(self, path: Path, message: str, others: Iterable[Mismatch] = ()) -> None:
        super().__init__(path, message)
        self.path = path
        self.message = message
        self.others = tuple(others)

    @classmethod
    def joined(cls, found: Sequence[Mismatch]) -> Mismatch:
        """One that tells of them all; `found` is not empty."""
        first, *others = [single for error in found for single in (error, *error.others)]
        return cls(first.path, first.message, others)

    def __str__(self) -> str:
        texts = [mismatch._text() for mismatch in (self, *self.others[: _MOST_TOLD - 1])]
        left = len(self.others) + 1 - len(texts)
        return "; ".join([*texts, f"and {left} more"] if left else texts)

    def _text(self) -> str:
        where = ""
        for part in self.path:
            where += f"[{part}]" if isinstance(part, int) else f".{part}" if where else part
        return f"{where}: {self.message}" if where else self.message


def shown(value: Any) -> str:
    """A JSON value, short enough for a message."""
    # Errors and enums are what needs it.
    import json

    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 60 else text[:57] + "…"


def expected(label: str, value: Any, path: Path) -> Mismatch:
    return Mismatch(path, f"expected {label}, got {shown(value)}")


class Renderer:
    """Collects the `$defs` of one schema; only types that contain themselves need them."""

    def __init__(self) -> None:
        self.defs: dict[str, Json] = {}
        self._names: dict[int, str] = {}

    def reference(self, node: Node, name: str, body: Callable[[Renderer], Json]) -> Json:
        if id(node) not in self._names:
            self._names[id(node)] = self.free_name(name)
            self.defs[self._names[id(node)]] = {}
            self.defs[self._names[id(node)]] = body(self)
        return {"$ref": f"#/$defs/{self._names[id(node)]}"}

    def free_name(self, name: str) -> str:
        found, number = name, 1
        while found in self.defs:
            number += 1
            found = f"{name}{number}"
        return found


class Node:
    """A type with a JSON form."""

    label = "any value"
    hashable = True

    def schema(self, out: Renderer) -> Json:
        return {}

    def convert(self, value: Any, path: Path) -> Any:
        return value

    def prefers(self, value: Any) -> bool:
        """In a union, is this member tried before the ones written before it?"""
        return False

    def accepts_null(self) -> bool:
        return False


class AnyValue(Node):
    def accepts_null(self) -> bool:
        return True


class Null(Node):
    label = "null"

    def schema(self, out: Renderer) -> Json:
        return {"type": "null"}

    def convert(self, value: Any, path: Path) -> Any:
        if value is not None:
            raise expected(self.label, value, path)
        return None

    def accepts_null(self) -> bool:
        return True


class Scalar(Node):
    """`str`, `bool`, `int`, `float`, or a class derived from one of them."""

    def __init__(self, kind: type, base: type) -> None:
        self.kind = kind
        self.base = base
        self.label = {str: "string", bool: "boolean", int: "integer", float: "number"}[base]

    def schema(self, out: Renderer) -> Json:
        return {"type": self.label}

    def convert(self, value: Any, path: Path) -> Any:
        taken = self._taken(value)
        if taken is None:
            raise expected(self.label, value, path)
        if self.kind is self.base:
            return taken
        return built(self.kind, (taken,), {}, path)

    def _taken(self, value: Any) -> Any:
        if self.base is str or self.base is bool:
            return value if isinstance(value, self.base) else None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        if self.base is int:
            # JSON knows one kind of number: 3.0 is an integer, in JSON Schema too.
            return int(value) if isinstance(value, int) or value.is_integer() else None
        try:
            return float(value)
        except OverflowError:
            return None

    def prefers(self, value: Any) -> bool:
        return self.base in (int, float) and type(value) is self.base


class Text(Node):
    """A type written as a string of some format."""

    def __init__(self, label: str, read: Callable[[Any], Any], schema: Json, takes: tuple[type, ...] = (str,)) -> None:
        self.label = label
        self._read = read
        self._schema = schema
        self._takes = takes

    def schema(self, out: Renderer) -> Json:
        return dict(self._schema)

    def convert(self, value: Any, path: Path) -> Any:
        if isinstance(value, bool) or not isinstance(value, self._takes):
            raise expected(self.label, value, path)
        try:
            return self._read(value)
        except (ValueError, ArithmeticError):
            raise expected(self.label, value, path) from None


class Choice(Node):
    """`Literal[…]` and enums: one of some JSON scalars."""

    def __init__(self, members: Iterable[tuple[Any, Any]]) -> None:
        pairs = list(members)
        self._values = [written for written, _ in pairs]
        self._members = {_json_key(written): member for written, member in pairs}
        self.label = "one of " + ", ".join(shown(value) for value in self._values)

    def schema(self, out: Renderer) -> Json:
        kinds = {_json_type(value) for value in self._values}
        found: Json = {"type": kinds.pop()} if len(kinds) == 1 else {}
        return {**found, "enum": list(self._values)}

    def convert(self, value: Any, path: Path) -> Any:
        if isinstance(value, (str, int, float, bool, type(None))):
            key = _json_key(value)
            if key in self._members:
                return self._members[key]
        raise expected(self.label, value, path)

    def accepts_null(self) -> bool:
        return None in self._values


def _json_type(value: Any) -> str:
    if value is None:
        return "null"
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string")):
        if isinstance(value, kind):
            return name
    raise TypeError(f"{value!r} is no JSON scalar")


def _json_key(value: Any) -> tuple[str, Any]:
    kind = _json_type(value)
    return ("number" if kind == "integer" else kind, value)


class Items(Node):
    """An array of one type of item."""

    label = "array"

    def __init__(
        self, item: Node, build: Callable[[list[Any]], Any], *, unique: bool = False, hashable: bool = False
    ) -> None:
        self.item = item
        self._build = build
        self._unique = unique
        self.hashable = hashable and item.hashable

    def schema(self, out: Renderer) -> Json:
        found: Json = {"type": "array"}
        items = self.item.schema(out)
        if items:
            found["items"] = items
        if self._unique:
            found["uniqueItems"] = True
        return found

    def convert(self, value: Any, path: Path) -> Any:
        if not isinstance(value, list):
            raise expected(self.label, value, path)
        items = [self.item.convert(item, (*path, at)) for at, item in enumerate(value)]
        try:
            return self._build(items)
        except TypeError:
            # Only a set of `Any` gets here.
            raise Mismatch(path, "expected items that can stand in a set") from None


class FixedItems(Node):
    """A tuple with a type for each place."""

    def __init__(self, items: Sequence[Node]) -> None:
        self.items = items
        self.label = f"array of {len(items)}"
        self.hashable = all(item.hashable for item in items)

    def schema(self, out: Renderer) -> Json:
        count = len(self.items)
        if not count:
            return {"type": "array", "maxItems": 0}
        prefix = [item.schema(out) for item in self.items]
        return {"type": "array", "prefixItems": prefix, "minItems": count, "maxItems": count}

    def convert(self, value: Any, path: Path) -> Any:
        if not isinstance(value, list) or len(value) != len(self.items):
            raise expected(self.label, value, path)
        return tuple(node.convert(item, (*path, at)) for at, (node, item) in enumerate(zip(self.items, value)))


class Entries(Node):
    """A mapping with any keys of one type."""

    label = "object"
    hashable = False

    def __init__(self, key: Node, value: Node, build: Callable[[dict[Any, Any]], Any]) -> None:
        self.key = key
        self.value = value
        self._build = build

    def schema(self, out: Renderer) -> Json:
        found: Json = {"type": "object"}
        values = self.value.schema(out)
        if values:
            found["additionalProperties"] = values
        if isinstance(self.key, Choice):
            found["propertyNames"] = self.key.schema(out)
        return found

    def convert(self, value: Any, path: Path) -> Any:
        if not isinstance(value, dict):
            raise expected(self.label, value, path)
        return self._build(
            {self.key.convert(key, (*path, key)): self.value.convert(item, (*path, key)) for key, item in value.items()}
        )


class OneOf(Node):
    """A union; the first member that fits wins."""

    def __init__(self, members: Sequence[Node]) -> None:
        self.members = members
        self.label = " or ".join(dict.fromkeys(member.label for member in members))
        self.hashable = all(member.hashable for member in members)

    def schema(self, out: Renderer) -> Json:
        return {"anyOf": [member.schema(out) for member in self.members]}

    def convert(self, value: Any, path: Path) -> Any:
        deepest: Mismatch | None = None
        for member in sorted(self.members, key=lambda member: not member.prefers(value)):
            try:
                return member.convert(value, path)
            except Mismatch as error:
                if deepest is None or len(error.path) > len(deepest.path):
                    deepest = error
        # A member that got further in than the others is most likely the one that was meant.
        if deepest is not None and len(deepest.path) > len(path):
            raise deepest
        raise expected(self.label, value, path)

    def accepts_null(self) -> bool:
        return any(member.accepts_null() for member in self.members)


class Described(Node):
    """`Annotated[T, "text"]`."""

    def __init__(self, inner: Node, description: str) -> None:
        self.inner = inner
        self.description = description
        self.label = inner.label
        self.hashable = inner.hashable

    def schema(self, out: Renderer) -> Json:
        return {**self.inner.schema(out), "description": self.description}

    def convert(self, value: Any, path: Path) -> Any:
        return self.inner.convert(value, path)

    def prefers(self, value: Any) -> bool:
        return self.inner.prefers(value)

    def accepts_null(self) -> bool:
        return self.inner.accepts_null()


class Alias(Node):
    """A `type X = …` that contains itself."""

    def __init__(self, name: str) -> None:
        self.label = name
        self.target: Node = AnyValue()
        self.recursive = False

    def schema(self, out: Renderer) -> Json:
        return out.reference(self, self.label, self.target.schema)

    def convert(self, value: Any, path: Path) -> Any:
        return self.target.convert(value, path)


class Member:
    """A named part of an object."""

    __slots__ = ("default", "description", "name", "node", "required")

    def __init__(self, name: str, node: Node, required: bool, description: str | None, default: Json | None) -> None:
        self.name = name
        self.node = node
        self.required = required
        self.description = description
        self.default = default
        """`{"default": …}`, or None where JSON can't say it."""

    def schema(self, out: Renderer) -> Json:
        found = self.node.schema(out)
        if self.description and "description" not in found:
            found = {**found, "description": self.description}
        return {**found, **(self.default or {})}


class Object(Node):
    """An object with named members: a dataclass, TypedDict, named tuple, or a function's parameters."""

    label = "object"

    def __init__(self, name: str, build: Callable[[dict[str, Any], Path], Any], *, hashable: bool = True) -> None:
        self.name = name
        self.members: dict[str, Member] = {}
        self.rest: Node | None = None
        """What other members must be; None: there may be none."""
        self.description: str | None = None
        self.recursive = False
        self.hashable = hashable
        self._build = build

    def schema(self, out: Renderer) -> Json:
        return out.reference(self, self.name, self.body) if self.recursive else self.body(out)

    def body(self, out: Renderer) -> Json:
        found: Json = {"type": "object"}
        if self.description:
            found["description"] = self.description
        found["properties"] = {name: member.schema(out) for name, member in self.members.items()}
        required = [name for name, member in self.members.items() if member.required]
        if required:
            found["required"] = required
        if self.rest is None:
            found["additionalProperties"] = False
        elif rest := self.rest.schema(out):
            found["additionalProperties"] = rest
        return found

    def convert(self, value: Any, path: Path) -> Any:
        if not isinstance(value, Mapping):
            raise expected(self.label, value, path)
        taken: dict[str, Any] = {}
        found: list[Mismatch] = []
        for name, item in value.items():
            member = self.members.get(name)
            node = self.rest if member is None else member.node
            if node is None:
                known = ", ".join(self.members) or "nothing"
                found.append(Mismatch((*path, name), f"unexpected, there is only {known}"))
                continue
            try:
                taken[name] = node.convert(item, (*path, name))
            except Mismatch as error:
                found.append(error)
        for name, member in self.members.items():
            if member.required and name not in value:
                found.append(Mismatch((*path, name), f"missing, expected {member.node.label}"))
        if found:
            raise Mismatch.joined(found)
        return self._build(taken, path)


def built(make: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], path: Path) -> Any:
    """Calls a class's own constructor, whose refusal is one more reason why an argument does not fit."""
    try:
        return make(*args, **kwargs)
    except (ValueError, TypeError) as error:
        raise Mismatch(path, str(error) or type(error).__name__) from error
