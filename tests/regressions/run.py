#!/usr/bin/env python3
"""Puts defects back that were fixed once, one by one, and checks that `make test` notices each.

    run.py                   all of them: some builds, and then seconds for most of them
    run.py --only NAME       one of them; may be repeated
    run.py --list            their names, areas and tests
    run.py --check           that each patch applies and each test exists, without builds: seconds
    run.py --update          writes the table in README.md

README.md says how a defect is added.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from copy_of_tree import Copy
from proofs import Proof, Refused
from table import Defect, load, mistakes, page, written_page


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="the name of a defect; may be repeated"
    )
    parser.add_argument("--list", action="store_true", help="print the names, areas and tests")
    parser.add_argument("--check", action="store_true", help="check that patches apply and tests exist, without builds")
    parser.add_argument("--update", action="store_true", help="write the table in README.md")
    return parser.parse_args(given)


def chosen(defects: list[Defect], names: list[str]) -> list[Defect]:
    """The defects with these names, or all."""
    known = {defect.name: defect for defect in defects}
    for name in names:
        if name not in known:
            raise Refused(f"there is no defect `{name}`; tests/regressions/run.py --list shows all names")
    return [known[name] for name in names] if names else defects


def problem(copy: Copy, defect: Defect) -> str | None:
    """Returns why the test does not notice the defect, or None if it does."""
    copy.reset()
    refusal = copy.apply(defect.patch)
    if refusal is not None:
        return refusal
    try:
        return defect.test.missed(copy)
    finally:
        copy.reset()


def play(defects: list[Defect], copy: Copy) -> list[str]:
    """Plays the defects, and returns the names of those that were not noticed."""
    failed: list[str] = []
    # Tests of one place share a build. Each passes without the defect, or its failure would say nothing.
    sound: dict[Proof, str | None] = {}
    for kind, place in dict.fromkeys((defect.test.kind, defect.test.place) for defect in defects):
        here = [defect for defect in defects if (defect.test.kind, defect.test.place) == (kind, place)]
        copy.reset()
        copy.take_native_files()
        for defect in here:
            if defect.test not in sound:
                sound[defect.test] = defect.test.broken(copy)
        for defect in here:
            began = time.monotonic()
            broken = sound[defect.test]
            found = f"the test fails without the defect, too: {broken}" if broken else problem(copy, defect)
            took = time.monotonic() - began
            verdict = "noticed" if found is None else "NOT NOTICED"
            print(f"{verdict} {defect.name} ({defect.area}, {defect.target}) {took:.0f} s", flush=True)
            if found is not None:
                print(f"    {found}", flush=True)
                failed.append(defect.name)
    return failed


def main(given: Sequence[str] | None = None) -> int:
    options = arguments(given)
    try:
        defects = chosen(load(), options.only)
        if options.list:
            for defect in defects:
                print(f"{defect.name}  {defect.area}  {defect.target}  {defect.test}")
            return 0
        if options.update:
            page().write_text(written_page(load()), "utf-8")
            return 0
        if options.check:
            found = mistakes(defects)
            for mistake in found:
                print(mistake)
            failed = {mistake.partition(":")[0] for mistake in found}
            print(f"{len({defect.name for defect in defects} - failed)} passed, {len(failed)} failed")
            return 1 if found else 0
        with Copy.made() as copy:
            wrong = play(defects, copy)
    except Refused as refusal:
        print(f"regressions: {refusal}", file=sys.stderr)
        return 2
    for name in wrong:
        print(f"not noticed: {name}")
    print(f"{len(defects) - len(wrong)} passed, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
