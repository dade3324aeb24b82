"""Types as JSON Schema, held against arguments by an independent validator."""

from __future__ import annotations

import collections.abc as abc
import datetime
import decimal
import enum
import pathlib
import typing
import uuid
from collections import OrderedDict, deque
from dataclasses import InitVar, dataclass, field
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, Optional, TypedDict, TypeVar, Union

import pydantic
import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kimi_agent import ToolArgumentError, tool

T = TypeVar("T")
UserId = NewType("UserId", int)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Shape(enum.Enum):
    """Its values have no JSON form, so its names stand for them."""

    ROUND = object()
    FLAT = frozenset({1})


class Tag(str):
    def __new__(cls, text: str) -> Tag:
        if not text:
            raise ValueError("a tag is not empty")
        return super().__new__(cls, text)


@dataclass(frozen=True)
class Point:
    x: float
    y: float = 0.0


@dataclass
class Tree:
    """A tree."""

    name: str
    children: list[Tree] = field(default_factory=list)
    parent: Optional[Tree] = None  # noqa: UP045
    at: Point = Point(0.0)


@dataclass(kw_only=True)
class Order:
    item: str = field(metadata={"description": "what"})
    count: int = 1
    scale: InitVar[int] = 1
    total: int = field(init=False)

    def __post_init__(self, scale: int) -> None:
        self.total = self.count * scale


@dataclass
class Box(Generic[T]):
    value: T
    others: list[T]


class Window(NamedTuple):
    width: int
    height: int = 10


class Movie(TypedDict):
    title: str
    year: typing_extensions.NotRequired[int]


class Partial(TypedDict, total=False):
    title: typing_extensions.Required[str]
    year: int


class Model(pydantic.BaseModel):
    """A model."""

    name: str
    size: int = pydantic.Field(ge=1, description="how big")
    next: Optional[Model] = None  # noqa: UP045


class Renamed(pydantic.BaseModel):
    inner: Model = pydantic.Field(alias="in")


Json = typing_extensions.TypeAliasType("Json", "dict[str, Json] | list[Json] | str | None")


def parameter(kind: Any) -> Any:
    """A tool with one parameter of this type."""

    def take(value: Any) -> Any:
        return value

    take.__annotations__ = {"value": kind}
    return tool(take)


def schema_of(kind: Any) -> dict[str, Any]:
    made = parameter(kind)
    Draft202012Validator.check_schema(made.parameters)
    return dict(made.parameters["properties"]["value"])


def convert(kind: Any, value: Any) -> Any:
    return parameter(kind).handler({"value": value})


POINT: dict[str, Any] = {
    "type": "object",
    "properties": {"x": {"type": "number"}, "y": {"type": "number", "default": 0.0}},
    "required": ["x"],
    "additionalProperties": False,
}

SCHEMAS: list[tuple[Any, dict[str, Any]]] = [
    (str, {"type": "string"}),
    (int, {"type": "integer"}),
    (float, {"type": "number"}),
    (bool, {"type": "boolean"}),
    (None, {"type": "null"}),
    (Any, {}),
    (object, {}),
    (list, {"type": "array"}),
    (typing.List, {"type": "array"}),  # noqa: UP006
    (list[int], {"type": "array", "items": {"type": "integer"}}),
    (abc.Sequence[str], {"type": "array", "items": {"type": "string"}}),
    (deque[int], {"type": "array", "items": {"type": "integer"}}),
    (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
    (frozenset, {"type": "array", "uniqueItems": True}),
    (tuple, {"type": "array"}),
    (tuple[()], {"type": "array", "maxItems": 0}),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
    (
        tuple[int, str],
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
    ),
    (dict, {"type": "object"}),
    (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
    (OrderedDict[str, Any], {"type": "object"}),
    (dict[Color, int], {
        "type": "object",
        "additionalProperties": {"type": "integer"},
        "propertyNames": {"type": "string", "enum": ["red", "blue"]},
    }),
    (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045
    (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
    (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Literal[1, "a", None], {"enum": [1, "a", None]}),
    (Literal[Color.RED], {"type": "string", "enum": ["red"]}),
    (Color, {"type": "string", "enum": ["red", "blue"]}),
    (Level, {"type": "integer", "enum": [1, 2]}),
    (Shape, {"type": "string", "enum": ["ROUND", "FLAT"]}),
    (UserId, {"type": "integer"}),
    (Tag, {"type": "string"}),
    (datetime.datetime, {"type": "string", "format": "date-time"}),
    (datetime.date, {"type": "string", "format": "date"}),
    (datetime.time, {"type": "string", "format": "time"}),
    (pathlib.Path, {"type": "string", "format": "path"}),
    (uuid.UUID, {"type": "string", "format": "uuid"}),
    (decimal.Decimal, {"type": "string", "format": "decimal"}),
    (bytes, {"type": "string", "contentEncoding": "base64"}),
    (Annotated[list[Annotated[int, "one"]], "all"], {
        "type": "array",
        "items": {"type": "integer", "description": "one"},
        "description": "all",
    }),
    (Annotated[int, typing_extensions.Doc("how many")], {"type": "integer", "description": "how many"}),
    (Annotated[int, pydantic.Field(ge=1)], {"type": "integer", "minimum": 1}),
    (Point, POINT),
    ("Point", POINT),
    ("list[Point] | None", {"anyOf": [{"type": "array", "items": POINT}, {"type": "null"}]}),
    (Box[int], {
        "type": "object",
        "properties": {"value": {"type": "integer"}, "others": {"type": "array", "items": {"type": "integer"}}},
        "required": ["value", "others"],
        "additionalProperties": False,
    }),
    (Order, {
        "type": "object",
        "properties": {
            "item": {"type": "string", "description": "what"},
            "count": {"type": "integer", "default": 1},
            "scale": {"type": "integer", "default": 1},
        },
        "required": ["item"],
        "additionalProperties": False,
    }),
    (Window, {
        "type": "object",
        "properties": {"width": {"type": "integer"}, "height": {"type": "integer", "default": 10}},
        "required": ["width"],
        "additionalProperties": False,
    }),
    (Movie, {
        "type": "object",
        "properties": {"title": {"type": "string"}, "year": {"type": "integer"}},
        "required": ["title"],
        "additionalProperties": False,
    }),
    (Partial, {
        "type": "object",
        "properties": {"title": {"type": "string"}, "year": {"type": "integer"}},
        "required": ["title"],
        "additionalProperties": False,
    }),
    (Tree, {"$ref": "#/$defs/Tree"}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "schema"), SCHEMAS, ids=[str(kind) for kind, _ in SCHEMAS])
def test_the_schema_of_a_type(kind: Any, schema: dict[str, Any]) -> None:
    assert schema_of(kind) == schema


def test_a_type_that_contains_itself_stands_in_defs() -> None:
    parameters = parameter(Tree).parameters
    assert parameters["$defs"]["Tree"]["properties"]["children"] == {
        "type": "array",
        "items": {"$ref": "#/$defs/Tree"},
    }
    tree = {"name": "a", "children": [{"name": "b", "at": {"x": 1}}]}
    Draft202012Validator(parameters).validate({"value": tree})
    assert convert(Tree, tree) == Tree("a", [Tree("b", [], None, Point(1.0))])
    with pytest.raises(ToolArgumentError, match=r"value\.children\[0\]\.at\.y: expected number, got null"):
        convert(Tree, {"name": "a", "children": [{"name": "b", "at": {"x": 1, "y": None}}]})


def test_two_types_of_one_name_are_kept_apart() -> None:
    @dataclass
    class Tree:
        below: Optional[Tree]  # noqa: UP045

    def take(a: Any, b: Any) -> None: ...

    take.__annotations__ = {"a": globals()["Tree"], "b": Tree}
    assert sorted(tool(take).parameters["$defs"]) == ["Tree", "Tree2"]


CONVERTED: list[tuple[Any, Any, Any]] = [
    (int, 3.0, 3),
    (float, 3, 3.0),
    (abc.Sequence[int], [1], [1]),
    (deque[int], [1], deque([1])),
    (set[int], [1, 1, 2], {1, 2}),
    (frozenset[str], ["a"], frozenset({"a"})),
    (abc.Set[str], ["a"], frozenset({"a"})),
    (tuple[int, str], [1, "a"], (1, "a")),
    (tuple[int, ...], [1, 2], (1, 2)),
    (set[tuple[int, str]], [[1, "a"]], {(1, "a")}),
    (OrderedDict[str, int], {"a": 1}, OrderedDict(a=1)),
    (dict[Color, int], {"red": 1}, {Color.RED: 1}),
    (Literal[1, "a", None], None, None),
    (Literal[Color.RED], "red", Color.RED),
    (Color, "blue", Color.BLUE),
    (Level, 2, Level.HIGH),
    (Shape, "FLAT", Shape.FLAT),
    (Tag, "x", Tag("x")),
    (Union[float, int], 1, 1),
    (Union[int, float], 1.5, 1.5),
    (Union[datetime.date, str], "2024-02-30", "2024-02-30"),
    (Union[datetime.date, str], "2024-02-29", datetime.date(2024, 2, 29)),
    (datetime.datetime, "2024-02-29T10:00:00Z", datetime.datetime(2024, 2, 29, 10, tzinfo=datetime.timezone.utc)),
    (datetime.datetime, "2024-02-29t10:00:00.5+00:00", datetime.datetime(
        2024, 2, 29, 10, 0, 0, 500000, datetime.timezone.utc)),
    (datetime.time, "10:30:00.123456789", datetime.time(10, 30, 0, 123456)),
    (pathlib.Path, "a/b", pathlib.Path("a/b")),
    (pathlib.PurePosixPath, "a/b", pathlib.PurePosixPath("a/b")),
    (uuid.UUID, "12345678-1234-5678-1234-567812345678", uuid.UUID("12345678-1234-5678-1234-567812345678")),
    (decimal.Decimal, "1.10", decimal.Decimal("1.10")),
    (decimal.Decimal, 1.1, decimal.Decimal("1.1")),
    (bytes, "aGk=", b"hi"),
    (Order, {"item": "a", "count": 2, "scale": 3}, None),
    (Box[Point], {"value": {"x": 1}, "others": [{"x": 2}]}, Box(Point(1.0), [Point(2.0)])),
    (Window, {"width": 1}, Window(1, 10)),
    (Movie, {"title": "a"}, {"title": "a"}),
    (Model, {"name": "a", "size": 2, "next": {"name": "b", "size": 1}}, Model(
        name="a", size=2, next=Model(name="b", size=1))),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "wanted"), CONVERTED, ids=[str(kind) for kind, _, _ in CONVERTED])
def test_arguments_arrive_as_the_declared_type(kind: Any, value: Any, wanted: Any) -> None:
    found = convert(kind, value)
    if kind is Order:
        assert (found.item, found.total) == ("a", 6)
    else:
        assert (found, type(found)) == (wanted, type(wanted))


REFUSED: list[tuple[Any, Any, str]] = [
    (int, True, "value: expected integer, got true"),
    (int, 1.5, "value: expected integer, got 1.5"),
    (int, "1", 'value: expected integer, got "1"'),
    (float, 10**400, "value: expected number, got 1000"),
    (bool, 1, "value: expected boolean, got 1"),
    (str, None, "value: expected string, got null"),
    (list[int], {"a": 1}, 'value: expected array, got {"a": 1}'),
    (set[Any], [[1]], "value: expected items that can stand in a set"),
    (tuple[int, str], [1], r"value: expected array of 2, got \[1\]"),
    (dict[Color, int], {"green": 1}, 'value.green: expected one of "red", "blue", got "green"'),
    (Literal[1], True, "value: expected one of 1, got true"),
    (Tag, "", "value: a tag is not empty"),
    (Union[Point, Window], {"x": "a"}, 'value.x: expected number, got "a"'),
    (datetime.date, "20240229", 'value: expected date, got "20240229"'),
    (datetime.datetime, "soon", 'value: expected date and time, got "soon"'),
    (decimal.Decimal, "NaN", 'value: expected decimal number, got "NaN"'),
    (bytes, "%", 'value: expected base64 text, got "%"'),
    (uuid.UUID, 5, "value: expected UUID, got 5"),
    (Partial, {"year": 1}, "value.title: missing, expected string"),
    (Model, {"name": "a", "size": 0}, "value.size: Input should be greater than or equal to 1"),
    (Model, {"name": "a", "size": 1, "next": {"size": 1}}, "value.next.name: Field required"),
    (Annotated[int, pydantic.Field(ge=1)], 0, "value: Input should be greater than or equal to 1"),
]


@pytest.mark.parametrize(("kind", "value", "message"), REFUSED, ids=[str(kind) for kind, _, _ in REFUSED])
def test_arguments_that_do_not_fit(kind: Any, value: Any, message: str) -> None:
    with pytest.raises(ToolArgumentError, match=f"^invalid arguments: {message}"):
        convert(kind, value)


def test_all_mismatches_of_the_arguments_are_told() -> None:
    @tool
    def place(model: Model, at: Point, name: str) -> None: ...

    wrong = {"model": {"size": 0, "next": {"name": 3, "size": 1}}, "at": {"x": "a"}, "nme": "b"}
    with pytest.raises(ToolArgumentError) as caught:
        place.handler(wrong)
    assert str(caught.value).removeprefix("invalid arguments: ").split("; ") == [
        "model.name: Field required",
        "model.size: Input should be greater than or equal to 1",
        "model.next.name: Input should be a valid string",
        'at.x: expected number, got "a"',
        "nme: unexpected, there is only model, at, name",
        "name: missing, expected string",
    ]


def test_many_mismatches_are_told_in_part() -> None:
    @tool
    def add(numbers: list[Annotated[int, pydantic.Field(ge=1)]], models: dict[str, Model]) -> None: ...

    with pytest.raises(ToolArgumentError, match=r"and 5 more$") as caught:
        add.handler({"numbers": [], "models": {}, **{f"wrong{at}": at for at in range(25)}})
    assert str(caught.value).count(";") == 20


def test_pydantic_models_bring_their_defs() -> None:
    def take(a: Any, b: Any) -> Any:
        return a, b

    take.__annotations__ = {"a": Model, "b": list[Renamed]}
    made = tool(take)
    Draft202012Validator.check_schema(made.parameters)
    assert made.parameters["$defs"]["Model"]["properties"]["size"]["description"] == "how big"
    arguments = {"a": {"name": "a", "size": 1}, "b": [{"in": {"name": "b", "size": 2}}]}
    Draft202012Validator(made.parameters).validate(arguments)
    a, b = made.handler(arguments)
    assert (a, b[0].inner) == (Model(name="a", size=1), Model(name="b", size=2))


# Property: whatever an independent validator lets through is converted, and what it refuses is refused.

PLAIN_KINDS: list[Any] = [
    str,
    int,
    float,
    bool,
    list[int],
    dict[str, bool],
    tuple[int, str],
    tuple[bool, ...],
    int | None,
    Union[int, str, list[bool]],
    Literal["a", "b", 1],
    Color,
    Level,
    dict[Color, int],
    Point,
    Window,
    Movie,
    Partial,
    Box[Union[int, Point]],
    list[Union[Point, Window, None]],
    Tree,
    Order,
]

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.0, 1.5, 2.0, "", "a", "b", "red", "x"]),
)


def values_of(schema: dict[str, Any], root: dict[str, Any], depth: int = 0) -> st.SearchStrategy[Any]:
    """JSON values that fit a schema, or, now and then, do not."""
    if depth > 4:
        return SCALARS
    if "$ref" in schema:
        return values_of(root["$defs"][schema["$ref"].rpartition("/")[2]], root, depth + 1)
    if "anyOf" in schema:
        fitting: st.SearchStrategy[Any] = st.one_of(*[values_of(each, root, depth + 1) for each in schema["anyOf"]])
    elif "enum" in schema:
        fitting = st.sampled_from(schema["enum"])
    elif schema.get("type") == "array":
        items = [values_of(each, root, depth + 1) for each in schema.get("prefixItems", [])]
        rest = values_of(schema.get("items", {}), root, depth + 1)
        fitting = st.one_of(st.tuples(*items).map(list), st.lists(rest, max_size=3))
    elif schema.get("type") == "object":
        members = {name: values_of(each, root, depth + 1) for name, each in schema.get("properties", {}).items()}
        known = st.fixed_dictionaries({}, optional=members)
        more = schema.get("additionalProperties")
        further = values_of(more, root, depth + 1) if isinstance(more, dict) else SCALARS
        names = st.sampled_from(["red", "blue", "x", "other"])
        fitting = st.one_of(known, st.dictionaries(names, further, max_size=2))
    else:
        kinds: dict[str, st.SearchStrategy[Any]] = {
            "string": st.sampled_from(["", "a", "red"]),
            "integer": st.integers(-3, 3),
            "number": st.sampled_from([0, 1.5, -2]),
            "boolean": st.booleans(),
            "null": st.none(),
        }
        fitting = kinds.get(str(schema.get("type")), SCALARS)
    return st.one_of(fitting, fitting, fitting, SCALARS)


@pytest.mark.parametrize("kind", PLAIN_KINDS, ids=[str(kind) for kind in PLAIN_KINDS])
@given(data=st.data())
def test_conversion_and_schema_agree(kind: Any, data: st.DataObject) -> None:
    made = parameter(kind)
    arguments = {"value": data.draw(values_of(made.parameters["properties"]["value"], made.parameters))}
    valid = Draft202012Validator(made.parameters).is_valid(arguments)
    try:
        made.handler(arguments)
        taken = True
    except ToolArgumentError:
        taken = False
    assert taken == valid


@given(st.datetimes(timezones=st.just(datetime.timezone.utc)), st.sampled_from(["", "Z", "+02:00"]))
def test_dates_and_times_are_read_as_the_rfc_writes_them(moment: datetime.datetime, zone: str) -> None:
    text = moment.replace(tzinfo=None).isoformat() + zone
    assert convert(datetime.datetime, text).replace(tzinfo=None) == moment.replace(tzinfo=None)
    assert convert(datetime.date, moment.date().isoformat()) == moment.date()


def test_recursive_type_aliases() -> None:
    made = parameter("Json")
    Draft202012Validator.check_schema(made.parameters)
    assert made.parameters["properties"]["value"] == {"$ref": "#/$defs/Json"}
    assert made.handler({"value": {"a": ["b", None]}}) == {"a": ["b", None]}
    with pytest.raises(ToolArgumentError, match=r"value\.a\[0\]: expected object or array or string or null, got 3"):
        made.handler({"value": {"a": [3]}})
