"""Helpers of the trial programs' tests: a `kimi` that follows a script."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DEADLINE = 60.0
HERE = Path(__file__).resolve().parent
AGENT = Path(sys.executable).with_name("kimi-scripted-agent")

Environment = dict[str, str]


@pytest.fixture
def agent(tmp_path: Path) -> Callable[..., Environment]:
    """Makes an environment in which `kimi` follows a script; with several, each start takes the next one."""

    def make(*scripts: Any) -> Environment:
        folder = tmp_path / "agent"
        folder.mkdir()
        for at, script in enumerate(scripts):
            (folder / f"{at}.json").write_text(json.dumps(script))
        program = folder / "kimi"
        at = shlex.quote(str(folder))
        # A folder can be made once only, so that each start gets a number of its own.
        program.write_text(
            "#!/bin/sh\nn=0\n"
            f"while [ $n -lt {len(scripts) - 1} ] && ! mkdir {at}/taken.$n 2>/dev/null; do n=$((n+1)); done\n"
            f'exec {shlex.quote(str(AGENT))} {at}/$n.json "$@"\n'
        )
        program.chmod(0o755)
        return {**os.environ, "KIMI_AGENT_EXECUTABLE": str(program), "PYTHONUNBUFFERED": "1"}

    return make
