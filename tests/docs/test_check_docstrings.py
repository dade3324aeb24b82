"""The check of docstrings notices each thing that can be missing, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from check_docstrings import Checker

COMPLETE = '''
"""A package."""

__all__ = ["Point", "scale"]


class Shape:
    def draw(self) -> None:
        """Draws the shape.

        >>> Point().draw()
        """


class Point(Shape):
    """A point.

    Args:
        x: The distance in metres. Default: 0.

    >>> Point(1)
    Point(1)
    """

    def __init__(self, x: int = 0) -> None:
        self._x = x

    @property
    def is_origin(self) -> bool:
        """Whether it is the origin."""
        return self._x == 0


def scale(point: Point, factor: int = 2) -> Point:
    """Makes a point that is farther away.

    Args:
        point: The point.
        factor: The factor. Default: 2.

    Returns:
        A new point.

    >>> moved = scale(Point(1))
    >>> moved.is_origin
    False
    """
    return Point(point._x * factor)
'''


def mistakes(folder: Path, text: str) -> list[str]:
    package = folder / "shapes"
    package.mkdir()
    (package / "__init__.py").write_text(text)
    return [mistake.split(": ", 1)[1] for mistake in Checker(folder, ("shapes",)).mistakes()]


def test_complete_docstrings_have_no_mistakes(tmp_path: Path) -> None:
    assert mistakes(tmp_path, COMPLETE) == []


@pytest.mark.parametrize(
    ("old", "new", "mistake"),
    [
        ('        """Whether it is the origin."""\n', "", "shapes.Point.is_origin: the docstring is missing"),
        ("        >>> Point().draw()\n", "", "shapes.Point.draw: the example is missing"),
        ("        x: The distance in metres. Default: 0.\n", "", "shapes.Point: the parameter `x` is missing"),
        ("        point: The point.\n", "", "shapes.scale: the parameter `point` is missing"),
        ("The factor. Default: 2.", "The factor.", "shapes.scale: the default of `factor` is missing"),
        ("    Returns:\n        A new point.\n", "", "shapes.scale: the result is missing"),
        ("    >>> Point(1)\n", "", "shapes.Point: the example is missing"),
    ],
)
def test_missing_part_is_mistake(tmp_path: Path, old: str, new: str, mistake: str) -> None:
    assert COMPLETE.count(old) == 1
    (found,) = mistakes(tmp_path, COMPLETE.replace(old, new))
    assert mistake in found


def test_invalid_examples_are_mistakes() -> None:
    checker = Checker()
    checker.examples = {
        "kimi_agent.correct": ["result = await turn.result()", "print(result.text)"],
        "kimi_agent.wrong_type": ["result = await turn.result()", "print(result.txt)"],
        "kimi_agent.unknown_name": ["result = await turns.result()"],
        "kimi_agent.sync.correct": ["result = turn.result()", "print(result.text)"],
    }
    wrong_type, unknown_name = checker.type_mistakes()
    assert wrong_type.startswith(
        'kimi_agent.wrong_type: the example: error: "PromptResult[Any]" has no attribute "txt"'
    )
    assert unknown_name.startswith('kimi_agent.unknown_name: the example: error: Name "turns" is not defined')
