"""The base of all wire types. The types themselves are in `_wire`, which is generated."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from itertools import repeat
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, cast

from ._hints import no_attribute

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
    "text_parts_maker",
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
    # The attributes that the SDK adds. They are not part of the wire form.
    _added: ClassVar[tuple[str, ...]] = ()

    def __init__(self, extra: Mapping[str, Any] | None = None) -> None:
        keep(self, "extra", extra or _NOTHING)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name)

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
        """Returns the message as JSON, without the envelope that names its type. None values are left out.

        >>> TextPart("Hello").to_payload()
        {'type': 'text', 'text': 'Hello'}
        """
        found: dict[str, Any] = {} if self._tag is None else {"type": self._tag}
        for name in self._fields:
            value = getattr(self, name)
            if value is not None:
                found[name] = value.to_dict() if name in self._events else _plain(value)
        for name, value in self.extra.items():
            # A list that could not be read is empty here, and in `extra` as it came.
            if name not in found or found[name] == []:
                found[name] = _plain(value)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Returns the message in its wire form, `{"type": …, "payload": …}`; a part of a message as plain JSON.

        >>> StepBegin(n=1).to_dict()
        {'type': 'StepBegin', 'payload': {'n': 1}}
        """
        if self._wire_type is None:
            return self.to_payload()
        return {"type": self._wire_type, "payload": self.to_payload()}

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> Self:
        """Returns a message from its payload, the opposite of `to_payload`.

        Args:
            payload: The fields. Fields that the SDK does not know are kept in `extra`.

        Raises:
            ValueError: The payload is not an object, or a required field is missing.

        >>> StepBegin.from_payload({"n": 1})
        StepBegin(n=1)
        """
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
        """Returns a message from its wire form, the opposite of `to_dict`. `event_from_dict` takes any event.

        Args:
            data: The wire form.

        Raises:
            ValueError: The wire form is of another type, or a required field is missing.

        >>> StepBegin.from_dict({"type": "StepBegin", "payload": {"n": 1}})
        StepBegin(n=1)
        """
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
    set_text, set_id, set_extra = kind.text.__set__, kind.message_id.__set__, kind.extra.__set__

    def make(text: str) -> Message:
        made = new(kind)
        set_text(made, text)
        set_id(made, None)
        set_extra(made, _NOTHING)
        return made

    return make


def text_parts_maker(kind: Any) -> Callable[[list[str]], list[Message]]:
    """Returns a function that makes several pieces of text at once. Loops in C cost half as much as calls of `make`."""
    new: Callable[[Any], Message] = object.__new__
    set_text, set_id, set_extra = kind.text.__set__, kind.message_id.__set__, kind.extra.__set__
    run = deque[None](maxlen=0).extend

    def make(texts: list[str]) -> list[Message]:
        made = [*map(new, repeat(kind, len(texts)))]
        run(map(set_text, made, texts))
        run(map(set_id, made, repeat(None)))
        run(map(set_extra, made, repeat(_NOTHING)))
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
    # Imported here, because most programs do not need it.
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
    """The attributes of an `ApprovalRequest` over ACP."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()

    @property
    def options(self) -> list[dict[str, Any]] | None:
        """The options that the agent offers over ACP, each with `optionId`, `name` and `kind`. None without ACP."""
        found = self.extra.get("options")
        return found if isinstance(found, list) else None


class SynthesizedMethods(Message):
    """The attributes of a `ToolCall` or a `StepBegin` over ACP."""

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
        """Returns the result of a call that succeeded.

        Args:
            output: Text, content parts, or any other JSON, which the model reads as JSON text. Default: empty.
            message: A note on the result, which the model reads. Default: empty.

        >>> ToolReturnValue.ok({"temperature": 21}).output
        '{"temperature": 21}'
        """
        return cls._made(False, output, message)

    @classmethod
    def error(cls, message: str, output: Any = "") -> Self:
        """Returns the result of a call that failed.

        Args:
            message: The text of the error, which the model reads.
            output: Text, content parts, or any other JSON, for example the output until the failure. Default: empty.

        >>> ToolReturnValue.error("no such city").is_error
        True
        """
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
        """Returns the item as it came.

        >>> UnknownContentPart("hologram", {"depth": 3}).to_payload()
        {'type': 'hologram', 'depth': 3}
        """
        found = super().to_payload()
        if not self.type:
            # The `type` of the message was not text; it is in `extra`.
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
        """Returns the message as it came: `{"type": …, "payload": …}`, and `error` if a payload is invalid.

        >>> UnknownEvent("Weather", {"sky": "clear"}).to_dict()
        {'type': 'Weather', 'payload': {'sky': 'clear'}}
        """
        found = {"type": self.type, "payload": self.payload}
        return found if self.error is None else {**found, "error": self.error}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Returns an event from its wire form, the opposite of `to_dict`.

        Args:
            data: The wire form.

        Raises:
            ValueError: The wire form has no `type`.

        >>> UnknownEvent.from_dict({"type": "Weather", "payload": {"sky": "clear"}})
        UnknownEvent(type='Weather', payload={'sky': 'clear'})
        """
        return cls.from_payload({"payload": None, **data})
