"""Descriptions out of docstrings, in the styles that people write."""

from __future__ import annotations

import pytest

from kimi_agent._docstring import parse

GOOGLE = """Finds things.

Args:
    query: what to look for,
        on two lines
    limit (int, optional): how many
    *rest: others

Raises:
    ValueError: if not
"""
NUMPY = """Finds things.

Parameters
----------
query : str
    what to look for,
    on two lines
limit : int, optional
    how many
rest
    others

Raises
------
ValueError
    if not
"""
SPHINX = """Finds things.

:param query: what to look for,
    on two lines
:param int limit: how many
:type query: str
:param rest: others
:raises ValueError: if not
"""
PLAIN = """Finds things.

Keyword arguments:
query -- what to look for, on two lines
limit -- how many
rest -- others
"""


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX, PLAIN], ids=["google", "numpy", "sphinx", "plain"])
def test_every_style_says_the_same(text: str) -> None:
    found = parse(text)
    assert found.description == "Finds things."
    assert found.parameters == {"query": "what to look for, on two lines", "limit": "how many", "rest": "others"}


def test_two_names_in_one_numpy_line() -> None:
    assert parse("X.\n\nParameters\n----------\na, b : int\n    both\n").parameters == {"a": "both", "b": "both"}


def test_what_is_not_about_parameters_stays() -> None:
    text = """Finds things.

    Note:
        Slow.

    :returns: a list

    Mind this: it is not a section.
    """
    assert (
        parse(text).description
        == "Finds things.\n\nNote:\n    Slow.\n\nReturns: a list\n\nMind this: it is not a section."
    )


@pytest.mark.parametrize("text", [None, "", "   \n  "])
def test_nothing_said(text: str | None) -> None:
    assert parse(text) == ("", {})


def test_a_section_without_content_and_text_after_it() -> None:
    found = parse("Finds.\n\nArgs:\n\nMore text.")
    assert found.parameters == {}
    assert "More text." in found.description
