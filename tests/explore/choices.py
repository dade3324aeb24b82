"""Choices that programs are made of: random ones, or those of a list, which a shrinker makes shorter and smaller.

Not hypothesis: it makes many examples that hardly differ, and each costs a second here. Its way of shrinking is this
one: the shrinker knows nothing of programs, and whatever it leaves of a list still gives a valid program.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")
Recorded = list[int]
CHUNKS = (32, 16, 8, 4, 2, 1)


class Choices:
    """Chooses, and records each choice as a number. Zero is the simplest one: what comes first in a list."""

    def __init__(self, random: Random | None = None, given: Sequence[int] = ()) -> None:
        self.recorded: Recorded = []
        self._random = random
        self._given = given

    def number(self, low: int, high: int) -> int:
        """A number between the two, or one of them."""
        place = len(self.recorded)
        if place < len(self._given):
            chosen = min(self._given[place], high - low)
        else:
            chosen = self._random.randint(0, high - low) if self._random else 0
        self.recorded.append(chosen)
        return low + chosen

    def pick(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[self.number(0, len(items) - 1)]

    def flag(self) -> bool:
        """Yes or no, with no as the simplest."""
        return self.number(0, 1) == 1

    def one_in(self, many: int) -> bool:
        """Yes, once in as many times."""
        return self.number(0, many - 1) == many - 1

    def some(self, items: Sequence[T], most: int) -> list[T]:
        """Up to so many of the items, any of them more than once."""
        return [self.pick(items) for _ in range(self.number(0, most))]


def shrink(recorded: Recorded, fails: Callable[[Recorded], bool], seconds: float) -> Recorded:
    """The shortest and smallest list that it finds in that time and that still fails."""
    until = time.monotonic() + seconds
    best, seen = recorded, {tuple(recorded)}

    def better(candidate: Recorded) -> bool:
        nonlocal best
        if tuple(candidate) in seen or time.monotonic() > until:
            return False
        seen.add(tuple(candidate))
        if fails(candidate):
            best = candidate
            return True
        return False

    before = None
    while before != best and time.monotonic() < until:
        before = best
        for size in CHUNKS:
            place = len(best) - size
            while place >= 0:
                # Without the chunk, or with zeros in its place.
                if not better(best[:place] + best[place + size :]) and any(best[place : place + size]):
                    better(best[:place] + [0] * size + best[place + size :])
                place -= size
        for place in range(len(best) - 1, -1, -1):
            while place < len(best) and best[place] > 0:
                lower = (best[place] // 2, best[place] - 1)
                if not any(better([*best[:place], value, *best[place + 1 :]]) for value in lower):
                    break
    return best
