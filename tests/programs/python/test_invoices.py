"""Invoices: a sum that is wrong at first, and a file that stays unreadable."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conftest import DEADLINE, HERE, Environment

INVOICE = {
    "number": "2026-17",
    "issued": "2026-11-02",
    "supplier": "Paper Ltd",
    "currency": "EUR",
    "lines": [{"text": "Paper", "amount": "19.90"}, {"text": "Delivery", "amount": "5.10"}],
    "total": "25.00",
}


def returns(**changes: Any) -> dict[str, Any]:
    """A call of the tool for the result."""
    return {"external_tool": {"name": "final_result", "arguments": {**INVOICE, **changes}}}


def run(env: Environment, folder: Path) -> tuple[int, dict[str, dict[str, Any]]]:
    command = [sys.executable, str(HERE / "invoices.py"), str(folder)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=DEADLINE, check=False)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert records, done.stderr
    return done.returncode, {record["file"]: record for record in records}


def test_wrong_sum_is_corrected(agent: Callable[..., Environment], tmp_path: Path) -> None:
    folder = tmp_path / "invoices"
    folder.mkdir()
    (folder / "a.txt").write_text("Invoice 2026-17")
    code, records = run(agent([[returns(total="26.00"), returns()]]), folder)
    assert (code, records) == (0, {"a.txt": {"file": "a.txt", "invoice": INVOICE}})


def test_missing_value_is_reported(agent: Callable[..., Environment], tmp_path: Path) -> None:
    folder = tmp_path / "invoices"
    folder.mkdir()
    (folder / "a.txt").write_text("Invoice 2026-17")
    code, records = run(agent([[returns(total="26.00"), returns(currency="euro"), returns(lines=[])]]), folder)
    assert (code, records["a.txt"]["error"]) == (1, "output_invalid")
    assert records["a.txt"]["problems"][0].startswith("/lines: ")
