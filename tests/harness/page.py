"""`docs/evidence/compatibility.md`: the table for people to read, with what explains its cells."""

from __future__ import annotations

from collections.abc import Iterable

from . import releases
from .matrix import UNPLAYED, WORDS, Results, protocol, table
from .scenario import Scenario


def document(results: Results, scenarios: list[Scenario]) -> str:
    rows = table(results, scenarios)
    values = [value for row in rows[2:] for value in row[1:]]
    other = sorted(set(values) - {*WORDS, UNPLAYED})
    counts = ", ".join(f"{values.count(word)} {word}" for word in [*WORDS, *other])
    unplayed = f"; {values.count(UNPLAYED)} not played" if UNPLAYED in values else ""
    known = [releases.release(version) for version in releases.versions()]
    parts = [
        "<!-- Written by `tests/run_scenarios.py --matrix` from tests/real/results.json: changes belong into "
        "tests/harness/page.py. -->",
        "# Which releases of kimi-cli and Kimi Code it works with",
        _INTRODUCTION,
        _markdown(rows),
        f"{counts}{unplayed}.",
        "## What the cases show",
        _markdown([["case", "shows", "needs"], *([one.name, one.about, _codes(one.needs)] for one in scenarios)]),
        "## What came when",
        "If a case is **unsupported** or **lacking** with kimi-cli, the release is older than a feature of the case.",
        _markdown([["feature", "meaning", "since kimi-cli", "before"], *map(_feature, releases.features())]),
        "## Where older releases differ",
        "These cases are **yes** with older releases of kimi-cli, too, but with the following differences.",
        _markdown([["case", "before kimi-cli", "what differs"], *_differences(scenarios)]),
        *_kimi_code(scenarios),
        "## About the releases",
        "\n".join(f"- {one.title} ({protocol(one)}): {one.note}." for one in known if one.note),
    ]
    return "\n\n".join(parts) + "\n"


_INTRODUCTION = """\
The cases of `tests/real/cases` are played with real releases and a scripted model, in Rust, Python and Node.
`make test-real` plays them all and writes this page. [tests/README.md](../../tests/README.md) has the requirements.
`make test` plays a [selection](../../tests/README.md#all-of-it-and-a-selection).

A word is the result of all three languages. If the results differ, each language is named. Kimi Code before
2.0.2, and its server before 2.1.0, are played in Python only.

- **yes**: the result is the same as with the newest release of kimi-cli, except for the differences of
  [older releases](#where-older-releases-differ) and of [Kimi Code](#where-kimi-code-differs).
- **unsupported**: the release does not have the feature, and the SDK raises `Unsupported`. A test checks that.
- **lacking**: the release does not have the feature, and there is no call or option that the SDK could refuse. The
  differences for a program are described below for [kimi-cli](#what-came-when) and for
  [Kimi Code](#where-kimi-code-differs). Such a case is not played.
- **{unplayed}**: not played since the case was last changed.""".replace("{unplayed}", UNPLAYED)


def _markdown(rows: list[list[str]]) -> str:
    head, *body = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([head, f"|{' --- |' * len(rows[0])}", *body])


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def _feature(one: releases.Feature) -> list[str]:
    before = f"**unsupported**: `Unsupported` from `{one.refused}`" if one.refused else f"**lacking**: {one.instead}"
    return [f"`{one.name}`", one.about, one.since, before]


def _kimi_code(scenarios: Iterable[Scenario]) -> list[str]:
    known = [releases.release(version) for version in releases.versions()]

    def rows(key: str, server: bool) -> list[list[str]]:
        newest = next(one.version for one in reversed(known) if one.kimi_code and one.server == server)
        casts = [(one, releases.cast(one, newest)) for one in scenarios]
        return [
            [one.name, _otherwise(one, cast, key)] for one, cast in casts if cast.missing is not None or key in one.data
        ]

    return [
        "## Where Kimi Code differs",
        "It speaks ACP, and [its tools](../guides/use-kimi-code.md#move-from-kimi-cli) have other names. For example, "
        "the model calls `Bash` instead of `Shell`. [Differences of Kimi Code](../reference/kimi-code.md) describes "
        "the differences of every turn over ACP. These cases have more differences:",
        _markdown([["case", "what differs"], *rows("kimi_code", False)]),
        "## Where Kimi Code's server differs",
        'With `dialect="kimi-web"` the SDK uses [Kimi Code\'s own '
        "server](../guides/use-kimi-code.md#kimi-codes-own-server), which reports steps and tokens like kimi-cli. "
        "These cases have more differences:",
        _markdown([["case", "what differs"], *rows("kimi_web", True)]),
    ]


def _otherwise(scenario: Scenario, cast: releases.Cast, key: str) -> str:
    if cast.missing is None:
        return str(scenario.data[key]["why"])
    why = scenario.data.get(key, {}).get("why", f"It has no {cast.missing.about}.")
    word = f"**unsupported**: `Unsupported` from `{cast.missing.refused}`" if cast.refused else "**lacking**"
    return f"{word}. {why}"


def _differences(scenarios: Iterable[Scenario]) -> list[list[str]]:
    return [[one.name, entry["release"], entry["why"]] for one in scenarios for entry in one.data.get("before", [])]
