#!/usr/bin/env python3
"""Writes what was measured into docs/evidence/performance.md, and the plots next to it.

page.py           writes them; needs what the measurements need, for the plots
page.py --check   fails if the page, its plots and the results do not belong together; needs nothing
"""

from __future__ import annotations

import hashlib
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measures import FIGURES
from roster import CLIENTS
from table import number, rows
from targets import NODE, PYTHON, RUST, TARGETS, Target, Verdict, judge

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs" / "evidence"
PAGE = DOCS / "performance.md"
BEGIN, END = "<!-- Written by `make bench RESULT=...` (bench/page.py) from here -->", "<!-- to here. -->"
KINDS = ("quiet", "loaded")
# Plots, each with the figures that it shows.
PLOTS = {
    "performance-events.svg": ("events, in bulk", "events, one write each"),
    "performance-waits.svg": ("approval, round trip", "start to first event"),
}
# The rows of the first table: a figure, and what it is the cost of.
COSTS = {
    "events, in bulk": "an event, the agent writing as fast as it can",
    "events, one write each": "an event, each written by itself",
    "events, over ACP": "an event over ACP",
    "approval, round trip": "an approval, from the question to the answer",
    "start to first event": "a start of the program and its agent, to the first event",
    "batch": "a job of a batch, with a session of its own",
}
LANGUAGES = {"Rust": RUST, "Python": PYTHON, "Node": NODE}
BASELINE = HERE / "instructions" / "baseline.json"
COLOURS = {True: "#1f6feb", False: "#8b949e"}
Results = dict[str, dict[str, Any]]


def results() -> Results:
    """The results: on a quiet machine, on a loaded one, or both."""
    files = {kind: HERE / "results" / f"{kind}.json" for kind in KINDS}
    return {kind: json.loads(file.read_text("utf-8")) for kind, file in files.items() if file.exists()}


def markdown(header: tuple[str, ...], lines: list[tuple[str, ...]]) -> list[str]:
    """A table; all but the first column to the right."""
    return [
        f"| {' | '.join(header)} |",
        f"| --- {'| ---: ' * (len(header) - 1)}|",
        *(f"| {' | '.join(line)} |" for line in lines),
        "",
    ]


def limit(target: Target) -> str:
    """As people write it."""
    unit = FIGURES[target.figure][0]
    if not target.peer:
        return f"≤ {target.limit:g} {unit}".rstrip()
    inverse = 1 / target.limit
    fraction = (
        f"1/{inverse:.0f}" if target.limit < 0.6 and abs(inverse - round(inverse)) < 1e-9 else f"{target.limit:g}"
    )
    return f"≤ {fraction} of {target.peer}"


def told(verdict: Verdict | None) -> str:
    """The measured figure; bold where the target is missed."""
    if verdict is None:
        return "not measured"
    low, high = number(verdict.low), number(verdict.high)
    spread = f" ({low} to {high})" if low != high else ""
    text = number(verdict.median)
    return f"{text}{spread}, met" if verdict.met else f"**{text}**{spread}"


def costs(measured: Results) -> str:
    """What the SDK costs next to the first peer of each target, and the plots."""
    kind, result = next(iter(measured.items()))
    header = ("what", "unit", *(name for language in LANGUAGES for name in (language, "by hand")))
    lines: list[tuple[str, ...]] = []
    for figure, what in COSTS.items():
        medians = {client: number(statistics.median(values)) for client, values in result["figures"][figure].items()}
        cells = [what, FIGURES[figure][0]]
        for client in LANGUAGES.values():
            peers = [target.peer for target in TARGETS if (target.figure, target.client) == (figure, client)]
            cells += [medians.get(client, "–"), medians.get(peers[0], "–") if peers else "–"]
        lines.append(tuple(cells))
    plots = [f"![{' and '.join(figures)}]({name})" for name, figures in PLOTS.items()]
    machine = f"Medians, measured on a {kind} machine. Below, each table says when, and by which client."
    return "\n".join([machine, "", *markdown(header, lines), *plots, ""])


def instructions() -> list[str]:
    """The counts of `make test-instructions`."""
    baseline = json.loads(BASELINE.read_text("utf-8"))
    says = f"Instructions that the core takes, with {baseline['rustc']}. `make test-instructions` fails if one rises."
    lines = [(path, f"{count:,}") for path, count in baseline["paths"].items()]
    return ["## Instructions", "", says, "", *markdown(("path", "instructions"), lines)]


def generated(measured: Results) -> str:
    """All that the page says of figures, but for the first table."""
    lines = ["## The machine", ""]
    for kind, result in measured.items():
        machine, size, load = result["machine"], result["size"], result["load"]
        lines += [
            f"- **{kind.capitalize()}**: {machine['cpu']}, {machine['cpus']} CPUs, Linux {machine['kernel']}, "
            f"{machine['rustc']}, {machine['python']}, {machine['node']}. The load was from {load[0]} to {load[1]}; "
            f"the measurement itself is up to 2 of it. A run has {size['rounds']} rounds of {size['events']:,} events "
            f"and {size['asks']:,} questions, and {size['starts']} rounds of starts."
        ]
    lines += ["", "## Targets", "", "Ratios of what it takes; those that miss their target are bold.", ""]
    verdicts = [[judge(result, target) for result in measured.values()] for target in TARGETS]
    for kind, column in zip(measured, zip(*verdicts, strict=True), strict=True):
        met = sum(verdict is not None and verdict.met for verdict in column)
        lines += [f"{kind.capitalize()}: {met} of {len(TARGETS)} are met.", ""]
    lines += markdown(
        ("what", "target", *measured),
        [
            (f"{target.figure}: {target.client}", limit(target), *map(told, found))
            for target, found in zip(TARGETS, verdicts, strict=True)
        ],
    )
    lines += [*instructions(), "## All figures", ""]
    for figure, (unit, says) in FIGURES.items():
        having = {kind: result for kind, result in measured.items() if figure in result["figures"]}
        if not having:
            continue
        lines += [f"### {figure.capitalize()}", "", f"{says[0].upper()}{says[1:]}{f', in {unit}' if unit else ''}.", ""]
        header: tuple[str, ...] = ("client",)
        columns: dict[str, list[str]] = {}
        for kind, result in having.items():
            if label := result.get("renewed", {}).get(figure):
                low, high = label["load"]
                said = f"Measured separately on {label['date']} on a {label['kind']} machine"
                lines += [f"{said}: {label['rounds']} rounds, with a load from {low} to {high}.", ""]
            header += (label["kind"] if label else kind, "range", "to ours")
            for name, *cells in rows(result, figure):
                columns.setdefault(name, []).extend(cells)
        lines += markdown(header, [(name, *cells) for name, cells in columns.items()])
    return "\n".join(lines)


def digest(measured: Results, figures: tuple[str, ...]) -> str:
    """Of what a plot shows; the plot carries it."""
    first = measured[next(iter(measured))]["figures"]
    text = json.dumps({figure: first.get(figure) for figure in figures}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def plot(measured: Results, name: str, figures: tuple[str, ...]) -> None:
    """Bars from the smallest to the largest, with the range of the rounds. The same figures make the same file."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": name, "font.size": 9, "svg.fonttype": "none"})
    from matplotlib import pyplot

    kind, result = next(iter(measured.items()))
    fig, axes = pyplot.subplots(1, len(figures), figsize=(11, 4.2), layout="constrained")
    for axis, figure in zip(axes, figures, strict=True):
        by_client = result["figures"][figure]
        shown = [client for client in reversed(CLIENTS) if client.name in by_client]
        medians = [statistics.median(by_client[client.name]) for client in shown]
        spread = [
            [median - min(by_client[client.name]) for client, median in zip(shown, medians, strict=True)],
            [max(by_client[client.name]) - median for client, median in zip(shown, medians, strict=True)],
        ]
        colours = [COLOURS[client.ours] for client in shown]
        bars = axis.barh([client.name for client in shown], medians, color=colours, xerr=spread, ecolor="#57606a")
        axis.bar_label(bars, [number(median) for median in medians], padding=6)
        axis.set_title(f"{figure}, {FIGURES[figure][0]} ({kind}; shorter is better)")
        axis.spines[["top", "right"]].set_visible(False)
        axis.margins(x=0.15)
    fig.savefig(DOCS / name, metadata={"Date": None, "Description": f"results {digest(measured, figures)}"})
    pyplot.close(fig)


def rendered(page: str, measured: Results) -> str:
    """The page with what is generated brought up to date."""
    head, *rest = page.split(BEGIN)
    blocks = zip((costs(measured), generated(measured)), rest, strict=True)
    return head + "".join(f"{BEGIN}\n\n{block}\n{END}{old.split(END)[1]}" for block, old in blocks)


def mistakes(read: Callable[[Path], str] = lambda path: path.read_text("utf-8")) -> list[str]:
    """The differences between page, plots and results."""
    measured = results()
    if not measured:
        return ["bench/results is empty"]
    page = read(PAGE)
    found = [] if rendered(page, measured) == page else [f"{PAGE.name} is not what bench/page.py makes of the results"]
    for name, figures in PLOTS.items():
        if f"results {digest(measured, figures)}" not in read(DOCS / name):
            found.append(f"{name} shows other figures than the results; run bench/page.py")
    return found


def main() -> int:
    """0, or 1 if the check fails."""
    if sys.argv[1:] == ["--check"]:
        for mistake in mistakes():
            print(f"FAILED {mistake}")
        return 1 if mistakes() else 0
    measured = results()
    PAGE.write_text(rendered(PAGE.read_text("utf-8"), measured), "utf-8")
    for name, figures in PLOTS.items():
        plot(measured, name, figures)
    print(f"wrote {PAGE.name} and {', '.join(PLOTS)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
