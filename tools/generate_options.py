"""Writes the types of options in Python and TypeScript, and the tables of docs/reference/options.md.

They come from the declarations in core/protocol/src/options.rs. Also writes the address of the page of errors, which is
in core/protocol/src/error.rs.

`--check` fails if one of the files is not up to date.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

from catalog import ROOT, in_node, load_catalog

PYTHON = ROOT / "bindings-python" / "python" / "kimi_agent" / "_option_types.py"
TYPESCRIPT = ROOT / "bindings-node" / "lib" / "option-types.ts"
PYTHON_PAGE = ROOT / "bindings-python" / "python" / "kimi_agent" / "_errors_page.py"
TYPESCRIPT_PAGE = ROOT / "bindings-node" / "lib" / "errors-page.ts"
DOCS = ROOT / "docs" / "reference" / "options.md"
WIDTH = 120

Option = dict[str, Any]

PYTHON_TYPES = {
    "text": "str | None",
    "directory": "StrPath | None",
    "file": "StrPath | None",
    "recording": "StrPath | None",
    "boolean": "bool | None",
    "count": "int | None",
    "bytes": "int | None",
    "duration": "Seconds",
    "budget": "Budget | None",
    "prices": "Mapping[str, Mapping[str, float]] | StrPath | None",
    # Types such as `list[int] | None` are objects of no common class.
    "output": "Any",
    "telemetry": "bool | Telemetry | TracerSource | MeterSource | None",
    "object": "Mapping[str, Any] | None",
    "objects": "Sequence[Mapping[str, Any]] | None",
    "texts": "Sequence[str] | None",
    "system_prompt": "str | Mapping[str, str] | None",
    "directories": "Sequence[StrPath] | None",
    "patterns": "Sequence[str | Pattern[str]] | None",
    "environment": "Mapping[str, str | None] | None",
    "inherit_env": "bool | Sequence[str] | None",
    "executable": "StrPath | Sequence[StrPath] | None",
    "place": "Place | Mapping[str, Any] | None",
    "dialect": "Dialect | None",
    "tools": "Sequence[ExternalTool] | None",
    "hooks": "Sequence[Hook] | None",
    "policy": "PolicyRules | Policy | StrPath | None",
    "enforce": 'Literal["approvals", "calls"] | None',
    "approval_handler": 'ApprovalHandler | Literal["manual"] | None',
    "question_handler": 'QuestionHandler | Literal["manual"] | None',
    "event_handler": "EventHandler | None",
    "stderr_handler": "StderrHandler | None",
    "read_file_handler": "ReadFileHandler | None",
    "write_file_handler": "WriteFileHandler | None",
    "terminal_handler": "TerminalHandler | None",
    "retry": "Retry | Mapping[str, Any] | int | None",
    "workspace": 'Literal["shared", "copy", "worktree"] | None',
    "progress_handler": "ProgressHandler | None",
}
TYPESCRIPT_TYPES = {
    "text": "string",
    "directory": "string | URL",
    "file": "string | URL",
    "recording": "string | URL",
    "boolean": "boolean",
    "count": "number",
    "bytes": "number",
    "duration": "number",
    "budget": "Budget",
    "prices": "Prices | string | URL",
    "output": "S",
    "telemetry": "boolean | TelemetryOptions | TracerSource | MeterSource",
    "object": "AnyObject",
    "objects": "readonly AnyObject[]",
    "texts": "readonly string[]",
    # Documentation counts for the member on the next line only.
    "system_prompt": (
        "string | {\n    /** The text. */\n    content: string;\n    /** With `override`, it replaces the agent's own. "
        'Default: `append`. */\n    mode?: "append" | "override" | undefined;\n  }'
    ),
    "directories": "readonly string[]",
    "patterns": "readonly (string | RegExp)[]",
    "environment": "Readonly<Record<string, string | null | undefined>>",
    "inherit_env": "boolean | readonly string[]",
    "executable": "string | URL | readonly string[]",
    "place": "Place",
    "dialect": "Dialect",
    "tools": "readonly ExternalTool[]",
    "hooks": "readonly HookDefinition[]",
    "policy": "PolicyRules | Policy | string | URL",
    "enforce": '"approvals" | "calls"',
    "approval_handler": 'ApprovalHandler | "manual"',
    "question_handler": 'QuestionHandler | "manual"',
    "event_handler": "((event: Event, context: HandlerContext) => unknown)",
    "stderr_handler": "((line: string, context: HandlerContext) => unknown)",
    "read_file_handler": "ReadFileHandler",
    "write_file_handler": "WriteFileHandler",
    "terminal_handler": "TerminalHandler",
    "retry": "Retry | number",
    "workspace": '"shared" | "copy" | "worktree"',
    "progress_handler": "((progress: Progress) => unknown)",
}
DOCS_TYPES = {
    "text": "text",
    "directory": "path of a directory",
    "file": "path of a file",
    "recording": "path of a file or directory",
    "boolean": "boolean",
    "count": "whole number",
    "bytes": "number of bytes",
    "duration": "duration",
    "budget": "limits",
    "prices": "prices by model, or path of a file",
    "output": "type, or JSON Schema",
    "telemetry": "boolean, a provider of OpenTelemetry, or details",
    "object": "object",
    "objects": "list of objects",
    "texts": "list of text",
    "system_prompt": "text, or `content` and `mode`",
    "directories": "list of paths of directories",
    "patterns": "list of regular expressions",
    "environment": "object of text or null",
    "inherit_env": "boolean, or list of text",
    "executable": "path, or list of text",
    "place": "place",
    "dialect": "protocol",
    "tools": "list of tools",
    "hooks": "list of hooks",
    "policy": "rules, `Policy`, or path of a file",
    "enforce": "`approvals` or `calls`",
    "approval_handler": "function, or `manual`",
    "question_handler": "function, or `manual`",
    "event_handler": "function",
    "stderr_handler": "function",
    "read_file_handler": "function",
    "write_file_handler": "function",
    "terminal_handler": "function",
    "retry": "`Retry`, or number of attempts",
    "workspace": "`shared`, `copy` or `worktree`",
    "progress_handler": "function",
}

# The option that decides about the type of a result. Functions have it as a parameter of its own, so that the classes
# of their other options do not have it.
OUTPUT = "output"


def of_batch(name: str, kind: str, default: Any, doc: str) -> Option:
    """Returns an option of batches, in the form of the declarations of the core."""
    node_doc = re.sub("`[a-z_]+`", lambda match: in_node(match[0]), doc)
    return {
        "name": name,
        "node_name": in_node(name),
        "kind": kind,
        "scope": "batch",
        "section": "batch",
        "default": default,
        "node_default": default.get("words") if isinstance(default, dict) else None,
        "doc": doc,
        "node_doc": node_doc,
    }


# The options of a batch, which the engine reads itself (core/client/src/batch/json.rs).
BATCH = [
    of_batch("concurrency", "count", {"words": "4"}, "The most jobs that run concurrently, at most 10,000."),
    of_batch(
        "retry",
        "retry",
        {"words": "3 attempts"},
        "How jobs are retried whose error has `retryable`: a `Retry`, or the number of attempts, with the first one.",
    ),
    of_batch(
        "journal",
        "file",
        {"words": "no journal"},
        "The path of a file for the results. With the file of an earlier run, only jobs without a result run.",
    ),
    of_batch(
        "workspace",
        "workspace",
        {"text": "shared"},
        "The directory of each job: `work_dir` itself, a copy of it, or a new worktree of its git repository.",
    ),
    of_batch("keep_failed", "boolean", "false", "Whether the copy or worktree of a failed job is kept."),
    of_batch(
        "timeout",
        "duration",
        {"words": "no limit"},
        "The longest time of the batch. Then the running jobs are cancelled, and after their results the batch fails.",
    ),
    of_batch(
        "job_timeout",
        "duration",
        {"words": "no limit"},
        "The longest time of one attempt of a job. It is another name of `turn_timeout`.",
    ),
    of_batch(
        "on_progress",
        "progress_handler",
        {"words": "none"},
        "Is called with a `Progress` when its numbers change. While an asynchronous call runs, only the newest waits.",
    ),
    of_batch(
        "progress",
        "boolean",
        "false",
        "Whether the progress is shown on stderr: as a bar if stderr is a terminal, else as lines. In Python, tqdm "
        "or rich draws the bar if it is installed.",
    ),
]

# Kinds of options that a job cannot have, because they have no JSON form or belong to the batch.
NOT_OF_JOBS = ("tools", "hooks", "output", "recording", "telemetry")


# The classes of Python: name, base, documentation, scopes, and whether they have the option `output`.
CLASSES = [
    (
        "AgentSessionSettings",
        "TypedDict",
        "The options of a session of an `Agent` without `output`.",
        ("session", "both"),
        False,
    ),
    (
        "AgentSessionOptions",
        "AgentSessionSettings",
        """\
All options of `Agent.create_session()`. None is the same as leaving an option out.

>>> options: AgentSessionOptions = {"work_dir": ".", "turn_timeout": 600}
>>> async with agent.create_session(**options) as session:
...     print(session.state)
idle
""",
        ("session",),
        True,
    ),
    (
        "SessionSettings",
        "AgentSessionSettings",
        """\
The options of `create_session()` and `prompt()` without `output`, for functions that set `output` themselves.

>>> options: SessionSettings = {"work_dir": ".", "turn_timeout": 600}
>>> async with create_session(output=int, **options) as session:
...     print(session.state)
idle
""",
        ("agent",),
        False,
    ),
    (
        "SessionOptions",
        "SessionSettings, AgentSessionOptions",
        """\
All options of `create_session()` and `prompt()`.

Only options that are set are passed on to the agent. None is the same as leaving an option out.

>>> options: SessionOptions = {"work_dir": ".", "yolo": True, "turn_timeout": 600}
>>> async with create_session(**options) as session:
...     print(session.state)
idle
""",
        (),
        False,
    ),
    (
        "PromptSettings",
        "TypedDict",
        "The options of `session.prompt()` without `output`.",
        ("prompt",),
        False,
    ),
    (
        "PromptOptions",
        "PromptSettings",
        """\
All options of `session.prompt()`. They override the session's.

>>> limits: PromptOptions = {"timeout": 600, "idle_timeout": 60}
>>> turn = session.prompt("Fix the tests", **limits)
""",
        ("prompt",),
        True,
    ),
    (
        "OneShotSettings",
        "SessionSettings",
        "The options of `prompt()` without `output`.",
        ("one-shot",),
        False,
    ),
    (
        "OneShotOptions",
        "OneShotSettings, SessionOptions",
        """\
All options of `prompt()`, which has a session of its own.

>>> options: OneShotOptions = {"work_dir": ".", "timeout": 600}
>>> result = await prompt("What is in this directory?", **options).result()
>>> result.text
'There are 3 files.'
""",
        (),
        False,
    ),
    (
        "BatchSettings",
        "SessionSettings",
        "The options of `run_batch()` without `output`. Only `session_id` is not one of them.",
        ("batch",),
        False,
    ),
    (
        "BatchOptions",
        "BatchSettings, SessionOptions",
        """\
All options of `run_batch()`: its own, and those of the session of each job.

>>> options: BatchOptions = {"concurrency": 8, "work_dir": ".", "job_timeout": 600}
>>> async for result in run_batch(["What is in this directory?"], **options):
...     print(result.text)
There are 3 files.
""",
        (),
        False,
    ),
    (
        "JobSettings",
        "TypedDict",
        "The options of a session that a job of a batch can have.",
        ("job",),
        False,
    ),
    (
        "AgentOptions",
        "TypedDict",
        """\
All options of `open_agent()`. The other options are those of its sessions.

None is the same as leaving an option out.

>>> options: AgentOptions = {"client_name": "my program"}
>>> async with open_agent(**options) as agent:
...     session = await agent.create_session(work_dir=".")
""",
        ("agent", "both"),
        False,
    ),
]

TYPESCRIPT_HEADER = """\
// Generated by tools/generate_options.py from the declarations in core/protocol/src/options.rs; changes belong there.

/** The options of sessions, prompts and agents. */

import type { Progress, Retry } from "./batch.js";
import type { Budget, Prices } from "./budget.js";
import type {
  ApprovalHandler,
  Dialect,
  HandlerContext,
  HookDefinition,
  QuestionHandler,
  ReadFileHandler,
  TerminalHandler,
  WriteFileHandler,
} from "./handler-types.js";
import type { OutputSchema } from "./output.js";
import type { Place } from "./place.js";
import type { Policy, PolicyRules } from "./policy.js";
import type { MeterSource, TelemetryOptions, TracerSource } from "./telemetry-types.js";
import type { ExternalTool } from "./tool.js";
import type { AnyObject } from "./tool-schema.js";
import type { Event } from "./wire.js";
"""

TYPESCRIPT_FOOTER = """\
/** The options that belong to an agent's process, which its sessions share. */
type ProcessOption = %(process)s;

/**
 * The options of {@link openAgent}. No process is started before the first session, so `signal` gives up the agent
 * until its first session is open. Sessions have a signal and timeouts of their own.
 */
export type AgentOptions = Pick<SessionOptions, ProcessOption | %(both)s | "signal">;

/** The options of a session that a {@link Job} can have. */
export type JobSettings = Pick<SessionOptions, %(job)s>;

/** The options of a session of an {@link Agent}: all but those of its process. */
export type AgentSessionOptions<%(output)s> = Omit<SessionOptions<S>, ProcessOption>;
"""

# The type of `output`, from which the type of the result follows.
OUTPUT_PARAMETER = "S extends OutputSchema | undefined = OutputSchema | undefined"

SIGNAL = (
    "Gives up the opening when it is aborted: the signal's reason is thrown, and the agent is ended. It has no effect "
    "on an open session. The one-shot {@link prompt} is cancelled by it at any time. Default: none."
)

BATCH_HEAD = "/** The options of {@link runBatch}: its own, and those of the session of each job. */"

BATCH_SIGNAL = (
    "Cancels the batch when it is aborted, as {@link Batch.cancel} does. If it is aborted already, `runBatch()` "
    "throws its reason. Default: none."
)


def sized(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def default(option: Option, language: str) -> str:
    """Returns the default of an option, as the documentation of a language says it."""
    given: Any = option["default"]
    kind: str
    value: Any
    kind, value = next(iter(given.items())) if isinstance(given, dict) else (given, "")
    if kind in ("false", "true"):
        return {"python": kind.capitalize(), "node": f"`{kind}`", "docs": "yes" if kind == "true" else "no"}[language]
    if kind == "text":
        return {"python": f'"{value}"', "node": f'`"{value}"`', "docs": f"`{value}`"}[language]
    if kind == "duration":
        seconds = value["secs"]
        return {"python": f"{seconds}", "node": f"{seconds * 1000:,}", "docs": f"{seconds} s"}[language]
    if kind == "bytes":
        return sized(value) if language == "docs" else f"{value:,} ({sized(value)})"
    return str(option["node_default"] if language == "node" else value)


def sentences(option: Option, language: str, for_agent: bool = False, smallest: int = 0) -> str:
    """Returns the documentation of an option: its text, its unit and its limit."""
    key = "doc_for_agent" if for_agent and option["doc_for_agent"] else "doc"
    text = str(option[f"node_{key}" if language == "node" else key])
    if language == "docs":
        return text + (f" At least {sized(smallest)}." if option["kind"] == "bytes" else "")
    if option["kind"] == "duration":
        text += " In seconds." if language == "python" else " In milliseconds."
    if option["kind"] == "bytes":
        text += f" In bytes, at least {smallest}."
    return f"{text} Default: {default(option, language)}."


def python(catalog: dict[str, Any]) -> str:
    smallest = catalog["smallest_buffer"]
    blocks = []
    for name, base, doc, scopes, has_output in CLASSES:
        lines = [f"class {name}({base}, total=False):", *class_docstring(doc), ""]
        for option in python_options(catalog["options"], scopes):
            if (option["name"] == OUTPUT) == has_output:
                lines.append(f"    {option['name']}: {PYTHON_TYPES[option['kind']]}")
                lines += docstring(sentences(option, "python", name == "AgentOptions", smallest))
        blocks.append("\n".join(lines).rstrip())
    return "\n\n\n" + "\n\n\n".join(blocks) + "\n"


def python_options(options: list[Option], scopes: tuple[str, ...]) -> list[Option]:
    """Returns the options of some scopes. Those of the scope "one-shot" are options of a prompt that no session has."""
    of_sessions = [option["name"] for option in options if option["scope"] != "prompt"]
    if scopes == ("batch",):
        return BATCH
    if scopes == ("job",):
        return [option for option in options if is_of_jobs(option)]
    own = [option for option in options if option["scope"] == "prompt" and option["name"] not in of_sessions]
    return own if scopes == ("one-shot",) else [option for option in options if option["scope"] in scopes]


def is_of_jobs(option: Option) -> bool:
    """Whether a job of a batch can have it as one of its other options."""
    kind = option["kind"]
    named = option["scope"] == "prompt" or option["name"] in ("work_dir", "session_id")
    return not named and kind not in NOT_OF_JOBS and not kind.endswith("_handler")


def docstring(text: str) -> list[str]:
    quoted = f'"""{text}"""'
    return textwrap.wrap(quoted, WIDTH, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)


def class_docstring(text: str) -> list[str]:
    """The documentation of a class, whose lines are already short enough."""
    if "\n" not in text:
        return docstring(text)
    return textwrap.indent(f'"""{text}"""', "    ").split("\n")


def comment(text: str) -> str:
    if len(text) + 9 <= WIDTH:
        return f"  /** {text} */"
    lines = textwrap.wrap(text, WIDTH - 5, break_on_hyphens=False)
    return "\n".join(["  /**", *(f"   * {line}" for line in lines), "   */"])


def interface(name: str, doc: str, options: list[Option], smallest: int, base: str = "") -> list[str]:
    extends = f" extends {base}" if base else ""
    lines = [doc, f"export interface {name}<{OUTPUT_PARAMETER}>{extends} {{"]
    for option in options:
        lines.append(comment(sentences(option, "node", smallest=smallest)))
        lines.append(f"  {option['node_name']}?: {TYPESCRIPT_TYPES[option['kind']]} | undefined;")
    return lines


def typescript(catalog: dict[str, Any]) -> str:
    options, smallest = catalog["options"], catalog["smallest_buffer"]
    head = (
        "/**\n * The options of {@link createSession} and of the one-shot {@link prompt}. An option that is not set, "
        "or `undefined`, is not\n * passed on to the agent, so that the agent's own configuration decides.\n */"
    )
    session = [option for option in options if option["scope"] != "prompt"]
    lines = interface("SessionOptions", head, session, smallest)
    lines += [comment(SIGNAL), "  signal?: AbortSignal | undefined;", "}", ""]

    def names(scope: str) -> str:
        return " | ".join(f'"{option["node_name"]}"' for option in options if option["scope"] == scope)

    base = 'Omit<SessionOptions<S>, "sessionId" | "signal">'
    lines += interface("BatchOptions", BATCH_HEAD, BATCH, smallest, base)
    lines += [comment(BATCH_SIGNAL), "  signal?: AbortSignal | undefined;", "}", ""]
    job = " | ".join(f'"{option["node_name"]}"' for option in options if is_of_jobs(option))
    footer = TYPESCRIPT_FOOTER % {
        "job": job,
        "process": names("agent"),
        "both": names("both"),
        "output": OUTPUT_PARAMETER,
    }
    return "\n".join([TYPESCRIPT_HEADER, *lines, footer])


def table(catalog: dict[str, Any], section: str) -> str:
    lines = ["| option | type | meaning | default |", "| --- | --- | --- | --- |"]
    for option in [*catalog["options"], *BATCH]:
        if option["section"] == section:
            cells = [
                f"`{option['name']}`",
                DOCS_TYPES[option["kind"]],
                sentences(option, "docs", smallest=catalog["smallest_buffer"]),
                default(option, "docs"),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n" + "\n".join(lines) + "\n"


def between(text: str, begin: str, end: str, new: str) -> str:
    """Replaces the text between two markers."""
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"no {begin!r} and {end!r}")
    return before + begin + new + end + after


def errors_page(catalog: dict[str, Any]) -> dict[Path, str]:
    """The files with the address of the page of errors."""
    generated = "Generated by tools/generate_options.py from core/protocol/src/error.rs; changes belong there."
    doc, page = (
        "The page of the documentation with a section for each code of an error",
        json.dumps(catalog["errors_page"]),
    )
    return {
        PYTHON_PAGE: f'"""{doc}."""\n\n# {generated}\n\nERRORS_PAGE = {page}\n',
        TYPESCRIPT_PAGE: f"// {generated}\n\n/** {doc}. */\nexport const ERRORS_PAGE = {page};\n",
    }


def generated(catalog: dict[str, Any]) -> dict[Path, str]:
    types = PYTHON.read_text(encoding="utf-8")
    begin = "# Generated from here on by tools/generate_options.py; changes belong in core/protocol/src/options.rs."
    docs = DOCS.read_text(encoding="utf-8")
    for section in ("session", "program", "handlers", "limits", "batch"):
        markers = (
            f'<!-- (options of the section "{section}": tools/generate_options.py writes this table) -->',
            "<!-- end of options -->",
        )
        docs = between(docs, *markers, table(catalog, section))
    return {
        PYTHON: types.partition(begin)[0] + begin + python(catalog),
        TYPESCRIPT: typescript(catalog),
        DOCS: docs,
        **errors_page(catalog),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if a file is not up to date")
    check = parser.parse_args().check
    status = 0
    for path, text in generated(load_catalog("option_catalog")).items():
        if not check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path.relative_to(ROOT)} is not up to date: run python tools/generate_options.py", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
