"""Codex with a key that the program passes: codex_key.py KEY_FILE PROMPT. The key is not kept after the program."""

import asyncio
import sys
import tempfile
from pathlib import Path

import kimi_agent


async def main(key_file: str, prompt: str) -> int:
    key = Path(key_file).read_text("utf-8").strip()
    # Codex stores the key of a login below CODEX_HOME. Here this is a directory that is deleted at the end.
    with tempfile.TemporaryDirectory() as home:
        env = {"CODEX_API_KEY": key, "CODEX_HOME": home}
        try:
            # When Codex asks for a login, the SDK selects the way whose key is in `env`.
            async with kimi_agent.create_session(work_dir=".", executable="codex-acp", env=env, auth="auto") as session:
                result = await session.prompt(prompt).result()
        except kimi_agent.AuthExpired as error:
            print(f"no login: {error}", file=sys.stderr)
            for method in error.methods:
                print(f"  {method.id} ({method.kind}): {kimi_agent.printable(method.name)}", file=sys.stderr)
            return 3
        except kimi_agent.KimiAgentError as error:
            print(f"{error.code}: {error}", file=sys.stderr)
            return 1
    print(kimi_agent.printable(result.text))
    return 0


if len(sys.argv) != 3:
    sys.exit("usage: codex_key.py KEY_FILE PROMPT")
sys.exit(asyncio.run(main(*sys.argv[1:])))
