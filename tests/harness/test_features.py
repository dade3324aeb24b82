"""What is built for release, each package by itself, has the same features in its dependencies, to share them."""

from __future__ import annotations

import subprocess
import unittest
from collections import defaultdict

from harness.runners import ROOT

PACKAGES = ("kimi-agent-python", "kimi-agent-node", "instruction-paths")
# It is compiled once for the bindings, and once more with what only the counting of instructions looks at.
OWN = {("kimi-agent", "instruction-paths"): {"measured"}}


def features(package: str) -> dict[str, set[frozenset[str]]]:
    """By dependency, the sets of features it is built with: macros may have another than the program."""
    tree = ["cargo", "tree", "--locked", "--package", package, "--edges", "normal,build", "--prefix", "none"]
    told = subprocess.run([*tree, "--format", "{p};{f}"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, set[frozenset[str]]] = defaultdict(set)
    for line in told.stdout.splitlines():
        described, _, named = line.removesuffix(" (*)").partition(";")
        name, version = described.split()[:2]
        own = OWN.get((name, package), set())
        found[f"{name} {version}"].add(frozenset(filter(None, named.split(","))) - own)
    return found


class Features(unittest.TestCase):
    def test_what_is_shared_has_the_same_features(self) -> None:
        built = {package: features(package) for package in PACKAGES}
        shared = set[str]()
        for dependency in sorted(set().union(*built.values())):
            found = {package: of[dependency] for package, of in built.items() if dependency in of}
            shared |= {dependency} if len(found) > 1 else set()
            with self.subTest(dependency):
                first, *others = found.values()
                self.assertEqual(others, [first] * len(others), f"{found}: tools/features/Cargo.toml lacks one of them")
        self.assertTrue(any(name.startswith("kimi-agent ") for name in shared))


if __name__ == "__main__":
    unittest.main()
