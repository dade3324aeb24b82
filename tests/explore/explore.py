"""Plays random programs, and shrinks one that fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from . import acp_messages, messages, programs
from .checks import Complaint
from .choices import Choices, shrink
from .programs import Program

Judge = Callable[[Program], list[Complaint]]
SHRINK_SECONDS = 120.0


@dataclass(frozen=True)
class Failure:
    """A program that fails, as small as it could be made."""

    program: Program
    complaints: list[Complaint]
    steady: bool
    """Whether it fails each time."""


def make(choices: Choices, kind: str) -> Program:
    """A program of this kind."""
    if kind == "messages":
        return messages.make(choices)
    return acp_messages.make(choices) if kind == "acp" else programs.make(choices, kind == "exact")


def program(seed: int, kind: str, number: int) -> tuple[list[int], Program]:
    """A program, and the choices that it is made of. The same arguments give the same one."""
    choices = Choices(Random(f"{seed}/{kind}/{number}"))
    made = make(choices, kind)
    return choices.recorded, made


def explore(seed: int, kind: str, number: int, judge: Judge, seconds: float = SHRINK_SECONDS) -> Failure | None:
    """Plays a program. Returns the failure, if it is one, with the smallest program that fails, too."""
    recorded, made = program(seed, kind, number)
    wrong = judge(made)
    if not wrong:
        return None
    smallest = Failure(made, wrong, steady=False)

    def fails(tried: list[int]) -> bool:
        nonlocal smallest
        made = make(Choices(given=tried), kind)
        wrong = judge(made)
        if wrong:
            smallest = Failure(made, wrong, steady=True)
        return bool(wrong)

    if fails(recorded):
        shrink(recorded, fails, seconds)
    return smallest
