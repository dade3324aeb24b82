"""`@tool`: what comes out of signatures and docstrings, and what happens to arguments."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal

import pytest

from kimi_agent import ExternalTool, FunctionTool, Hook, ToolArgumentError, tool


def call(made: ExternalTool, **arguments: Any) -> Any:
    result = made.handler(arguments)
    return asyncio.run(result) if asyncio.iscoroutine(result) else result


@dataclass
class Filters:
    """Which records count.

    Attributes:
        limit: how many at the most
    """

    limit: int = 10
    kind: Literal["open", "closed"] = "open"


def test_a_signature_becomes_a_schema() -> None:
    @tool
    def search(query: str, filters: Filters, tags: list[str] | None = None, *, exact: bool = False) -> str:
        """Searches the records.

        The newest come first.

        Args:
            query: what to look for,
                in any order
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
    assert search.description == ("Searches the records.\n\nThe newest come first.\n\nReturns:\n    One record a line.")
    assert search.parameters == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "what to look for, in any order"},
            "filters": {
                "type": "object",
                "description": "Which records count.",
                "properties": {
                    "limit": {"type": "integer", "description": "how many at the most", "default": 10},
                    "kind": {"type": "string", "enum": ["open", "closed"], "default": "open"},
                },
                "additionalProperties": False,
            },
            "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}], "default": None},
            "exact": {"type": "boolean", "description": "whole words only", "default": False},
        },
        "required": ["query", "filters"],
        "additionalProperties": False,
    }
    assert call(search, query="q", filters={"limit": 3}, tags=["a"]) == "q Filters(limit=3, kind='open') ['a'] False"
    assert search("q", Filters(), exact=True) == "q Filters(limit=10, kind='open') None True"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "invalid arguments: filters: missing, expected object"),
        ({"filters": 3}, "invalid arguments: filters: expected object, got 3"),
        ({"filters": {"limit": "x"}}, 'invalid arguments: filters.limit: expected integer, got "x"'),
        ({"filters": {"limit": True}}, "invalid arguments: filters.limit: expected integer, got true"),
        ({"filters": {"kind": "x"}}, 'invalid arguments: filters.kind: expected one of "open", "closed", got "x"'),
        ({"filters": {"max": 1}}, "invalid arguments: filters.max: unexpected, there is only limit, kind"),
        ({"filters": {}, "all": [1, "x"]}, 'invalid arguments: all[1]: expected integer or null, got "x"'),
        ({"filters": {}, "more": {"a": {"limit": 0.5}}}, "invalid arguments: more.a.limit: expected integer, got 0.5"),
        ([], "invalid arguments: expected object, got []"),
    ],
)
def test_wrong_arguments_are_named_by_their_path(arguments: Any, message: str) -> None:
    called: list[Any] = []

    @tool
    def count(filters: Filters, all: list[int | None] | None = None, more: dict[str, Filters] | None = None) -> None:
        called.append(filters)

    with pytest.raises(ToolArgumentError) as caught:
        count.handler(arguments)
    assert str(caught.value) == message
    assert not called


def test_a_refusal_of_the_type_itself_is_an_argument_error() -> None:
    @dataclass
    class Span:
        start: int
        end: int

        def __post_init__(self) -> None:
            if self.end < self.start:
                raise ValueError("end is before start")

    @tool
    def cut(spans: list[Span]) -> int:
        return len(spans)

    assert call(cut, spans=[{"start": 1, "end": 2}]) == 1
    with pytest.raises(ToolArgumentError, match=r"^invalid arguments: spans\[1\]: end is before start$"):
        call(cut, spans=[{"start": 1, "end": 2}, {"start": 2, "end": 1}])


def test_async_functions_stay_async() -> None:
    @tool(name="later", description="Waits.", timeout=2.5)
    async def wait(n: int) -> int:
        """Not this."""
        return n

    assert (wait.name, wait.description, wait.timeout) == ("later", "Waits.", 2.5)
    assert asyncio.iscoroutinefunction(wait.handler)
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


def test_methods_partials_and_callable_objects() -> None:
    store = Store("s")
    assert list(Store.read.parameters["properties"]) == ["key"]
    assert call(store.read, key="k") == "s:k"
    assert store.read.name == "read"
    assert store.read("k") == "s:k"
    with pytest.raises(TypeError, match="read is a method: pass the tool of an instance"):
        call(Store.read, key="k")
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


def test_a_wrapped_function_shows_the_inner_signature() -> None:
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


def test_positional_only_and_further_arguments() -> None:
    @tool
    def add(a: int, b: int = 2, /, c: int = 3, **more: int) -> tuple[int, int, int, dict[str, int]]:
        return a, b, c, more

    assert add.parameters["additionalProperties"] == {"type": "integer"}
    assert call(add, a=1, c=5, d=7) == (1, 2, 5, {"d": 7})
    with pytest.raises(ToolArgumentError, match='d: expected integer, got "x"'):
        call(add, a=1, d="x")


def test_annotated_text_wins_over_the_docstring() -> None:
    @tool
    def greet(name: Annotated[str, "whom"], times: Annotated[int, "how often"] = 1) -> None:
        """Greets.

        Args:
            name: not this
        """

    assert greet.parameters["properties"]["name"] == {"type": "string", "description": "whom"}
    assert greet.parameters["properties"]["times"] == {"type": "integer", "description": "how often", "default": 1}


def test_defaults_that_json_cannot_say_are_left_out() -> None:
    unset = object()

    @tool
    def find(a: Any = unset, b: int = None, c: str = "x") -> Any:  # type: ignore[assignment]  # noqa: RUF013
        return a is unset, b, c

    properties = find.parameters["properties"]
    assert properties["a"] == {}
    assert properties["b"] == {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
    assert call(find) == (True, None, "x")
    assert call(find, b=None) == (True, None, "x")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tool(_star), r"^_star\(\): parameter '\*rest': arguments come by name, so there can be no \*args"),
        (lambda: tool(_socket), r"^_socket\(\): parameter 's': tests?\.?.*Opaque has no JSON form; a dataclass"),
        (lambda: tool(_nested), r"^_nested\(\): parameter 'h': field 'inner' of Holder: .*Opaque has no JSON form"),
        (lambda: tool(_keys), r"^_keys\(\): parameter 'd': keys of int: JSON has string keys only$"),
        (lambda: tool(_set), r"^_set\(\): parameter 's': a set of objects: what is in a set must be hashable$"),
        (lambda: tool(_missing), r"^_missing\(\): parameter 'x': name 'Nowhere' is not defined; it must be importable"),
        (lambda: tool(_callable), r"^_callable\(\): parameter 'f': collections\.abc\.Callable has no JSON form"),
        (lambda: tool(lambda x: x), r"^a tool made of a lambda needs a name"),
        (lambda: tool(3), r"^@tool needs a function, got 3$"),  # type: ignore[call-overload]
        (lambda: tool(Store), r"^@tool needs a function, got <class"),
    ],
)
def test_what_cannot_be_a_tool_says_why(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


class Opaque:
    pass


@dataclass
class Holder:
    inner: Opaque


def _star(a: int, *rest: int) -> None: ...
def _socket(s: Opaque) -> None: ...
def _nested(h: Holder) -> None: ...
def _keys(d: dict[int, str]) -> None: ...
def _set(s: set[Filters]) -> None: ...
def _missing(x: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def _callable(f: Callable[[], int]) -> None: ...


def test_an_unresolvable_return_annotation_does_not_matter() -> None:
    @tool
    def f(x: int) -> Nowhere:  # type: ignore[name-defined]  # noqa: F821
        return x

    assert call(f, x=1) == 1


def test_an_external_tool_by_hand() -> None:
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
def test_a_wrong_external_tool_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        ExternalTool(*arguments)


def test_timeout_may_be_a_timedelta() -> None:
    @tool(timeout=timedelta(minutes=1))
    def wait() -> None:
        """Waits."""

    assert wait.timeout == 60
    made = ExternalTool("a", "", {"type": "object"}, lambda arguments: None, timeout=timedelta(milliseconds=500))
    assert made.timeout == 0.5
    assert Hook("Stop", lambda request: None, timeout=timedelta(seconds=2)).timeout == 2
    with pytest.raises(TypeError, match="expected seconds above 0"):
        ExternalTool("a", "", {}, print, timeout=timedelta(0))
