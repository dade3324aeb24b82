"""Lets an agent repair a project whose tests fail. Usage: repair.py REPOSITORY COMMAND... >CHANGE.diff

COMMAND runs the tests. The agent works in a worktree of its own. Rules allow it to read, to change files outside
`tests/`, and to run COMMAND. A budget limits it. If the tests pass afterwards, the change is printed as a diff.
"""

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from kimi_agent import Budget, BudgetExceeded, KimiAgentError, PolicyRules, PromptResult, sync

BUDGET: Budget = {"tool_calls": 60, "seconds": 1800}
LONGEST = 20_000
PROMPT = """The tests of this project fail. Find the reason, and repair the code. Do not change the tests.
Run the tests with exactly this command: {command}

The end of their output:

{output}
"""


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, text=True).stdout


def failure(folder: Path, command: list[str]) -> str | None:
    """The output of the tests if they fail."""
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    tests = subprocess.run(command, cwd=folder, stdout=pipe, stderr=both, text=True, timeout=600, check=False)
    return tests.stdout if tests.returncode else None


def repair(folder: Path, command: list[str], output: str) -> None:
    """Has the agent change the files in the folder."""
    rules: PolicyRules = {
        "default": "deny",
        "deny": ["edit(tests/**)", "edit(.git)"],
        "allow": ["read(**)", "search(**)", "think", "edit(**)", f"execute({shlex.join(command)})"],
    }
    prompt = PROMPT.format(command=shlex.join(command), output=output[-LONGEST:])
    with sync.create_session(work_dir=folder, policy=rules) as session:
        try:
            result: PromptResult[Any] = session.prompt(prompt, budget=BUDGET).result().raise_for_status()
        except BudgetExceeded as error:
            print(f"stopped: {error.used:g} of {error.limit:g} {error.counter}", file=sys.stderr)
            result = error.result
    for rejected in result.rejected:
        print(f"denied: {rejected.description!a}", file=sys.stderr)
    print(result.text, file=sys.stderr)


def main() -> int:
    repository, command = Path(sys.argv[1]).resolve(), sys.argv[2:]
    with tempfile.TemporaryDirectory(prefix="repair-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary) / "worktree"
        git(repository, "worktree", "add", "--quiet", "--detach", str(folder))
        try:
            if (output := failure(folder, command)) is None:
                print("The tests pass. Nothing is to do.", file=sys.stderr)
                return 0
            repair(folder, command, output)
            # An agent that does not ask before it edits can have changed the tests.
            git(folder, "restore", "--source=HEAD", "--", "tests")
            if failure(folder, command) is not None:
                print("The tests still fail.", file=sys.stderr)
                return 1
            git(folder, "add", "--all")
            print(git(folder, "diff", "--cached", "--binary", "HEAD"), end="")
        except KimiAgentError as error:
            print(f"No repair: {error}", file=sys.stderr)
            return 1
        finally:
            git(repository, "worktree", "remove", "--force", str(folder))
    return 0


sys.exit(main())
