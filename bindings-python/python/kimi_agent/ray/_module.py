"""Ray itself, which is loaded when a program uses it."""

from __future__ import annotations

import copyreg
import dataclasses
import importlib
from typing import Any

from .._errors import InvalidOption

__all__ = ["check_picklable", "load_ray"]


# Dataclasses of the main program are pickled with all their fields, and the value that means "no default" must stay the
# same object: https://github.com/cloudpipe/cloudpickle/issues/424
copyreg.pickle(type(dataclasses.MISSING), lambda _: "MISSING")


def load_ray(module: str = "ray") -> Any:
    """Returns a module of Ray.

    Raises:
        ImportError: Ray is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        text = f'kimi_agent.ray needs Ray with its library for data ({error}): pip install "kimi-agent[ray]"'
        raise ImportError(text, name=error.name) from error


def check_picklable(values: dict[str, Any]) -> None:
    """Checks that the actors can get these values.

    Raises:
        InvalidOption: A value cannot be pickled. The text names it.
    """
    pickle = load_ray("ray.cloudpickle")
    for name, value in values.items():
        problem = None
        try:
            pickle.dumps(value)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if problem is not None:
            del values, value
            hint = "the actors get their options as pickles; make open objects inside of handlers instead"
            raise InvalidOption(f"invalid option `{name}`: it cannot be pickled ({problem}); {hint}", name)
