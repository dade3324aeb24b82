"""`docs/compatibility.md`: the table for people to read, with what explains its cells."""

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
        "Where a case is **unsupported** or **lacking** with kimi-cli, the release is older than something it needs.",
        _markdown([["needed", "which is", "since kimi-cli", "before that"], *map(_feature, releases.features())]),
        "## Where older releases differ",
        "These cases say **yes** with older releases of kimi-cli, too, but not all in them is as with the newest.",
        _markdown([["case", "before kimi-cli", "what differs"], *_differences(scenarios)]),
        *_kimi_code(scenarios),
        "## About the releases",
        "\n".join(f"- {one.title} ({protocol(one)}): {one.note}." for one in known if one.note),
    ]
    return "\n\n".join(parts) + "\n"


_INTRODUCTION = """\
The cases of `tests/real/cases` are played with real releases and a scripted model, in Rust, Python and Node.
`make test-real` plays them all and writes this page; [tests/README.md](../tests/README.md) says what that takes.
`make test` plays a [selection](../tests/README.md#all-of-it-and-a-selection).

A word stands for all three languages; where they have not come to the same, each is named.

- **yes**: the case does with this release what it does with the newest of kimi-cli, but for what
  [older agents](#where-older-releases-differ) and [Kimi Code](#where-kimi-code-differs) do otherwise.
- **unsupported**: the release can't do it, and the SDK says so with `Unsupported` instead of going on without it. That
  is played, too.
- **lacking**: the release can't do it, and there is no call or option that the SDK could refuse. What a program finds
  instead is told below, [of kimi-cli](#what-came-when) and [of Kimi Code](#where-kimi-code-differs); there is nothing
  to play.
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
    newest = next(version for version in reversed(releases.versions()) if releases.release(version).kimi_code)
    casts = [(one, releases.cast(one, newest)) for one in scenarios]
    rows = [
        [one.name, _otherwise(one, cast)] for one, cast in casts if cast.missing is not None or "kimi_code" in one.data
    ]
    return [
        "## Where Kimi Code differs",
        "It speaks ACP, and [its tools](kimi-code.md#moving-from-kimi-cli) have other names: where a case has `Shell`, "
        "the model calls `Bash`. What ACP tells otherwise of every turn is [on its own "
        "page](kimi-code.md#what-is-otherwise). In these cases there is more:",
        _markdown([["case", "what differs"], *rows]),
    ]


def _otherwise(scenario: Scenario, cast: releases.Cast) -> str:
    if cast.missing is None:
        return str(scenario.data["kimi_code"]["why"])
    why = scenario.data.get("kimi_code", {}).get("why", f"It has no {cast.missing.about}.")
    word = f"**unsupported**: `Unsupported` from `{cast.missing.refused}`" if cast.refused else "**lacking**"
    return f"{word}. {why}"


def _differences(scenarios: Iterable[Scenario]) -> list[list[str]]:
    return [[one.name, entry["release"], entry["why"]] for one in scenarios for entry in one.data.get("before", [])]
