"""Which release of kimi-cli, or of Kimi Code, has what, and what becomes of a case where something is missing."""

from __future__ import annotations

import functools
import json
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from . import kimi_code
from .scenario import REAL_LANGUAGES, BadScenario, Scenario, fill, numbers

TABLE = Path(__file__).resolve().parent.parent / "real" / "releases.json"


KIMI_CODE = "kimi-code-"
"""The beginning of the names of Kimi Code's releases."""

SERVER = "kimi-code-web-"
"""The beginning of the names of releases that are played over Kimi Code's own server."""


@dataclass(frozen=True)
class Feature:
    name: str
    since: str
    about: str
    refused: str | None
    """The operation in which the SDK raises `Unsupported` where the feature is missing."""
    instead: str
    """The capabilities of an agent that refuses nothing."""


@dataclass(frozen=True)
class Release:
    version: str
    wire: str
    note: str
    missing: tuple[Feature, ...]
    options: dict[str, Any]
    config_at_home: bool
    """It has no flag for a configuration file, and reads the one in the home directory."""
    original: bool
    """Its `kimi` is not an agent any more. The agent is started differently."""
    kimi_code: bool = False
    """It is one of Kimi Code, which came after kimi-cli."""
    server: bool = False
    """It is Kimi Code over its own server, not over ACP."""
    languages: tuple[str, ...] = REAL_LANGUAGES
    """The languages that its cases are played in."""

    @property
    def number(self) -> str:
        return self.version.rpartition("-")[2]

    @property
    def title(self) -> str:
        """As people call it; those of kimi-cli by their number."""
        over = " over its server" if self.server else ""
        return f"Kimi Code {self.number}{over}" if self.kimi_code else self.version


# The main job.
EACH_RELEASE = {"text", "approve", "cancel_in_stream"}


@functools.cache
def table() -> dict[str, Any]:
    return dict(json.loads(TABLE.read_text("utf-8")))


def features() -> list[Feature]:
    rows = table()["features"].items()
    return [Feature(name, row["since"], row["about"], row.get("refused"), row.get("instead", "")) for name, row in rows]


def versions() -> list[str]:
    return list(table()["releases"])


def kimi_cli() -> list[str]:
    """The releases of kimi-cli, which speak Wire, oldest first."""
    return [version for version in versions() if not release(version).kimi_code]


def quick() -> list[str]:
    """The releases of the selection that every change is tried with."""
    return [version for version, row in table()["releases"].items() if "quick" in row]


def quick_left_out(case: Scenario, version: str, languages: list[str]) -> dict[str, str]:
    """The languages that the selection does not play a case in with a release, and why.

    The releases that can play a case take turns, and so do the languages. Some cases are played with each release, and
    those in `nightly` with none.
    """
    if case.name in table()["nightly"]:
        return dict.fromkeys(languages, "`make test-real` plays it")
    turn = zlib.crc32(case.name.encode())
    able = [one for one in quick() if not cast(case, one).missing] or quick()
    if case.name not in EACH_RELEASE and version != able[turn % len(able)]:
        return dict.fromkeys(languages, "it is the turn of another release")
    chosen = languages[(turn // len(able) + quick().index(version)) % len(languages)]
    return {language: f"it is the turn of {chosen}" for language in languages if language != chosen}


def other_languages(version: str, languages: list[str]) -> dict[str, str]:
    """The languages that a release is not played in, and why."""
    played = release(version).languages
    why = f"its cases are played in {', '.join(played)} only"
    return {language: why for language in languages if language not in played}


def newest_kimi_code(number: str) -> list[str]:
    """A release of Kimi Code over ACP and over its own server."""
    return [f"{KIMI_CODE}{number}", f"{SERVER}{number}"]


def _row(version: str) -> dict[str, Any]:
    """The entry of the table. An unknown release of Kimi Code is like the last known one; others have everything."""
    known = table()["releases"]
    if version not in known and version.startswith(KIMI_CODE):
        over_server = version.startswith(SERVER)
        like = [one for one in known if one.startswith(KIMI_CODE) and one.startswith(SERVER) == over_server]
        return {name: value for name, value in known[like[-1]].items() if name not in ("quick", "note")}
    return dict(known.get(version, {}))


def release(version: str) -> Release:
    """Returns the entry of a release."""
    row = _row(version)
    lacks = row.get("lacks", [])
    is_kimi_code = version.startswith(KIMI_CODE)
    missing = tuple(
        one for one in features() if one.name in lacks or (not is_kimi_code and numbers(version) < numbers(one.since))
    )
    return Release(
        version=version,
        wire=row.get("wire", "unknown"),
        note=row.get("note", ""),
        missing=missing,
        options=row.get("options", {}),
        config_at_home=row.get("config") == "home",
        original=row.get("entry") == "original",
        kimi_code=is_kimi_code,
        server=version.startswith(SERVER),
        languages=tuple(row.get("languages", REAL_LANGUAGES)),
    )


@dataclass(frozen=True)
class Cast:
    """A case as one release plays it."""

    scenario: Scenario
    missing: Feature | None = None
    """The features that the case needs and the release lacks."""

    @property
    def refused(self) -> bool:
        return self.missing is not None and self.missing.refused is not None


def cast(scenario: Scenario, version: str) -> Cast:
    """The case for this release: with its own expectations, or only up to what the SDK has to refuse."""
    found = release(version)
    known = {one.name for one in features()}
    unknown = scenario.needs - known
    if unknown:
        raise BadScenario(f"{scenario.path}: 'needs' names {sorted(unknown)[0]!r}, which is no feature")
    told = False
    if found.kimi_code:
        own = kimi_code.own(scenario, found.number, found.server)
        # A course of its own does without.
        told = "expect" in own
        scenario = kimi_code.cast(scenario, own, found.server)
        if "refused" in own or "lacking" in own:
            feature = Feature("kimi_code", found.number, own["why"], own.get("refused"), own["why"])
            return Cast(_cut(scenario, feature), feature)
    else:
        scenario = scenario.before(version)
    lacking = [one for one in found.missing if one.name in scenario.needs and not told]
    # What stops the opening is met first, and what nothing refuses is met last.
    lacking.sort(key=lambda one: (one.refused is None, one.refused != "open"))
    # `yolo`, where a release needs it, would keep a case from showing that it is needed.
    options = {} if any(one.name == "approval" for one in lacking) else found.options
    scenario = scenario.with_options(options)
    if lacking:
        return Cast(_cut(scenario, lacking[0]), lacking[0])
    expect = fill(scenario.expect, {"wire": found.wire, "version": found.number})
    return Cast(replace(scenario, data={**scenario.data, "expect": expect}))


def _cut(scenario: Scenario, feature: Feature) -> Scenario:
    if feature.refused is None:
        return scenario
    names = {feature.refused, "one_shot"} if feature.refused == "open" else {feature.refused}
    program = scenario.data["program"]
    place = next((at for at, op in enumerate(program) if op["op"] in names), None)
    if place is None:
        raise BadScenario(f"{scenario.path}: it needs {feature.name!r}, but has no {feature.refused!r}")
    expect = [{"op": program[place]["op"], "error": "unsupported"}]
    return replace(scenario, data={**scenario.data, "program": program[: place + 1], "expect": expect})
