"""Asks an agent about many repositories, a few at a time. Usage: repositories.py PROMPT RESULTS.jsonl <URLS

Each result is a line of JSON. A second run asks only about the repositories without an answer in the file.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import kimi_agent

AT_A_TIME = 4


def answered(results: Path) -> set[str]:
    """The repositories with an answer. A line that a crash has cut off is removed."""
    if not results.exists():
        return set()
    content = results.read_bytes()
    complete = content[: content.rfind(b"\n") + 1]
    if len(complete) < len(content):
        os.truncate(results, len(complete))
    lines = [json.loads(line) for line in complete.splitlines()]
    return {line["repository"] for line in lines if "text" in line}


def clone(url: str, folder: str) -> None:
    command = ["git", "clone", "--quiet", "--depth", "1", "--no-tags", "--", url, folder]
    # Without a terminal, git fails where it would ask for a password.
    env = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=600, env=env)


async def ask(prompt: str, url: str) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="repository-", ignore_cleanup_errors=True) as folder:
        try:
            await asyncio.to_thread(clone, url, folder)
            result = (await kimi_agent.prompt(prompt, work_dir=folder, timeout=1800)).raise_for_status()
        except subprocess.SubprocessError as error:
            return {"repository": url, "error": "clone_failed", "message": str(getattr(error, "stderr", None) or error)}
        except kimi_agent.KimiAgentError as error:
            return {"repository": url, "error": error.code, "retryable": error.retryable, "message": str(error)}
        return {"repository": url, "text": result.text, "tokens": result.usage.total}


async def main(prompt: str, results: Path) -> int:
    done = answered(results)
    urls = [url for url in dict.fromkeys(map(str.strip, sys.stdin)) if url and url not in done]
    print(f"{len(urls)} to do, {len(done)} done", file=sys.stderr)
    queue = iter(urls)
    failed = 0

    async def worker() -> None:
        nonlocal failed
        for url in queue:
            record = await ask(prompt, url)
            failed += "error" in record
            # One write for a whole line, on the disk before the next repository begins.
            with results.open("ab") as file:
                file.write(json.dumps(record).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            print(f"{url}: {record.get('error', 'done')}", file=sys.stderr)

    await asyncio.gather(*(worker() for _ in range(AT_A_TIME)))
    return 1 if failed else 0


sys.exit(asyncio.run(main(sys.argv[1], Path(sys.argv[2]))))
