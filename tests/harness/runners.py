"""The languages' runners: how each is started, and what it prints, case by case."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .trace import Line

ROOT = Path(__file__).resolve().parent.parent.parent
# A runner bounds every case by itself; this only ends one that has stopped doing anything at all.
SILENCE_SECONDS = 240.0
# The most characters of paths on a command line. Windows allows 32,767 in all:
# https://learn.microsoft.com/windows/win32/api/processthreadsapi/nf-processthreadsapi-createprocessw
LONGEST_COMMAND = 30_000


class RunnerMissing(Exception):
    """A language's runner can't be started; the message says what to do."""


@dataclass
class Outcome:
    """The result of a runner for one case."""

    lines: list[Line] = field(default_factory=list)
    problem: str | None = None
    stderr: str = ""
    seconds: float = 0.0


def command(language: str, python: str | None = None) -> list[str]:
    """The command that starts the runner. `SCENARIO_RUNNER_<LANGUAGE>`, a JSON list, replaces it."""
    chosen = os.environ.get(f"SCENARIO_RUNNER_{language.upper().replace('-', '_')}")
    if chosen:
        return [str(part) for part in json.loads(chosen)]
    if language == "rust":
        return [str(built("scenario-runner"))]
    if language in ("python", "python-sync"):
        api = "sync" if language == "python-sync" else "async"
        return [python or sys.executable, str(_present("tests/runners/python/runner.py")), f"--api={api}"]
    return ["node", str(_present("tests/runners/node/runner.mjs"))]


def _present(relative: str) -> Path:
    path = ROOT / relative
    if not path.exists():
        raise RunnerMissing(f"{relative} isn't there")
    return path


def built(program: str) -> Path:
    """A program of this repository, built by cargo."""
    if os.environ.get("BUILT"):
        path = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / program
        return path.with_suffix(".exe") if os.name == "nt" else path
    # Together with the others, as .cargo/config.toml says why.
    argv = ["cargo", "programs", "--quiet", "--message-format", "json"]
    done = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise RunnerMissing("`cargo programs` failed")
    for line in done.stdout.splitlines():
        message = json.loads(line) if line.startswith("{") else {}
        if message.get("executable") and message.get("target", {}).get("name") == program:
            return Path(message["executable"])
    raise RunnerMissing(f"cargo built no program called {program}")


def run(
    argv: list[str],
    cases: Mapping[str, Path],
    env: Mapping[str, str] | None = None,
    begun: Callable[[], None] = lambda: None,
) -> dict[str, Outcome]:
    """Runs the cases in one process, and in a further one what is left: after an early end, or of too many cases.

    `begun` is called for each line of a trace. The first one says that the agent has answered.
    """
    left = dict(cases)
    outcomes: dict[str, Outcome] = {}
    while left:
        done = _run_once(argv, _first(left), env, begun)
        # A process that didn't get as far as its first case must not be tried for ever.
        if not done:
            done = {next(iter(left)): Outcome(problem="the runner printed no case")}
        outcomes.update(done)
        left = {name: path for name, path in left.items() if name not in outcomes}
    return outcomes


def _first(cases: Mapping[str, Path]) -> dict[str, Path]:
    """The first cases, as many as fit on a command line. At least one."""
    chosen: dict[str, Path] = {}
    length = 0
    for name, path in cases.items():
        # A space and two quotation marks.
        length += len(str(path)) + 3
        if chosen and length > LONGEST_COMMAND:
            break
        chosen[name] = path
    return chosen


def _run_once(
    argv: list[str], cases: Mapping[str, Path], env: Mapping[str, str] | None, begun: Callable[[], None]
) -> dict[str, Outcome]:
    process = subprocess.Popen(
        [*argv, *map(str, cases.values())],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=dict(env) if env is not None else None, start_new_session=True,
    )  # fmt: skip
    assert process.stdout and process.stderr
    rows: queue.Queue[bytes | None] = queue.Queue()
    noise: list[bytes] = []
    out, err = process.stdout, process.stderr

    def forward() -> None:
        for row in out:
            rows.put(row)
        rows.put(None)

    readers = [threading.Thread(target=forward), threading.Thread(target=lambda: noise.extend(err))]
    for reader in readers:
        reader.daemon = True
        reader.start()
    outcomes: dict[str, Outcome] = {}
    current = Outcome()
    silent = False
    since = time.monotonic()
    while True:
        try:
            row = rows.get(timeout=SILENCE_SECONDS)
        except queue.Empty:
            if silent:
                # It is dead: do not wait for other processes that hold its output.
                break
            silent = True
            _stop(process)
            continue
        if row is None:
            break
        line = _parse(row)
        now = time.monotonic()
        if isinstance(line, dict) and set(line) == {"case"}:
            current = outcomes.setdefault(str(line["case"]), Outcome())
            since = now
        elif isinstance(line, dict):
            current.lines.append(line)
            begun()
        else:
            current.problem = f"a line of the runner's output is no JSON object: {row!r}"
        current.seconds = now - since
    status = process.wait()
    for reader in readers:
        # A grandchild that outlives its runner may hold the pipe: what it writes isn't waited for.
        reader.join(timeout=0 if silent else 5)
    if not any(reader.is_alive() for reader in readers):
        out.close()
        err.close()
    if silent:
        current.problem = f"the runner said nothing for {SILENCE_SECONDS:.0f} s and was stopped"
    elif status:
        current.problem = current.problem or f"the runner ended with {_ended(status)}"
    stderr = b"".join(noise).decode("utf-8", "replace")
    for outcome in [*outcomes.values(), current]:
        outcome.stderr = stderr
    if not outcomes and current.problem:
        outcomes[next(iter(cases))] = current
    return outcomes


def _parse(row: bytes) -> object:
    try:
        return json.loads(row)
    except ValueError:
        return None


def _ended(status: int) -> str:
    return f"signal {signal.Signals(-status).name}" if status < 0 else f"exit code {status}"


def _stop(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (AttributeError, ProcessLookupError):
        process.kill()


def parallel(jobs: list[Callable[[], None]], width: int) -> None:
    """Runs the jobs, at most `width` at once; the first exception is raised when all have ended."""
    waiting = list(reversed(jobs))
    lock = threading.Lock()
    failures: list[BaseException] = []

    def work() -> None:
        while True:
            with lock:
                if not waiting:
                    return
                job = waiting.pop()
            try:
                job()
            except BaseException as error:  # handed to the caller below
                failures.append(error)

    workers = [threading.Thread(target=work, daemon=True) for _ in range(width)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]
