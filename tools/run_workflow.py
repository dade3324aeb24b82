"""Runs the steps of a job of a workflow on this machine, in a fresh clone of the last commit.

    python tools/run_workflow.py ci.yml rust-versions
    python tools/run_workflow.py release.yml build --only targets=x86_64-unknown-linux-gnu --artifacts FOLDER
    python tools/run_workflow.py --list

Each combination of the matrix gets a clone. Checkout, Python, Node and artifacts are provided by this machine. A job of
another system, and a step that publishes or needs the identity of a workflow, is not run, and the output says why.
`--artifacts` is the folder that jobs exchange files in, `--only` chooses values of the matrix, `--list` only says what
can run here. The exit code is 1 if a step failed.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from check_workflows import ROOT, combinations, commands, resolve
from find_python import all_pythons

WORKFLOWS = ROOT / ".github" / "workflows"
# The labels of the runners that are like this machine.
RUNNERS = {
    ("Linux", "x86_64"): r"ubuntu-[\d.]+",
    ("Linux", "aarch64"): r"ubuntu-[\d.]+-arm",
    ("Darwin", "arm64"): r"macos-\d+",
    ("Darwin", "x86_64"): r"macos-\d+-intel",
}
HERE = (platform.system(), platform.machine())
# Programs that publish something, or sign it with the identity of the workflow.
PUBLISHING = ("gh", "tools/publish.sh", "pypi_attestations")
# With the options that GitHub gives them.
SHELLS = {None: ["bash", "-e"], "bash": ["bash", "--noprofile", "--norc", "-eo", "pipefail"]}


class NotHereError(Exception):
    """A job or step that this machine cannot run. The text says why."""


@dataclass
class Job:
    """A combination of the matrix of a job, with its clone and the environment of its steps."""

    definition: dict[str, Any]
    values: dict[str, str]
    folder: Path
    artifacts: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def clone(self) -> Path:
        return self.folder / "clone"

    def prepare(self, ref: str) -> None:
        """Sets the variables that each step has."""
        files = {name: self.folder / name.lower() for name in ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH")}
        for file in files.values():
            file.touch()
        for place in (self.folder / "temp", self.folder / "bin", self.clone):
            place.mkdir()
        # A fresh clone does not share the build products of a developer.
        own = {name: value for name, value in os.environ.items() if name not in ("CARGO_TARGET_DIR", "VIRTUAL_ENV")}
        paths = {"GITHUB_WORKSPACE": self.clone, "RUNNER_TEMP": self.folder / "temp", **files}
        path = f"{self.folder / 'bin'}{os.pathsep}{own['PATH']}"
        self.env = {**own, "CI": "true", "GITHUB_REF_NAME": ref, "RUNNER_OS": platform.system(), "PATH": path}
        self.env |= {name: str(value) for name, value in paths.items()}
        self.env |= {name: resolve(str(value), self.values) for name, value in self.definition.get("env", {}).items()}

    def run(self, step: dict[str, Any]) -> bool:
        """Runs a step, or provides what it provides. Returns whether it succeeded."""
        check_step(step, self.values)
        if "uses" in step:
            given = {name: resolve(str(value), self.values) for name, value in step.get("with", {}).items()}
            print(f"  provided: {PROVIDERS[action(step)](self, given)}", flush=True)
            return True
        env = {**self.env}
        env |= {name: resolve(str(value), self.values) for name, value in step.get("env", {}).items()}
        script = self.folder / "step.sh"
        script.write_text(resolve(step["run"], self.values), "utf-8")
        folder = self.clone / step.get("working-directory", ".")
        ended = subprocess.run([*SHELLS[step.get("shell")], script], cwd=folder, env=env, check=False)
        self.take_files()
        return ended.returncode == 0

    def take_files(self) -> None:
        """Sets what a step has written into the files of GITHUB_ENV and GITHUB_PATH for the next steps."""
        for line in Path(self.env["GITHUB_ENV"]).read_text("utf-8").splitlines():
            name, _, value = line.partition("=")
            self.env[name] = value
        for line in Path(self.env["GITHUB_PATH"]).read_text("utf-8").splitlines():
            self.env["PATH"] = f"{line}{os.pathsep}{self.env['PATH']}"
        Path(self.env["GITHUB_PATH"]).write_text("", "utf-8")


def check_job(definition: dict[str, Any], values: dict[str, str]) -> None:
    """Raises an error if this machine cannot run a job."""
    if "uses" in definition:
        raise NotHereError(f"it calls {definition['uses']}: run its jobs")
    if "container" in definition:
        container = definition["container"]
        image = container if isinstance(container, str) else container["image"]
        raise NotHereError(f"it needs the container {image}")
    runner = resolve(definition["runs-on"], values)
    if not re.fullmatch(RUNNERS.get(HERE, "-"), runner):
        raise NotHereError(f"it needs the runner {runner}, this is {' on '.join(HERE)}")


def check_step(step: dict[str, Any], values: dict[str, str]) -> None:
    """Raises an error if this machine cannot run a step, or if the job leaves it out."""
    check_condition(step.get("if"), values)
    if "uses" in step:
        if action(step) not in PROVIDERS:
            raise NotHereError(f"nothing here stands for the action {action(step)}")
        return
    if step.get("shell") not in SHELLS:
        raise NotHereError(f"the shell {step['shell']} is not known")
    for command in commands(step, values):
        if any(word in PUBLISHING for word in command):
            raise NotHereError(f"it publishes or signs: {shlex.join(command)}")
    text = resolve(f"{step['run']} {step.get('env', {})}", values)
    if unresolved := re.search(r"\$\{\{.*?\}\}", text):
        raise NotHereError(f"the value of {unresolved[0]} is not known")


def check_condition(condition: str | None, values: dict[str, str]) -> None:
    """Raises an error if the condition of a step is false, or is not a comparison with a text."""
    if condition is None:
        return
    found = re.fullmatch(r"(?:matrix\.(\w+)|runner\.os) (==|!=) '([^']*)'", condition)
    if not found:
        raise NotHereError(f"the condition is not known: {condition}")
    value = values.get(found[1], "") if found[1] else {"Darwin": "macOS"}.get(HERE[0], HERE[0])
    if (value == found[3]) != (found[2] == "=="):
        raise NotHereError(f"its condition is false: {condition}")


def action(step: dict[str, Any]) -> str:
    """The name of an action, without its revision."""
    return step["uses"].partition("@")[0]


def checkout(job: Job, _: dict[str, str]) -> str:
    """Clones the repository as others see it, so without files that are not committed."""
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", ROOT, job.clone], check=True)
    command = ["git", "log", "-1", "--format=%h %s"]
    commit = subprocess.run(command, cwd=job.clone, check=True, capture_output=True, text=True).stdout.strip()
    return f"a clone of {commit}"


def setup_python(job: Job, given: dict[str, str]) -> str:
    """Puts the wanted versions that this machine has on PATH. The last one is `python`, or else the newest one here."""
    wanted = [tuple(map(int, version.split("."))) for version in given["python-version"].split()]
    here = all_pythons()
    found = {version: here[version] for version in wanted if version in here}
    chosen = next((version for version in reversed(wanted) if version in found), max(here))
    links = {f"python{'.'.join(map(str, version))}": path for version, path in found.items()}
    for name, path in {**links, "python3": here[chosen], "python": here[chosen]}.items():
        # Not a link: a Python of a virtual environment looks for its packages next to its name.
        program = job.folder / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(path)} "$@"\n', "utf-8")
        program.chmod(0o755)
    missing = [".".join(map(str, version)) for version in wanted if version not in here]
    note = f"; not here: {', '.join(missing)}" if missing else ""
    return f"Python {'.'.join(map(str, chosen))} of this machine{note}"


def setup_node(_: Job, given: dict[str, str]) -> str:
    version = subprocess.run(["node", "--version"], check=True, capture_output=True, text=True).stdout.strip()
    return f"Node {version} of this machine, for {given['node-version']}"


def upload_artifact(job: Job, given: dict[str, str]) -> str:
    """Copies files to the folder that jobs exchange."""
    folder = job.artifacts / given["name"]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = [file for pattern in given["path"].split() for file in sorted(job.clone.glob(pattern)) if file.is_file()]
    if not files:
        raise SystemExit(f"the artifact {given['name']} has no files")
    for file in files:
        shutil.copy(file, folder)
    return f"{len(files)} files in the artifact {given['name']}"


def download_artifact(job: Job, given: dict[str, str]) -> str:
    """Copies files from the folder that jobs exchange."""
    pattern = given.get("pattern") or given["name"]
    folders = sorted(job.artifacts.glob(pattern))
    if not folders:
        raise SystemExit(f"{job.artifacts} has no artifact {pattern}: run the jobs before with the same --artifacts")
    for folder in folders:
        shutil.copytree(folder, job.clone / given["path"], dirs_exist_ok=True)
    return f"the artifacts {', '.join(folder.name for folder in folders)}"


PROVIDERS = {
    "actions/checkout": checkout,
    "actions/setup-python": setup_python,
    "actions/setup-node": setup_node,
    "actions/upload-artifact": upload_artifact,
    "actions/download-artifact": download_artifact,
}


def title(step: dict[str, Any]) -> str:
    """A step in one line: its first command that is not a comment."""
    lines = [line for line in step.get("run", "").splitlines() if not line.startswith("#")]
    return action(step) if "uses" in step else lines[0] + (" …" if len(lines) > 1 else "")


def run_job(job: Job, ref: str) -> bool:
    """Runs the steps of a job until one fails."""
    job.prepare(ref)
    for step in job.definition["steps"]:
        print(f"- {title(step)}", flush=True)
        try:
            is_good = job.run(step)
        except NotHereError as error:
            print(f"  not run: {error}", flush=True)
            continue
        if not is_good:
            print("  FAILED", flush=True)
            return False
    return True


def load(file: Path) -> dict[str, Any]:
    jobs: dict[str, Any] = yaml.safe_load(file.read_text("utf-8"))["jobs"]
    return jobs


def list_jobs() -> None:
    """Says for each job and step whether this machine can run it."""
    for file in sorted(WORKFLOWS.glob("*.yml")):
        for name, definition in load(file).items():
            for values in combinations(definition):
                print(f"{file.name} {name}{describe(values)}: ", end="")
                try:
                    check_job(definition, values)
                except NotHereError as error:
                    print(f"not run: {error}")
                    continue
                print("runs")
                for step in definition["steps"]:
                    try:
                        check_step(step, values)
                    except NotHereError as error:
                        print(f"  - {title(step)}: not run: {error}")


def describe(values: dict[str, str]) -> str:
    return "".join(f" {name}={value}" for name, value in values.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--artifacts", type=Path, default=ROOT / ".cache" / "artifacts")
    parser.add_argument("--ref", default="main", help="the branch or the tag that the workflow runs for")
    parser.add_argument("file", nargs="?")
    parser.add_argument("job", nargs="?")
    given = parser.parse_args()
    if given.list:
        list_jobs()
        return 0
    if not given.job:
        parser.error("a workflow and a job are needed")
    definition = load(WORKFLOWS / given.file)[given.job]
    only = dict(each.split("=", 1) for each in given.only)
    chosen = [values for values in combinations(definition) if only.items() <= values.items()]
    if not chosen:
        parser.error(f"no combination of the matrix has {only}")
    failed = False
    for values in chosen:
        print(f"=== {given.file} {given.job}{describe(values)}", flush=True)
        try:
            check_job(definition, values)
        except NotHereError as error:
            print(f"not run: {error}", flush=True)
            continue
        with tempfile.TemporaryDirectory(prefix="kimi-agent-workflow-") as folder:
            failed |= not run_job(Job(definition, values, Path(folder), given.artifacts.resolve()), given.ref)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
