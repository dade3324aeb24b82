"""The same chat without coroutines."""

import sys

from kimi_agent import TextPart, printable, sync

with sync.create_session(work_dir=sys.argv[1]) as session:
    while True:
        try:
            question = input("> ")
        except EOFError:
            break
        try:
            for event in session.prompt(question):
                if isinstance(event, TextPart):
                    print(printable(event.text), end="", flush=True)
            print()
        except KeyboardInterrupt:
            print("\n(stopped)")
