"""Pydantic models as parameter types. Pydantic is never imported here: a program that uses it has done so."""

from __future__ import annotations

import sys
from typing import Any

from .nodes import Json, Mismatch, Node, Path, Renderer

_TEMPLATE = "#/$defs/{model}"


class Pydantic(Node):
    """A type that pydantic describes and validates itself."""

    hashable = False

    def __init__(self, adapter: Any, name: str) -> None:
        self._adapter = adapter
        self.label = name
        self._null = _null_fits(adapter)

    def schema(self, out: Renderer) -> Json:
        found: Json = self._adapter.json_schema(ref_template=_TEMPLATE)
        renamed: dict[str, str] = {}
        defs: dict[str, Json] = found.pop("$defs", {})
        for name, body in defs.items():
            # Two models of one name in different modules: the second one gets another name here.
            same = out.defs.get(name) == _rewritten(body, {})
            renamed[name] = name if same else out.free_name(name)
            out.defs.setdefault(renamed[name], {})
        changed = {f"#/$defs/{old}": f"#/$defs/{new}" for old, new in renamed.items() if old != new}
        for name, body in defs.items():
            out.defs[renamed[name]] = _rewritten(body, changed)
        return dict(_rewritten(found, changed))

    def convert(self, value: Any, path: Path) -> Any:
        try:
            return self._adapter.validate_python(value)
        except ValueError as error:
            raise _mismatch(error, path) from error

    def accepts_null(self) -> bool:
        return self._null


def model_node(kind: Any, cls: type) -> Node | None:
    """The node of a pydantic model (version 2), None if `cls` is none."""
    pydantic = sys.modules.get("pydantic")
    base = getattr(pydantic, "BaseModel", None)
    if base is None or not issubclass(cls, base):
        return None
    adapter = getattr(pydantic, "TypeAdapter", None)
    if adapter is None:
        raise TypeError(f"{cls.__name__}: pydantic 2 is needed for models as parameters")
    return Pydantic(adapter(kind), cls.__name__)


def constrained_node(kind: Any, extras: tuple[Any, ...]) -> Node | None:
    """The node of `Annotated[int, Field(ge=1)]` and its like, whose limits only pydantic can check."""
    pydantic = sys.modules.get("pydantic")
    if pydantic is None or not hasattr(pydantic, "TypeAdapter"):
        return None
    for extra in extras:
        if type(extra).__module__.partition(".")[0] in ("pydantic", "annotated_types"):
            return Pydantic(pydantic.TypeAdapter(kind), "a fitting value")
    return None


def _null_fits(adapter: Any) -> bool:
    try:
        adapter.validate_python(None)
    except ValueError:
        return False
    return True


def _mismatch(error: ValueError, path: Path) -> Mismatch:
    """All that pydantic says: a model that calls the tool can then mend everything at once."""
    errors = getattr(error, "errors", None)
    if errors is None:
        return Mismatch(path, str(error))
    return Mismatch.joined([Mismatch((*path, *found["loc"]), found["msg"]) for found in errors(include_url=False)])


def _rewritten(value: Any, refs: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {
            key: refs.get(item, item) if key == "$ref" and isinstance(item, str) else _rewritten(item, refs)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_rewritten(item, refs) for item in value]
    return value
