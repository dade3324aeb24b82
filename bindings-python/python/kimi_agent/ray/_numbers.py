"""Numbers among the options."""

from __future__ import annotations

from .._errors import InvalidOption

__all__ = ["RESERVED", "check_numbers", "find_limits"]

RESERVED = {"num_cpus": 0.25}
"""The default options of an actor. Sessions mostly wait for the model."""


def find_limits(option: str, actors: int | tuple[int, int]) -> tuple[int, int]:
    """Returns the smallest and the largest number of actors."""
    smallest, largest = (actors, actors) if isinstance(actors, int) else actors
    check_numbers(**{option: smallest})
    if largest < smallest:
        text = f"invalid option `{option}`: the largest number {largest} is below the smallest, {smallest}"
        raise InvalidOption(text, option)
    return smallest, largest


def check_numbers(**numbers: int) -> None:
    """Checks that each option is at least 1."""
    for name, number in numbers.items():
        if number < 1:
            raise InvalidOption(f"invalid option `{name}`: expected a number from 1 on, got {number}", name)
