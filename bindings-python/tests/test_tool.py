"""`@tool`: signatures and docstrings become tools, and arguments become those of a call."""

from __future__ import annotations

import asyncio
import datetime
import enum
import functools
import inspect
import logging
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Optional, Union

import pydantic
import pytest
import typing_extensions

from kimi_agent import ExternalTool, FunctionTool, Hook, InvalidOption, ToolArgumentError, sync, tool

pytestmark = pytest.mark.interpreter


def call(made: ExternalTool, **arguments: Any) -> Any:
    result = made.handler(arguments)
    return asyncio.run(result) if asyncio.iscoroutine(result) else result


def parameter(kind: Any) -> Any:
    """A tool with one parameter of this type, which it returns."""

    def take(value: Any) -> Any:
        return value

    take.__annotations__ = {"value": kind}
    return tool(take)


@dataclass
class Filters:
    """Which records count."""

    limit: int = 10
    kind: Literal["open", "closed"] = "open"


class Color(enum.Enum):
    RED = "red"


class Window(NamedTuple):
    width: int
    height: int = 10


class Movie(typing_extensions.TypedDict):
    title: str
    year: typing_extensions.NotRequired[int]


class Model(pydantic.BaseModel):
    size: int = pydantic.Field(ge=1, description="how big")
    next: Optional[Model] = None  # noqa: UP045


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]
    name: str

    @pydantic.field_validator("name")
    @classmethod
    def is_short(cls, name: str) -> str:
        if len(name) > 5:
            raise ValueError("choose a short name")
        return name


def test_signature_becomes_schema() -> None:
    @tool
    def search(query: str, filters: Filters, tags: list[str] | None = None, *, exact: bool = False) -> str:
        """Searches the records.

        The newest come first.

        Args:
            query: what to look for
            filters: narrows it down
            exact (bool): whole words only

        Returns:
            One record a line.

        Raises:
            OSError: never mind
        """
        return f"{query} {filters} {tags} {exact}"

    assert isinstance(search, FunctionTool)
    assert search.name == "search"
    assert search.timeout is None
    assert search.description == "Searches the records.\n\nThe newest come first.\n\nReturns: One record a line."
    assert search.parameters == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "what to look for"},
            "filters": {"$ref": "#/$defs/Filters", "description": "narrows it down"},
            "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}], "default": None},
            "exact": {"type": "boolean", "description": "whole words only", "default": False},
        },
        "required": ["query", "filters"],
        "additionalProperties": False,
        "$defs": {
            "Filters": {
                "type": "object",
                "description": "Which records count.",
                "properties": {
                    "limit": {"type": "integer", "default": 10},
                    "kind": {"type": "string", "enum": ["open", "closed"], "default": "open"},
                },
                "additionalProperties": False,
            }
        },
    }
    assert call(search, query="q", filters={"limit": 3}, tags=["a"]) == "q Filters(limit=3, kind='open') ['a'] False"
    assert search("q", Filters(), exact=True) == "q Filters(limit=10, kind='open') None True"


GOOGLE = """Finds things.

Args:
    query: what to look for
    limit (int, optional): how many

Raises:
    ValueError: if not
"""
NUMPY = """Finds things.

Parameters
----------
query : str
    what to look for
limit : int, optional
    how many

Raises
------
ValueError
    if not
"""
SPHINX = """Finds things.

:param query: what to look for
:param int limit: how many
:raises ValueError: if not"""


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_docstring_describes_function_and_parameters(text: str, caplog: pytest.LogCaptureFixture) -> None:
    def find(query: str, limit: int = 10) -> None: ...

    find.__doc__ = text
    with caplog.at_level(logging.DEBUG):
        made = tool(find)
    assert made.description == "Finds things."
    described = {name: value["description"] for name, value in made.parameters["properties"].items()}
    assert described == {"query": "what to look for", "limit": "how many"}
    assert not caplog.records


def test_docstring_notes_stay_in_description() -> None:
    @tool
    def find() -> None:
        """Finds things.

        Note:
            Slow.

        Mind this: it is not a section.
        """

    assert find.description == "Finds things.\n\nNote: Slow.\n\nMind this: it is not a section."
    assert parameter(int).description == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "filters: Missing required"),
        ({"filters": 3}, "filters: Input should be an object$"),
        ({"filters": {"limit": "3"}}, "filters.limit: Input should be a valid integer$"),
        ({"filters": {"limit": True}}, "filters.limit: Input should be a valid integer$"),
        ({"filters": {"kind": "x"}}, "filters.kind: Input should be 'open' or 'closed'$"),
        ({"filters": {"max": 1}}, "filters.max: Unexpected keyword argument$"),
        ({"filters": {}, "all": [1, "x"]}, r"all\[1\]: Input should be a valid integer$"),
        ({"filters": {}, "more": {"a": {"limit": 0.5}}}, "more.a.limit: Input should be a valid integer$"),
        ({"filter": {}}, "filters: Missing required .*; filter: Unexpected keyword argument$"),
        ([], r"expected an object, got \[\]$"),
    ],
)
def test_invalid_arguments_are_named_without_call(arguments: Any, message: str) -> None:
    called: list[Any] = []

    @tool
    def count(filters: Filters, all: list[int | None] | None = None, more: dict[str, Filters] | None = None) -> None:
        called.append(filters)

    with pytest.raises(ToolArgumentError, match=f"^invalid arguments: {message}"):
        count.handler(arguments)
    assert not called


@pytest.mark.parametrize(
    ("pet", "message"),
    [
        ({"kind": "cat"}, r"pet.Cat.lives: Field required$"),
        ({"kind": "dog", "name": 3}, r"pet.Dog.name: Input should be a valid string$"),
        ({"kind": "dog", "name": "Rex the second"}, r"pet.Dog.name: choose a short name$"),
        (
            {"kind": "cow", "name": "Rex"},
            r"pet.Cat.kind: Input should be 'cat'; .*pet.Dog.kind: Input should be 'dog'$",
        ),
        ("x", r"pet.Cat: .*; pet.Dog: .*; pet.int: Input should be a valid integer$"),
    ],
)
def test_errors_of_nearest_union_member(pet: Any, message: str) -> None:
    @tool
    def keep(pet: Union[Cat, Dog, int]) -> None:
        raise AssertionError("not called")

    with pytest.raises(ToolArgumentError, match=f"^invalid arguments: {message}"):
        keep.handler({"pet": pet})


def test_long_pattern_is_shortened_for_model() -> None:
    @tool
    def find(name: Annotated[str, pydantic.Field(pattern="^(" + "a|" * 1000 + "b)$")]) -> None:
        raise AssertionError("not called")

    with pytest.raises(ToolArgumentError) as caught:
        find.handler({"name": "x"})
    assert len(str(caught.value)) < 350


def test_many_mistakes_are_listed_in_part() -> None:
    with pytest.raises(ToolArgumentError, match=r"and 6 more$") as caught:
        call(parameter(int), value=1, **{f"wrong{at}": at for at in range(26)})
    assert str(caught.value).count(";") == 20


@pytest.mark.parametrize(
    ("kind", "value", "converted"),
    [
        (int, 3.0, 3),
        (float, 3, 3.0),
        (Color, "red", Color.RED),
        (bytes, "aGk=", b"hi"),
        (set[int], [1, 1], {1}),
        (Window, [1], Window(1)),
        (Window, {"width": 1}, Window(1)),
        (Movie, {"title": "a"}, {"title": "a"}),
        (Union[datetime.date, str], "2024-02-29", datetime.date(2024, 2, 29)),
        (datetime.timedelta, "PT5S", datetime.timedelta(seconds=5)),
        (Model, {"size": 2, "next": {"size": "1"}}, Model(size=2, next=Model(size=1))),
    ],
)
def test_arguments_arrive_as_declared_type(kind: Any, value: Any, converted: Any) -> None:
    found = call(parameter(kind), value=value)
    assert (found, type(found)) == (converted, type(converted))


def test_named_tuple_schema_keeps_field_names() -> None:
    window = parameter(Window).parameters["$defs"]["Window"]
    assert [item["title"] for item in window["prefixItems"]] == ["width", "height"]
    for kind in (Color, Movie, Model):
        body = parameter(kind).parameters["$defs"][kind.__name__]
        assert "title" not in body
        assert all("title" not in item for item in body.get("properties", {}).values())


def test_local_types_are_found_in_string_annotations() -> None:
    @dataclass
    class Leaf:
        n: int

    @dataclass
    class Tree:
        children: list[Tree]
        leaf: Leaf | None = None

    @tool
    def count(tree: Tree) -> str:
        return repr(tree)

    assert call(count, tree={"children": [{"children": [], "leaf": {"n": 1}}]}).endswith("leaf=None)")


def test_error_of_argument_type_is_argument_error() -> None:
    @dataclass
    class Span:
        start: int
        end: int

        def __post_init__(self) -> None:
            if self.end < self.start:
                raise ValueError("end is before start")

    made = parameter(list[Span])
    assert call(made, value=[{"start": 1, "end": 2}]) == [Span(1, 2)]
    with pytest.raises(ToolArgumentError, match=r"value\[1\]: .*end is before start$"):
        call(made, value=[{"start": 1, "end": 2}, {"start": 2, "end": 1}])


def test_async_function_stays_async() -> None:
    @tool(name="later", description="Waits.", timeout=2.5)
    async def wait(n: int) -> int:
        """Not this."""
        return n

    assert (wait.name, wait.description, wait.timeout) == ("later", "Waits.", 2.5)
    assert inspect.iscoroutinefunction(wait.handler)
    assert call(wait, n=3) == 3


class Store:
    """Holds something."""

    def __init__(self, value: str) -> None:
        self.value = value

    @tool
    def read(self, key: str) -> str:
        """Reads a key."""
        return f"{self.value}:{key}"

    @staticmethod
    @tool
    def where(depth: int = 0) -> int:
        return depth

    def plain(self, key: str) -> str:
        return f"{self.value}/{key}"

    async def __call__(self, key: str) -> str:
        """Fetches a key."""
        return f"{self.value}!{key}"


def test_methods_partials_and_callable_objects_become_tools() -> None:
    store = Store("s")
    assert list(Store.read.parameters["properties"]) == ["key"]
    assert call(store.read, key="k") == "s:k"
    assert store.read.name == "read"
    assert store.read("k") == "s:k"
    with pytest.raises(TypeError, match="read is a method: pass the tool of an instance"):
        call(Store.read, key="k")
    refused = r"tools\[0\] \(read\) is a method: pass the tool of an instance, not of the class"
    with pytest.raises(InvalidOption, match=refused):
        sync.create_session(executable="/no/such/agent", tools=[Store.read])
    assert call(Store.where, depth=2) == 2
    assert call(tool(store.plain), key="k") == "s/k"

    fetch = tool(store)
    assert (fetch.name, fetch.description) == ("Store", "Fetches a key.")
    assert call(fetch, key="k") == "s!k"

    def send(connection: object, /, to: str, subject: Callable[[], str], body: str = "") -> str:
        """Sends a letter."""
        return f"{connection} {to} {subject()} {body}"

    bound = tool(functools.partial(send, "wire", subject=lambda: "hi"))
    assert (bound.name, bound.description) == ("send", "Sends a letter.")
    assert list(bound.parameters["properties"]) == ["to", "body"]
    assert call(bound, to="you", body="b") == "wire you hi b"


def test_wrapped_function_shows_inner_signature() -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return ("logged", function(*args, **kwargs))

        return wrapper

    @tool
    @logged
    def double(n: int) -> int:
        """Doubles."""
        return 2 * n

    assert double.parameters["required"] == ["n"]
    assert call(double, n=2) == ("logged", 4)


def test_positional_only_and_variable_arguments_are_passed() -> None:
    @tool
    def add(a: int, b: int = 2, /, c: int = 3, **more: int) -> tuple[int, int, int, dict[str, int]]:
        return a, b, c, more

    assert add.parameters["additionalProperties"] == {"type": "integer"}
    assert call(add, a=1, c=5, d=7) == (1, 2, 5, {"d": 7})
    with pytest.raises(ToolArgumentError, match="d: Input should be a valid integer"):
        call(add, a=1, d="x")


def test_parameters_may_have_names_of_pydantic() -> None:
    @tool
    def take(schema: str, model_config: int, _hidden: bool, values: int, self: int) -> str:
        return f"{schema} {model_config} {_hidden} {values} {self}"

    assert call(take, schema="a", model_config=1, _hidden=True, values=2, self=3) == "a 1 True 2 3"


def test_annotated_text_wins_over_docstring() -> None:
    @tool
    def greet(
        name: Annotated[str, "whom"],
        times: Annotated[int, typing_extensions.Doc("how often")] = 1,
        size: Annotated[int, pydantic.Field(ge=1, description="how big")] = 1,
    ) -> None:
        """Greets.

        Args:
            name: not this
            size: not this
        """

    properties = greet.parameters["properties"]
    assert properties["name"] == {"type": "string", "description": "whom"}
    assert properties["times"] == {"type": "integer", "description": "how often", "default": 1}
    assert properties["size"] == {"type": "integer", "description": "how big", "default": 1, "minimum": 1}


def test_defaults_without_json_form_are_left_out() -> None:
    unset = object()

    @tool
    def find(a: Any = unset, b: int = None, c: str = "x") -> Any:  # type: ignore[assignment]  # noqa: RUF013
        return a is unset, b, c

    properties = find.parameters["properties"]
    assert properties["a"] == {}
    assert properties["b"] == {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
    assert call(find) == (True, None, "x")
    assert call(find, b=None) == (True, None, "x")


class Opaque:
    pass


@dataclass
class Holder:
    inner: Opaque


def _star(a: int, *rest: int) -> None: ...
def _socket(s: Opaque) -> None: ...
def _nested(h: Holder) -> None: ...
def _missing(x: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def _callable(f: Callable[[], int]) -> None: ...


def _made(a: int) -> None: ...


def _value(o: object()) -> None: ...  # type: ignore[valid-type]


def _method(self, a: int) -> None: ...  # type: ignore[no-untyped-def]


class Plain:
    def find(self, key: str) -> None: ...


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tool(_star), r"^_star\(\): parameter '\*rest': arguments come by name, so there can be no \*args"),
        (lambda: tool(_socket), r"^_socket\(\): parameter 's': it cannot be described with a JSON Schema: .*Opaque"),
        (lambda: tool(_nested), r"^_nested\(\): parameter 'h': it cannot be described with a JSON Schema: .*Opaque"),
        (lambda: tool(_missing), r"^_missing\(\): parameter 'x': name 'Nowhere' is not defined; it must be importable"),
        (lambda: tool(_callable), r"^_callable\(\): parameter 'f': it cannot be described with a JSON Schema"),
        (lambda: tool(_value), r"^_value\(\): parameter 'o': .*object"),
        (
            lambda: tool(_method),
            r"^_method\(\): parameter 'self': a function has none; decorate the method in its class",
        ),
        (
            lambda: tool(Plain.find),
            r"^find\(\): it is a method of a class: pass .*`tool\(instance\.find\)`, or decorate",
        ),
        (lambda: tool(tool(_made)), r"^@tool needs a function, got the tool '_made', which is made already"),
        (lambda: tool(lambda x: x), r"^a tool made of a lambda needs a name"),
        (lambda: tool(3), r"^@tool needs a function, got 3$"),  # type: ignore[call-overload]
        (lambda: tool(Store), r"^@tool needs a function, got <class"),
    ],
)
def test_unusable_tool_function_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


def test_unresolvable_result_annotation_is_ignored() -> None:
    @tool
    def f(x: int) -> Nowhere:  # type: ignore[name-defined]  # noqa: F821
        return x

    assert call(f, x=1) == 1


@pytest.mark.parametrize("missing", ["pydantic", "griffe"])
def test_missing_tool_package_error_names_install(missing: str, tmp_path: Path) -> None:
    code = f"""
import sys
sys.modules[{missing!r}] = None
from kimi_agent import ExternalTool, tool
ExternalTool("add", "Adds.", {{"type": "object"}}, print)
assert not {{"pydantic", "griffe"}} & {{name for name, module in sys.modules.items() if module}}
try:
    @tool
    def add(a: int) -> int: ...
except ImportError as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert ran.stdout.startswith('@tool needs pydantic 2 and griffe: pip install "kimi-agent[tools]"')


def test_external_tool_needs_no_decorator() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    made = ExternalTool("add", "Adds.", schema, lambda arguments: arguments["a"], timeout=3)
    assert (made.name, made.description, made.parameters, made.timeout) == ("add", "Adds.", schema, 3)
    assert made.handler({"a": 1}) == 1
    assert repr(made) == "ExternalTool('add')"
    with pytest.raises(AttributeError):
        made.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, "", {}, print), "name: expected text, got 3"),
        (("t", None, {}, print), "tool t: description: expected text, got None"),
        (("t", "", [], print), r"tool t: parameters: expected a JSON Schema as a dict, got \[\]"),
        (("t", "", {}, 3), "tool t: handler: expected a function, got 3"),
        (("t", "", {}, print, 0), "tool t: timeout: expected seconds above 0, got 0"),
    ],
)
def test_wrong_external_tool_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        ExternalTool(*arguments)


def test_timeout_may_be_timedelta() -> None:
    @tool(timeout=datetime.timedelta(minutes=1))
    def wait() -> None:
        """Waits."""

    assert wait.timeout == 60
    half = datetime.timedelta(milliseconds=500)
    made = ExternalTool("a", "", {"type": "object"}, lambda arguments: None, timeout=half)
    assert made.timeout == 0.5
    assert Hook("Stop", lambda request: None, timeout=datetime.timedelta(seconds=2)).timeout == 2
    with pytest.raises(TypeError, match="expected seconds above 0"):
        ExternalTool("a", "", {}, print, timeout=datetime.timedelta(0))
