"""One table of what the real cases found: release by case by language, and the file that keeps it.

The file is `tests/real/results.json`. What it says of a case holds for the case as it was played: a row carries a
fingerprint, and one whose case has been changed since counts as not played.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import releases
from .play import Verdict
from .scenario import REAL_LANGUAGES, Scenario
from .trace import compact

UNPLAYED = "–"
WORDS = ("yes", "unsupported", "lacking")
"""The text of a cell without problems."""
TITLES = {"rust": "Rust", "python": "Python", "python-sync": "Python's blocking API", "node": "Node"}
# They say nothing about what is played.
_TOLD_ONLY = frozenset({"about", "needs", "before", "kimi_code", "kimi_web"})
_ABOUT = (
    "What tests/real/cases came to. Written by `tests/run_scenarios.py --matrix`; `of` tells which state of the case."
)


@dataclass
class Row:
    """The results of one case with one release, by language."""

    of: str
    words: dict[str, str] = field(default_factory=dict)


Results = dict[str, dict[str, Row]]
"""By case, then by release."""


def fingerprint(scenario: Scenario, version: str) -> str:
    """Of all that is played of the case with that release, and of what has to come out."""
    data: dict[str, Any] = releases.cast(scenario, version).scenario.data
    played = {key: value for key, value in data.items() if key not in _TOLD_ONLY}
    return hashlib.sha256(compact(played).encode()).hexdigest()[:12]


def add(results: Results, verdict: Verdict, of: str, languages: Iterable[str]) -> None:
    """Adds the outcome of a case with a release to the outcomes of other languages."""
    play = verdict.play
    rows = results.setdefault(play.scenario.name, {})
    version = str(play.version)
    if version not in rows or rows[version].of != of:
        rows[version] = Row(of)
    for language in languages:
        if language not in play.skips:
            rows[version].words[language] = _word(verdict, language)


def _word(verdict: Verdict, language: str) -> str:
    mine = [text for text in verdict.complaints if text.startswith(f"{language}:")]
    apart = [text for text in verdict.complaints if " differ\n" in text and language in text.split("\n")[0].split()]
    if mine or apart:
        return "FAIL"
    missing = verdict.play.missing
    if missing:
        return "unsupported" if missing.refused else "lacking"
    return "yes"


def read(path: Path) -> Results:
    if not path.exists():
        return {}
    cases = json.loads(path.read_text("utf-8"))["cases"]
    return {case: {version: _row(**row) for version, row in rows.items()} for case, rows in cases.items()}


def _row(of: str, **words: str) -> Row:
    return Row(of, words)


def write(path: Path, results: Results) -> None:
    """One line a case and release, in the order of the table, so that a change shows as what it is."""
    order = {version: place for place, version in enumerate(releases.versions())}
    cases = []
    for case, rows in sorted(results.items()):
        lines = [
            f"   {json.dumps(version)}: {json.dumps({'of': row.of, **dict(sorted(row.words.items()))})}"
            for version, row in sorted(rows.items(), key=lambda item: (order.get(item[0], len(order)), item[0]))
        ]
        cases.append(f"  {json.dumps(case)}: {{\n" + ",\n".join(lines) + "\n  }")
    text = f' "about": {json.dumps(_ABOUT)},\n "cases": {{\n' + ",\n".join(cases) + "\n }"
    path.write_text(f"{{\n{text}\n}}\n", "utf-8")


def current(results: Results, scenarios: Iterable[Scenario]) -> Results:
    """Without what is said of cases and releases that are gone, or that have changed since."""
    kept: Results = {}
    for scenario in scenarios:
        rows = results.get(scenario.name, {})
        known = [version for version in releases.versions() if version in rows]
        found = {version: rows[version] for version in known if rows[version].of == fingerprint(scenario, version)}
        if found:
            kept[scenario.name] = found
    return kept


def played(results: Results, scenario: Scenario, version: str) -> dict[str, str]:
    """The languages in which the case needs no further playing with that release, and why."""
    row = results.get(scenario.name, {}).get(version)
    if row is None or row.of != fingerprint(scenario, version):
        return {}
    return {language: "it was played before" for language, word in row.words.items() if word != "FAIL"}


def cell(words: Mapping[str, str], languages: Iterable[str] = REAL_LANGUAGES) -> str:
    """One word if all languages agree, else each one's."""
    languages = tuple(languages)
    names = [*languages, *sorted(set(words) - set(languages))]
    found = {name: words.get(name, UNPLAYED) for name in names}
    if len(set(found.values())) == 1:
        return found[names[0]]
    return ", ".join(f"{TITLES.get(name, name)} {word}" for name, word in found.items())


def protocol(release: releases.Release) -> str:
    """That the release speaks, for people."""
    if release.server:
        return "its API"
    if release.kimi_code:
        return release.wire.replace("acp-", "ACP ")
    return release.wire if release.wire == "legacy" else f"Wire {release.wire}"


def table(results: Results, scenarios: list[Scenario]) -> list[list[str]]:
    versions = releases.versions()
    known = [releases.release(version) for version in versions]
    rows = [["", *(one.title for one in known)], ["speaks", *map(protocol, known)]]
    for scenario in scenarios:
        found = results.get(scenario.name, {})
        cells = [cell(found[one.version].words if one.version in found else {}, one.languages) for one in known]
        rows.append([scenario.name, *cells])
    return rows


def text(rows: list[list[str]]) -> str:
    """The table for a terminal."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def unexplained(results: Results, scenarios: list[Scenario]) -> list[str]:
    """Cells that nothing in the page accounts for: not played, not in every language, or failed."""
    head, _, *rows = table(results, scenarios)
    return [
        f"{row[0]} with {version}: {value}"
        for row in rows
        for version, value in zip(head[1:], row[1:], strict=True)
        if value not in WORDS
    ]
