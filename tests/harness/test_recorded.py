"""Recordings of real releases: how they are made, chosen, and kept small."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

from real import record, thin

from harness import releases
from harness.scenario import load_all

APPROVAL = "6f1c0f5e-0b5c-4d0e-9a36-3f2b8a1d7c11"


def event(kind: str, **payload: object) -> str:
    message = {"jsonrpc": "2.0", "method": "event", "params": {"type": kind, "payload": payload}}
    return f"< {json.dumps(message)}\n"


class Kept(unittest.TestCase):
    def test_releases_have_recordings_of_existing_cases(self) -> None:
        names = {*record.CASES}
        for version in releases.kimi_cli():
            found = {path.stem for path in (record.RECORDED / version).glob("*.wire")}
            self.assertTrue(found, version)
            self.assertLessEqual(found, names, version)
        for name in names:
            record.scenario(name)
        self.assertLessEqual({case.name for case in load_all(record.RECORDED / "cases")}, names)

    def test_recordings_are_small_and_none_is_superfluous(self) -> None:
        paths = list(record.RECORDED.glob("*/*.wire"))
        self.assertLess(sum(path.stat().st_size for path in paths), 400_000)
        wires = {version: releases.release(version).wire for version in releases.kimi_cli()}
        self.assertEqual(thin.superfluous(record.RECORDED, wires), [])


class Made(unittest.TestCase):
    def test_ids_paths_and_times_are_replaced_consistently(self) -> None:
        cleaner = record.Cleaner(Path("/scratch/case"))
        line = (
            f'{{"id":"{APPROVAL}","at":"/scratch/case/work","hook":"0a1b2c3d4e5f","created_at":17.25,"duration_ms":9}}'
        )
        first, second = "00000000-0000-0000-0000-000000000001", "000000000002"
        clean = f'{{"id":"{first}","at":"{{dir}}/work","hook":"{second}","created_at":0.0,"duration_ms":0}}'
        self.assertEqual(cleaner.line(line), clean)
        self.assertEqual(cleaner.line(f'"{APPROVAL}" a1b2c3'), f'"{first}" a1b2c3')


class Chosen(unittest.TestCase):
    def test_superfluous_recordings_are_found(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for version, name, text in [
                ("1", "less", event("StepBegin", n=1)),
                ("1", "more", event("StepBegin", n=1) + event("TurnEnd")),
                ("1", "cancel_in_stream", event("StepBegin", n=1)),
                ("2", "field", event("StepBegin", n=1, mood="good")),
                ("2", "again", event("StepBegin", n=1, mood="good")),
            ]:
                path = Path(folder) / version / f"{name}.wire"
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
            dropped = thin.superfluous(Path(folder), {"1": "1.0", "2": "1.1"})
            self.assertEqual(sorted(path.name for path in dropped if path.parent.name == "1"), ["less.wire"])
            self.assertEqual(len([path for path in dropped if path.parent.name == "2"]), 1)


if __name__ == "__main__":
    unittest.main()
