"""Generates the pages of the Python API: one for each subject, with every public name on exactly one of them.

mkdocstrings fills them from the sources, which are read and not imported.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

PACKAGE = Path(__file__).resolve().parent.parent.parent / "bindings-python" / "python" / "kimi_agent"
FOLDER = "reference/api/python"
# A page, its title, its text, and the modules whose public names it shows.
SUBJECTS = {
    "sessions": (
        "Sessions, turns and agents",
        "Open a session or an agent, prompt it, and read the turn.",
        ("_session", "_turn", "_agent", "_output", "_stream", "_results"),
    ),
    "options": (
        "Options and handlers",
        "The options as types, policies, and what handlers return.",
        ("_option_types", "_place", "_auth", "_policy", "_answers", "_hook", "_telemetry"),
    ),
    "batches": (
        "Batches",
        "Run many prompts with retries, limits and a journal.",
        ("_batch", "_job"),
    ),
    "tools": (
        "Tools, files, terminals and images",
        "Tools of the program, ready handlers, images in prompts, and safe text.",
        ("_tool", "_function_tool", "_tool_context", "_local", "_image", "_resource", "_printable"),
    ),
    "messages": (
        "Events, requests and content",
        "The classes of all messages. [Events](../../events.md) and [requests](../../requests.md) describe them.",
        ("_wire",),
    ),
    "errors": ("Errors", "The exceptions. [Errors](../../errors.md) says what to do about each.", ("_errors",)),
}
ALL_MESSAGES = """
## All messages

Every message has these methods.

::: kimi_agent._message.Message
    options:
      show_root_heading: false
      show_root_toc_entry: false
      heading_level: 3
      show_bases: false
      members: [extra, to_dict, from_dict, to_payload, from_payload]
"""
EXAMPLES = """
Examples are written as for `python -m asyncio`, which accepts `await` outside of functions. In a program they stand in
an `async def`. They use the names of `kimi_agent` without an import. If an example does not say where `agent`,
`session` and `turn` come from, they are an `Agent`, a `Session` and a `Turn` of it.
"""
# Pages of whole modules.
MODULES = {
    "sync": ("kimi_agent.sync", "Without asyncio", "The same API for programs without coroutines."),
    "testing": ("kimi_agent.testing", "Testing", "Agents for tests: they follow a script or play a recording."),
    "ray": ("kimi_agent.ray", "Ray", "Prompts on a cluster of Ray. It needs the extra `ray`."),
}


def on_files(files: Any, config: Any) -> Any:
    for name, text in pages().items():
        files.append(File.generated(config, f"{FOLDER}/{name}.md", content=text))
    order = "\n".join(f"  - {name}.md" for name in ("index", *SUBJECTS, *MODULES))
    files.append(File.generated(config, f"{FOLDER}/.nav.yml", content=f"title: Python\nnav:\n{order}\n"))
    return files


def pages() -> dict[str, str]:
    """The Markdown of each page by its name."""
    by_module = public_names()
    written = {}
    index = ["# Python API", "", "Every public name of the package `kimi_agent`, from its sources.", EXAMPLES]
    for name, (title, text, modules) in SUBJECTS.items():
        names = [one for module in modules for one in by_module.pop(module, [])]
        directives = "\n\n".join(f"::: kimi_agent.{one}" for one in names)
        written[name] = f"# {title}\n\n{text}\n\n{directives}\n{ALL_MESSAGES if name == 'messages' else ''}"
        links = ", ".join(f"[`{one}`][kimi_agent.{one}]" for one in names)
        index += [f"## [{title}]({name}.md)", "", links, ""]
    if by_module:
        raise PluginError(f"SUBJECTS in site/hooks/python_api.py lacks the modules {sorted(by_module)}")
    for name, (module, title, text) in MODULES.items():
        written[name] = f"# {title}\n\n{text}\n\n::: {module}\n    options:\n      show_root_toc_entry: false\n"
        index += [f"## [{title}]({name}.md)", "", f"The module `{module}`. {text}", ""]
    written["index"] = "\n".join(index)
    return written


def public_names() -> dict[str, list[str]]:
    """The names in `__all__` by the module that defines them, in the order in which that module does."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text("utf-8"))
    public: list[str] = []
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
            modules.update({alias.name: node.module for alias in node.names})
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            public = ast.literal_eval(node.value)
    found: dict[str, list[str]] = {}
    for name in public:
        if name != "__version__":
            found.setdefault(modules[name], []).append(name)
    for module, names in found.items():
        defined = defined_names(PACKAGE / f"{module}.py")
        names.sort(key=lambda name, order=defined: order.index(name) if name in order else len(order))
    return found


def defined_names(module: Path) -> list[str]:
    names = []
    for node in ast.parse(module.read_text("utf-8")).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.append(node.target.id)
    return names
