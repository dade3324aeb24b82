"""From a Python annotation to the node that stands for it."""

from __future__ import annotations

import collections
import collections.abc
import enum
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, Union

from .. import _docstring
from .._encode import to_jsonable
from . import nodes
from .formats import text_node
from .nodes import Json, Node, Path, Renderer
from .pydantic_models import constrained_node, model_node

__all__ = ["Resolver", "Unsupported"]


class Unsupported(TypeError):
    """A type that has no JSON form, or one that could not be found by its name."""


_LISTS = {
    list: list,
    collections.deque: collections.deque,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Collection: list,
    collections.abc.Iterable: list,
}
_SETS = {
    set: set,
    frozenset: frozenset,
    collections.abc.Set: frozenset,
    collections.abc.MutableSet: set,
}
_DICTS = {
    dict: dict,
    collections.OrderedDict: collections.OrderedDict,
    collections.abc.Mapping: dict,
    collections.abc.MutableMapping: dict,
}
_QUALIFIERS = {"Required": True, "NotRequired": False}
_Env = Mapping[Any, Any]


class Resolver:
    """Resolves the annotations of one function; a class is resolved once."""

    def __init__(self, globalns: dict[str, Any], localns: Mapping[str, Any]) -> None:
        self._globals = globalns
        self._locals = dict(localns)
        self._known: dict[Any, Node] = {}
        self._open: set[Any] = set()

    def named(self, name: str, annotation: Any) -> Any:
        """The annotation itself, where it may be given as text."""
        holder = types.SimpleNamespace(__annotations__={name: annotation})
        return self._hints(holder, self._globals, self._locals)[name]

    def _hints(self, holder: Any, globalns: dict[str, Any] | None, localns: dict[str, Any]) -> dict[str, Any]:
        try:
            return typing.get_type_hints(holder, globalns, localns, include_extras=True)
        except NameError as error:
            raise Unsupported(
                f"{error}; it must be importable when the tool is made, not under TYPE_CHECKING only"
            ) from None
        except (SyntaxError, TypeError) as error:
            raise Unsupported(f"the annotation cannot be read: {error}") from None

    def node(self, kind: Any, env: _Env | None = None) -> Node:
        env = env or {}
        if kind is Any or kind is object or kind is inspect.Parameter.empty:
            return nodes.AnyValue()
        if kind is None or kind is type(None):
            return nodes.Null()
        if kind in (str, bool, int, float):
            return nodes.Scalar(kind, kind)
        if isinstance(kind, TypeVar):
            return self._type_variable(kind, env)
        if getattr(kind, "__name__", None) == "LiteralString" or getattr(kind, "_name", None) == "LiteralString":
            return nodes.Scalar(str, str)
        if (text := text_node(kind)) is not None:
            return text
        if isinstance(kind, (str, typing.ForwardRef)):
            return self.node(self.named("it", kind), env)
        if (supertype := getattr(kind, "__supertype__", None)) is not None:
            return self.node(supertype, env)
        if type(kind).__name__ == "TypeAliasType":
            return self._alias(kind, kind.__value__, env)
        origin = typing.get_origin(kind)
        if origin is not None:
            args = typing.get_args(kind)
            # typing.List without its item; tuple[()] has none either, and means it.
            bare = not args and getattr(kind, "_name", None) is not None
            return self.node(origin, env) if bare else self._generic(kind, origin, args, env)
        if type(kind).__name__ == "InitVar":
            return self.node(kind.type, env)
        if isinstance(kind, type):
            return self._class(kind, env)
        raise Unsupported(f"{_name(kind)} has no JSON form")

    def _type_variable(self, kind: TypeVar, env: _Env) -> Node:
        if kind in env:
            return self.node(env[kind])
        if kind.__constraints__:
            return nodes.OneOf([self.node(each, env) for each in kind.__constraints__])
        return self.node(kind.__bound__ if kind.__bound__ is not None else Any, env)

    def _generic(self, kind: Any, origin: Any, args: tuple[Any, ...], env: _Env) -> Node:
        if origin is typing.Annotated:
            return self._annotated(kind, args, env)
        if origin is typing.Literal:
            return _literal(args)
        if origin is Union or origin is types.UnionType:
            return nodes.OneOf([self.node(arg, env) for arg in args])
        if getattr(origin, "_name", None) in ("Final", "ReadOnly", *_QUALIFIERS):
            return self.node(args[0], env)
        if type(origin).__name__ == "TypeAliasType":
            return self._alias((origin, args), origin.__value__, self._bound(origin.__type_params__, args, env))
        if origin is tuple:
            if len(args) == 2 and args[1] is Ellipsis:
                return nodes.Items(self.node(args[0], env), tuple, hashable=True)
            return nodes.FixedItems([self.node(arg, env) for arg in args if arg != ()])
        if origin in _LISTS:
            return nodes.Items(self.node(args[0], env), _LISTS[origin])
        if origin in _SETS:
            return self._set(origin, self.node(args[0], env))
        if origin in _DICTS or origin is collections.defaultdict:
            return self._mapping(_DICTS.get(origin, dict), args, env)
        if isinstance(origin, type):
            return self._class(origin, self._bound(getattr(origin, "__parameters__", ()), args, env), key=kind)
        raise Unsupported(f"{_name(kind)} has no JSON form")

    def _bound(self, parameters: tuple[Any, ...], args: tuple[Any, ...], env: _Env) -> _Env:
        return {
            parameter: env.get(arg, arg) if isinstance(arg, TypeVar) else arg
            for parameter, arg in zip(parameters, args)
        }

    def _annotated(self, kind: Any, args: tuple[Any, ...], env: _Env) -> Node:
        extras = args[1:]
        found = constrained_node(kind, extras)
        if found is None:
            found = self.node(args[0], env)
        for extra in extras:
            said = extra if isinstance(extra, str) else getattr(extra, "documentation", None)
            if isinstance(said, str):
                return nodes.Described(found, inspect.cleandoc(said))
        return found

    def _alias(self, key: Any, value: Any, env: _Env) -> Node:
        if key in self._known:
            found = self._known[key]
            if isinstance(found, nodes.Alias):
                found.recursive = True
            return found
        alias = nodes.Alias(_name(key[0] if isinstance(key, tuple) else key))
        self._known[key] = alias
        alias.target = self.node(value, env)
        if alias.recursive:
            return alias
        self._known[key] = alias.target
        return alias.target

    def _mapping(self, build: Callable[[Any], Any], args: tuple[Any, ...], env: _Env) -> Node:
        key = self.node(args[0], env)
        if not isinstance(key, (nodes.Choice, nodes.AnyValue)) and key.label != "string":
            raise Unsupported(f"keys of {_name(args[0])}: JSON has string keys only")
        return nodes.Entries(key, self.node(args[1], env), build)

    def _set(self, origin: Any, item: Node) -> Node:
        if not item.hashable:
            raise Unsupported(f"a set of {item.label}s: what is in a set must be hashable")
        return nodes.Items(item, _SETS[origin], unique=True, hashable=_SETS[origin] is frozenset)

    def _class(self, kind: type, env: _Env, key: Any = None) -> Node:
        key = kind if key is None else key
        if kind in _LISTS:
            return nodes.Items(nodes.AnyValue(), _LISTS[kind])
        if kind is tuple:
            return nodes.Items(nodes.AnyValue(), tuple, hashable=True)
        if kind in _SETS:
            return self._set(kind, nodes.AnyValue())
        if kind in _DICTS:
            return self._mapping(_DICTS[kind], (str, Any), env)
        if issubclass(kind, enum.Enum):
            return _enum(kind)
        if (model := model_node(kind if key is kind else key, kind)) is not None:
            return model
        if key in self._known:
            found = self._known[key]
            if key in self._open and isinstance(found, nodes.Object):
                found.recursive = True
            return found
        self._open.add(key)
        try:
            return self._object(kind, env, key)
        finally:
            self._open.discard(key)

    def _object(self, kind: type, env: _Env, key: Any) -> Node:
        if hasattr(kind, "__dataclass_fields__"):
            return self._dataclass(kind, env, key)
        if issubclass(kind, dict) and hasattr(kind, "__required_keys__"):
            return self._typed_dict(kind, env, key)
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return self._named_tuple(kind, env, key)
        for base in (str, int, float):
            if issubclass(kind, base):
                return nodes.Scalar(kind, base)
        raise Unsupported(
            f"{_name(kind)} has no JSON form; a dataclass, TypedDict, NamedTuple or pydantic model has one"
        )

    def _dataclass(self, kind: Any, env: _Env, key: Any) -> Node:
        import dataclasses

        def build(values: dict[str, Any], path: Path) -> Any:
            return nodes.built(kind, (), values, path)

        found = self._start(kind, key, build, hashable=kind.__hash__ is not None)
        # dataclass() itself writes "Name(a: int, …)" where there is no docstring.
        doc = _docstring.parse("" if (kind.__doc__ or "").startswith(f"{kind.__name__}(") else kind.__doc__)
        found.description = doc.description or None
        hints = self._class_hints(kind)
        fields = {field.name: field for field in dataclasses.fields(kind)}
        for parameter in inspect.signature(kind).parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            field = fields.get(parameter.name)
            said = doc.parameters.get(parameter.name)
            if field is not None and isinstance(field.metadata.get("description"), str):
                said = field.metadata["description"]
            hint = hints.get(parameter.name, parameter.annotation)
            self._add(found, kind, parameter.name, hint, parameter.default, said, env)
        return found

    def _typed_dict(self, kind: Any, env: _Env, key: Any) -> Node:
        found = self._start(kind, key, lambda values, path: values, hashable=False)
        doc = _docstring.parse(kind.__doc__)
        found.description = doc.description or None
        for name, hint in self._class_hints(kind).items():
            required = name in kind.__required_keys__
            # With annotations given as text the class itself could not see its qualifiers.
            while (qualifier := getattr(typing.get_origin(hint), "_name", None)) in (*_QUALIFIERS, "ReadOnly"):
                required = _QUALIFIERS.get(qualifier, required)
                hint = typing.get_args(hint)[0]
            default = inspect.Parameter.empty if required else None
            self._add(found, kind, name, hint, default, doc.parameters.get(name), env, show_default=False)
        return found

    def _named_tuple(self, kind: Any, env: _Env, key: Any) -> Node:
        def build(values: dict[str, Any], path: Path) -> Any:
            return nodes.built(kind, (), values, path)

        found = self._start(kind, key, build)
        doc = _docstring.parse("" if (kind.__doc__ or "").startswith(f"{kind.__name__}(") else kind.__doc__)
        found.description = doc.description or None
        hints = self._class_hints(kind)
        for name in kind._fields:
            default = kind._field_defaults.get(name, inspect.Parameter.empty)
            self._add(found, kind, name, hints.get(name, Any), default, doc.parameters.get(name), env)
        found.hashable = all(member.node.hashable for member in found.members.values())
        return found

    def _start(
        self, kind: type, key: Any, build: Callable[[dict[str, Any], Path], Any], hashable: bool = True
    ) -> nodes.Object:
        found = nodes.Object(kind.__name__, build, hashable=hashable)
        self._known[key] = found
        return found

    def _class_hints(self, kind: type) -> dict[str, Any]:
        localns = {**self._locals, kind.__name__: kind}
        if sys.version_info >= (3, 11):
            return self._hints(kind, None, localns)
        # Python 3.10 refuses InitVar[…] given as text.
        found: dict[str, Any] = {}
        for base in reversed(kind.__mro__):
            globalns = vars(sys.modules[base.__module__]) if base.__module__ in sys.modules else {}
            for name, hint in vars(base).get("__annotations__", {}).items():
                if isinstance(hint, str) and "InitVar" in hint:
                    hint = eval(hint, globalns, localns)
                holder = types.SimpleNamespace(__annotations__={name: getattr(hint, "type", hint)})
                found |= self._hints(holder, globalns, localns)
        return found

    def _add(
        self,
        to: nodes.Object,
        owner: type,
        name: str,
        hint: Any,
        default: Any,
        description: str | None,
        env: _Env,
        show_default: bool = True,
    ) -> None:
        try:
            node = self.node(hint, env)
        except Unsupported as error:
            raise Unsupported(f"field {name!r} of {owner.__name__}: {error}") from None
        to.members[name] = member(name, node, default, description, show_default)


def member(name: str, node: Node, default: Any, description: str | None, show_default: bool = True) -> nodes.Member:
    """A member of an object from what a signature says of it."""
    required = default is inspect.Parameter.empty
    shown: Json | None = None
    if not required and show_default:
        if default is None and not node.accepts_null():
            # "limit: int = None" is what people write for Optional[int].
            node = nodes.OneOf([node, nodes.Null()])
        try:
            shown = {"default": to_jsonable(default)}
        except TypeError:
            shown = None
    return nodes.Member(name, node, required, description, shown)


def render(node: nodes.Object) -> Json:
    """The schema of a function's parameters, its `$defs` at the root."""
    out = Renderer()
    found = node.body(out)
    return {**found, "$defs": out.defs} if out.defs else found


def _literal(args: tuple[Any, ...]) -> Node:
    pairs: list[tuple[Any, Any]] = []
    for arg in args:
        value = arg.value if isinstance(arg, enum.Enum) else arg
        if not isinstance(value, (str, int, bool, type(None))):
            raise Unsupported(f"Literal[{arg!r}] has no JSON form")
        pairs.append((value, arg))
    return nodes.Choice(pairs)


def _enum(kind: type[enum.Enum]) -> Node:
    members = list(kind)
    if not members:
        raise Unsupported(f"{kind.__name__} has no members")
    if all(isinstance(each.value, (str, int, float, bool, type(None))) for each in members):
        return nodes.Choice((to_jsonable(each), each) for each in members)
    return nodes.Choice((each.name, each) for each in members)


def _name(kind: Any) -> str:
    module = getattr(kind, "__module__", "")
    name = getattr(kind, "__qualname__", None) or getattr(kind, "__name__", None)
    if not isinstance(kind, type) or typing.get_origin(kind) is not None or name is None:
        return str(name) if type(kind).__name__ == "TypeAliasType" else repr(kind)
    return name if module in ("builtins", "__main__") else f"{module}.{name}"
