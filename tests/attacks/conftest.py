"""Every test that takes `host` runs in each language, but for what one of them lacks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from attacks.support import LANGUAGES, Host


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(language, …): the languages in which the attack is possible")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "host" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("needs")
        metafunc.parametrize("language", marker.args if marker else LANGUAGES)


@pytest.fixture
def host(language: str, tmp_path: Path) -> Iterator[Callable[..., Host]]:
    """Starts a host program in this test's language; a second argument list goes in front of its command line."""
    started: list[Host] = []

    def start(*prefix: str, **env: str) -> Host:
        started.append(Host(language, tmp_path, prefix, env))
        return started[-1]

    yield start
    for one in started:
        one.end()
