"""What all wire types have in common; the types themselves are in `_wire`, generated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, cast

if TYPE_CHECKING:
    from typing_extensions import Self, dataclass_transform
else:

    def dataclass_transform(**_):
        return lambda kind: kind


__all__ = [
    "ApprovalRequestMethods",
    "Message",
    "SynthesizedMethods",
    "TokenUsageMethods",
    "ToolReturnValueMethods",
    "UnknownEventMethods",
    "UnknownItemMethods",
    "keep",
    "listed",
    "maker",
    "nested",
    "text_part_maker",
]

Decoder = Callable[[Any], Any]
_NOTHING: Mapping[str, Any] = MappingProxyType({})
keep = object.__setattr__


# Type checkers then refuse assignments to fields. Each class has an `__init__` of its own.
@dataclass_transform(eq_default=False, frozen_default=True)
class Message:
    """A message, or a part of one. Never changes; equal if all of its fields are."""

    __slots__ = ("_origin", "extra")
    __match_args__: ClassVar[tuple[str, ...]] = ()

    _origin: tuple[int, int]
    # Which request of which session this is, on requests that came from a session of this process. The core sets it.
    # Neither equality nor a copy made by pickle has it.

    extra: Mapping[str, Any]
    """Fields that this SDK does not know, kept as they came."""

    _fields: ClassVar[Mapping[str, Decoder | None]] = _NOTHING
    _required: ClassVar[frozenset[str]] = frozenset()
    _tag: ClassVar[str | None] = None
    _wire_type: ClassVar[str | None] = None
    _events: ClassVar[frozenset[str]] = frozenset()
    # What the SDK adds, which is not part of the wire form.
    _added: ClassVar[tuple[str, ...]] = ()

    def __init__(self, extra: Mapping[str, Any] | None = None) -> None:
        keep(self, "extra", extra or _NOTHING)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} does not change: {name!r} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} does not change: {name!r} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), _hashable(self._values())))

    def __repr__(self) -> str:
        shown = [f"{name}={getattr(self, name)!r}" for name in self._fields if getattr(self, name) is not None]
        if self.extra:
            shown.append(f"extra={dict(self.extra)!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def __reduce__(self) -> tuple[Any, ...]:
        *values, extra = self._values()
        return (type(self), (*values, dict(extra) or None))

    def __copy__(self) -> Self:
        return self

    def _values(self) -> tuple[Any, ...]:
        return (*[getattr(self, name) for name in self._fields], self.extra)

    def to_payload(self) -> dict[str, Any]:
        """The message as JSON, without the envelope that names its type. What is None is left out."""
        found: dict[str, Any] = {} if self._tag is None else {"type": self._tag}
        for name in self._fields:
            value = getattr(self, name)
            if value is not None:
                found[name] = value.to_dict() if name in self._events else _plain(value)
        for name, value in self.extra.items():
            found.setdefault(name, _plain(value))
        return found

    def to_dict(self) -> dict[str, Any]:
        """The message as it stands on the wire: `{"type": …, "payload": …}`; a part of a message as plain JSON."""
        if self._wire_type is None:
            return self.to_payload()
        return {"type": self._wire_type, "payload": self.to_payload()}

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> Self:
        """The opposite of `to_payload`."""
        if not isinstance(payload, Mapping):
            raise ValueError(f"{cls.__name__}: expected an object, got {payload!r}")
        values: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for name, value in payload.items():
            if name in cls._fields:
                decoder = cls._fields[name]
                values[name] = value if decoder is None or value is None else decoder(value)
            elif name != "type" or cls._tag is None:
                extra[name] = value
        for name in cls._fields:
            if values.get(name) is None and name in cls._required:
                raise ValueError(f"{cls.__name__}: {name!r} is missing")
        found = cls.__new__(cls)
        found._fill(values, extra)
        return found

    def _fill(self, values: Mapping[str, Any], extra: Mapping[str, Any]) -> None:
        for name, decoder in self._fields.items():
            value = values.get(name)
            # A list that is absent is an empty list.
            keep(self, name, [] if value is None and isinstance(decoder, listed) else value)
        keep(self, "extra", extra or _NOTHING)
        for name in self._added:
            keep(self, name, None)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The opposite of `to_dict`."""
        if cls._wire_type is None:
            return cls.from_payload(data)
        if not isinstance(data, Mapping) or data.get("type") != cls._wire_type:
            raise ValueError(f"{cls.__name__}: expected {{'type': {cls._wire_type!r}, 'payload': …}}, got {data!r}")
        payload = data.get("payload")
        return cls.from_payload({} if payload is None else payload)


def maker(kind: type[Message]) -> Callable[..., Message]:
    """Returns a function that makes a message of its values: the fields in order, `extra`, what the SDK adds.

    The core makes messages by it. It bypasses `__init__` and `__setattr__`, which cost several times as much.
    """
    new = object.__new__
    setters = [getattr(kind, name).__set__ for name in (*kind.__match_args__, "extra", *kind._added)]

    def make(*values: Any) -> Message:
        made = new(kind)
        for set_value, value in zip(setters, values):
            set_value(made, value)
        return made

    return make


def text_part_maker(kind: Any) -> Callable[[str], Message]:
    """Returns what `maker` returns, for a piece of text without other fields. Most events are such pieces."""
    new: Callable[[Any], Message] = object.__new__
    set_text, set_extra = kind.text.__set__, kind.extra.__set__

    def make(text: str) -> Message:
        made = new(kind)
        set_text(made, text)
        set_extra(made, _NOTHING)
        return made

    return make


class listed:
    """Decodes a list, each item by `item`."""

    __slots__ = ("_item",)

    def __init__(self, item: Decoder | None = None) -> None:
        self._item = item

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, list):
            raise ValueError(f"expected a list, got {value!r}")
        return list(value) if self._item is None else [self._item(item) for item in value]


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return value.to_payload()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return value


def _hashable(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(_hashable(item) for item in value)
    if isinstance(value, Mapping):
        return frozenset((name, _hashable(item)) for name, item in value.items())
    return value


def _json(value: Any) -> str:
    # Most programs have no need of it, or not before the first session.
    import json

    return json.dumps(value, ensure_ascii=False)


class TokenUsageMethods(Message):
    """Sums over a `TokenUsage`."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()

    if TYPE_CHECKING:
        input_other: int
        output: int
        input_cache_read: int
        input_cache_creation: int

        def __init__(self, extra: Mapping[str, Any] | None = None) -> None: ...

    @property
    def input(self) -> int:
        """All input tokens, cached or not."""
        return self.input_other + self.input_cache_read + self.input_cache_creation

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input + self.output


class ApprovalRequestMethods(Message):
    """What an `ApprovalRequest` has over ACP only."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()

    @property
    def options(self) -> list[dict[str, Any]] | None:
        """Over ACP the options that the agent offers, each with `optionId`, `name` and `kind`; otherwise None."""
        found = self.extra.get("options")
        return found if isinstance(found, list) else None


class SynthesizedMethods(Message):
    """What a `ToolCall` or a `StepBegin` has over ACP only."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()

    @property
    def synthesized(self) -> bool:
        """Whether the agent sent no such event and the SDK made it."""
        return self.extra.get("synthesized") is True


class ToolReturnValueMethods(Message):
    """Short ways to make a `ToolReturnValue`."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def ok(cls, output: Any = "", message: str = "") -> Self:
        """A success: text, content parts, or anything else as JSON text."""
        return cls._made(False, output, message)

    @classmethod
    def error(cls, message: str, output: Any = "") -> Self:
        """A failure; the message is what the model reads."""
        return cls._made(True, output, message)

    @classmethod
    def _made(cls, is_error: bool, output: Any, message: str) -> Self:
        is_content = isinstance(output, str) or (
            isinstance(output, list) and all(isinstance(part, Message) for part in output)
        )
        text = output if is_content else _json(output)
        made = cast(Any, cls)
        return cast("Self", made(is_error, text, message))


def nested(value: Any, kind: type[Message], unknown: type[Message]) -> Message:
    """An item of a message. An object that can't be read is kept as an unknown one."""
    try:
        return kind.from_payload(value)
    except ValueError:
        if not isinstance(value, Mapping):
            raise
    name = value.get("type")
    named = isinstance(name, str)
    rest = {key: item for key, item in value.items() if key != "type" or not named}
    kept: Message = cast(Any, unknown)(name if named else "", rest)
    return kept


class UnknownItemMethods(Message):
    """An item of an unknown type, or one that can't be read: on the wire it stands as it came."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()

    if TYPE_CHECKING:
        type: str

        def __init__(self, extra: Mapping[str, Any] | None = None) -> None: ...

    def to_payload(self) -> dict[str, Any]:
        """The item as it came."""
        found = super().to_payload()
        if not self.type:
            # It had no type that is a word.
            del found["type"]
            found.update((name, _plain(value)) for name, value in self.extra.items())
        return found


class UnknownEventMethods(Message):
    """An `UnknownEvent` stands on the wire as what it was, not as what it is here."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()

    if TYPE_CHECKING:
        type: str
        payload: Any
        error: str | None

        def __init__(self, extra: Mapping[str, Any] | None = None) -> None: ...

    def to_dict(self) -> dict[str, Any]:
        """What came: `{"type": …, "payload": …}`, and `error` where the type is known and the payload is wrong."""
        found = {"type": self.type, "payload": self.payload}
        return found if self.error is None else {**found, "error": self.error}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The opposite of `to_dict`."""
        return cls.from_payload({"payload": None, **data})
