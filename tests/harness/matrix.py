"""One table of what the real cases found: release by case by language."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from . import releases
from .play import Verdict
from .scenario import Scenario

UNPLAYED = "–"
# Which language's result is which, and the cell's word where all agree.
Results = dict[str, dict[str, dict[str, str]]]


def add(results: Results, verdict: Verdict, languages: Iterable[str]) -> None:
    """Adds what one case came to with one release: release → case → language → word."""
    play = verdict.play
    row = results.setdefault(str(play.version), {}).setdefault(play.scenario.name, {})
    for language in languages:
        if language in play.skips:
            row[language] = UNPLAYED
        elif verdict.complaints:
            mine = [text for text in verdict.complaints if text.startswith(f"{language}:")]
            apart = [text for text in verdict.complaints if " differ\n" in text and language in text.split("\n")[0]]
            row[language] = "FAIL" if mine or apart else "yes"
        elif play.missing:
            row[language] = "unsupported" if play.missing.refused else "lacking"
        else:
            row[language] = "yes"


def read(path: Path) -> Results:
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}


def write(path: Path, results: Results) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1, sort_keys=True), "utf-8")


def cell(row: dict[str, str]) -> str:
    """One word if all languages agree, else each one's."""
    words = set(row.values())
    if not words:
        return UNPLAYED
    if len(words) == 1:
        return words.pop()
    return ", ".join(f"{language} {word}" for language, word in sorted(row.items()))


def table(results: Results, scenarios: list[Scenario]) -> list[list[str]]:
    versions = releases.versions()
    rows = [["", *versions], ["Wire", *(releases.release(version).wire for version in versions)]]
    for scenario in scenarios:
        cells = [cell(results.get(version, {}).get(scenario.name, {})) for version in versions]
        rows.append([scenario.name, *cells])
    return rows


def text(rows: list[list[str]]) -> str:
    """The table for a terminal."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def played(results: Results) -> list[str]:
    return sorted({language for cases in results.values() for row in cases.values() for language in row})


def document(results: Results, scenarios: list[Scenario]) -> str:
    """`docs/compatibility.md`."""
    rows = table(results, scenarios)
    values = [value for row in rows[2:] for value in row[1:]]
    counts = ", ".join(f"{values.count(word)} {word}" for word in sorted(set(values) - {UNPLAYED}))
    unplayed = f"; {values.count(UNPLAYED)} not played" if UNPLAYED in values else ""
    known = [releases.release(version) for version in releases.versions()]
    parts = [
        "<!-- Written by `tests/run_scenarios.py --matrix`: changes belong into tests/harness/matrix.py. -->",
        "# Which releases of kimi-cli it works with",
        _INTRODUCTION.format(languages=_listed(played(results))),
        _markdown(rows),
        f"{counts}{unplayed}.",
        "## What the cases show",
        _markdown([["case", "shows", "needs"], *([one.name, one.about, _codes(one.needs)] for one in scenarios)]),
        "## What came when",
        _markdown([["needed", "which is", "since kimi-cli", "before that"], *map(_feature, releases.features())]),
        "## About the releases",
        "\n".join(f"- {one.version} (Wire {one.wire}): {one.note}." for one in known if one.note),
    ]
    return "\n\n".join(parts) + "\n"


_INTRODUCTION = """\
The cases of `tests/real/cases` are played with real releases and a scripted model, through {languages}.
`make test-matrix` plays them all and writes this page; [tests/README.md](../tests/README.md) says what that takes.

- **yes**: the case does with this release what it does with the newest, apart from what the case itself says of older
  ones, with the reason, under `before`.
- **unsupported**: the release can't do it, and the SDK says so with `Unsupported` instead of going on without it. That
  is played, too.
- **lacking**: the release can't do it, and there is no call or option that the SDK could refuse.
- **{unplayed}**: not played when this page was written.""".replace("{unplayed}", UNPLAYED)


def _markdown(rows: list[list[str]]) -> str:
    head, *body = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([head, f"|{' --- |' * len(rows[0])}", *body])


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def _feature(one: releases.Feature) -> list[str]:
    refusal = f"`Unsupported` from `{one.refused}`" if one.refused else "nothing to refuse"
    return [f"`{one.name}`", one.about, one.since, refusal]


def _listed(names: list[str]) -> str:
    titles = {"rust": "Rust", "python": "Python", "python-sync": "Python's blocking API", "node": "Node"}
    words = [titles.get(name, name) for name in names]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "nothing yet"
