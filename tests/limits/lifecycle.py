"""Sessions that are over leave nothing behind, however they ended. Everything is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import proc
from memory import KIB, MIB, at_most
from proc import Failure
from program import Fifo, Machine, Program

__all__ = ["CASES"]

# The memory that the languages' allocators keep, however many sessions there were.
LEFT = {"rust": MIB, "python": 2 * MIB, "node": 48 * MIB}
# Twice what they take: how many pages an allocator keeps depends on how many sessions begin at the same moment.
IDLE = 32 * KIB
# Of it, what is in use in Rust: counted exactly.
IDLE_LIVE = 6 * KIB
# What stands for the process is memory of ours there.
IDLE_SHARED = 64 * KIB
AT_ONCE = 200
# Three pipes, and the descriptor that reports the process's exit.
DESCRIPTORS = 4
# While there are agents: the pipe to the helper that ends them with the program.
HELPER_DESCRIPTORS = 2

Figures = dict[str, Any]

# Long enough for some of the sessions to be left in its middle.
SCRIPT = [[{"repeat": {"times": 20, "actions": [{"text": "busy"}]}}]]
# Tells that it runs, and answers nothing.
SILENT = {"before_handshake": [{"stderr": "up"}, {"stall": True}], "turns": []}
FRIENDLY = [[{"text": "Hello, {{prompt}}!"}]] * 2
# In the middle of a turn for as long as it lives.
LASTING = [[{"text": "busy"}, {"wait_file": "never"}]]


def left_over(program: Program) -> Figures:
    """Everything that can be counted of a program."""
    counts = program.do("counts")
    return {
        # Memory is measured by itself: how much is free in the allocator's books depends on the order of events.
        **{key: value for key, value in counts.items() if key not in ("bytes", "blocks")},
        "children": proc.children(program.pid),
        "threads of the process": proc.threads(program.pid),
        "descriptors": dict(proc.descriptors(program.pid)),
        "files": sorted(path.name for path in program.folder.iterdir()),
    }


def settled(program: Program) -> Figures:
    """The same, once nothing of sessions that are over is on its way any more."""
    seen: list[Figures] = []

    def same_again() -> Figures | None:
        seen.append(left_over(program))
        still = len(seen) > 5 and all(past == seen[-1] for past in seen[-5:])
        # What ends by itself, though not at once, would be missed later.
        return seen[-1] if still and not seen[-1]["children"] and not seen[-1].get("ending") else None

    found = proc.eventually("the program does not come to rest", same_again)
    assert found
    return found


def cycles(way: str) -> Callable[[Machine, str], Figures]:
    """Sessions that are all left in the same way."""

    def many(machine: Machine, language: str) -> Figures:
        times = 1000 if machine.full else 150
        script = SILENT if way == "cancel" else SCRIPT
        agent = machine.scripted(f"{language}-{way}", script)
        # Short, where the agent is to need TERM.
        options: dict[str, Any] = {"close_timeout": 0.05 if way == "cancel" else 5.0}
        with machine.start(language) as program:

            def cycle(times: int, descendant: str) -> None:
                fifo = Fifo(machine.folder, f"{language}-{way}-{times}")
                options["executable"] = machine.held(fifo, descendant, agent)
                program.do("cycle", way=way, times=times, width=4, options=options)
                # Who collects garbage in this language lets go of what is garbage.
                program.do("counts")
                fifo.all_gone(f"{times} sessions, {way}")

            # What is made once stays: threads, the mailbox of the loop.
            cycle(30, "plain")
            before = settled(program)
            resident, counted = proc.resident(program.pid), program.do("counts")
            cycle(times, "stubborn")
            proc.eventually(
                f"what is left differs from {before}", lambda: left_over(program), lambda left: left == before
            )
            grown = proc.resident(program.pid) - resident
            figures = {"sessions": times, "growth per session": grown // times}
            if "bytes" in counted:
                after = program.do("counts")
                figures["live bytes per session"] = (after["bytes"] - counted["bytes"]) / times
                figures["live blocks"] = after["blocks"] - counted["blocks"]
                # Tables may have grown; what is kept for a session is not among it.
                at_most(f"live after {times} sessions", after["bytes"] - counted["bytes"], 64 * KIB)
            at_most(f"resident after {times} sessions", grown, LEFT[language])
        return figures

    many.__name__ = f"sessions_{way}"
    return many


def all_turns_right(program: Program) -> None:
    right = program.do("turns")["right"]
    if right != AT_ONCE:
        raise Failure(f"{right} of {AT_ONCE} turns were right")


def nothing_left(program: Program, before: dict[str, Any]) -> None:
    """Waits until the program has no child, and compares its descriptors with those of one open session."""
    proc.eventually("a child is left", lambda: proc.children(program.pid), lambda left: not left)
    left = sum(proc.descriptors(program.pid).values())
    if left != sum(before["descriptors"].values()) - DESCRIPTORS - HELPER_DESCRIPTORS:
        raise Failure(f"{left} descriptors are left of {before['descriptors']}")


def at_once(machine: Machine, language: str) -> Figures:
    """200 sessions at once: four descriptors each, no thread, and every turn right."""
    agent = machine.scripted(f"{language}-friendly", FRIENDLY)
    options = {"executable": agent}
    with machine.start(language) as program:
        program.do("open", options=options)
        program.do("turns")
        before, resident, counted = left_over(program), proc.reset_peak(program.pid), program.do("counts")
        program.do("open_many", count=AT_ONCE - 1, options=options)
        with_sessions = left_over(program)
        idle = (proc.resident(program.pid) - resident) // (AT_ONCE - 1)
        figures: Figures = {"resident bytes per idle session": idle}
        if "bytes" in counted:
            live = (program.do("counts")["bytes"] - counted["bytes"]) // (AT_ONCE - 1)
            figures["live bytes per idle session"] = live
            at_most("what is live of an idle session", live, IDLE_LIVE)
        at_most("an idle session", idle, IDLE)
        all_turns_right(program)

        def more(name: str) -> int:
            old, new = before[name], with_sessions[name]
            return sum(new.values()) - sum(old.values()) if isinstance(old, dict) else new - old

        figures["descriptors per session"] = more("descriptors") / (AT_ONCE - 1)
        figures["threads more"] = more("threads of the process")
        if more("descriptors") != DESCRIPTORS * (AT_ONCE - 1):
            raise Failure(f"{AT_ONCE - 1} more sessions have {more('descriptors')} more descriptors")
        if more("threads of the process"):
            raise Failure(f"{AT_ONCE - 1} more sessions have {more('threads of the process')} more threads")
        program.do("close")
        nothing_left(program, before)
    return figures


def in_one_process(machine: Machine, language: str) -> Figures:
    """200 sessions at once in one process of an agent: none has a descriptor or a thread, and every turn is right."""
    with machine.start(language) as program:
        program.do("open_agent", options={"executable": machine.many()})
        program.do("open", options={})
        program.do("turns")
        before, resident = left_over(program), proc.reset_peak(program.pid)
        program.do("open_many", count=AT_ONCE - 1, options={})
        idle = (proc.resident(program.pid) - resident) // (AT_ONCE - 1)
        at_most("an idle session", idle, IDLE_SHARED)
        figures: Figures = {"resident bytes per idle session": idle}
        with_sessions = left_over(program)
        for name in ("children", "threads of the process", "descriptors"):
            if before[name] != with_sessions[name]:
                raise Failure(f"{AT_ONCE - 1} more sessions have other {name}: {before[name]}, {with_sessions[name]}")
        all_turns_right(program)
        program.do("close")
        if proc.children(program.pid) != before["children"]:
            raise Failure("the agent's process does not outlive its sessions")
        program.do("close_agent")
        # Closing waits for the process, which is reaped later.
        nothing_left(program, before)
    return figures


def host_killed(machine: Machine, language: str) -> Figures:
    """The program is killed with KILL in the middle of turns: its agents die with it."""
    agent = machine.scripted(f"{language}-lasting", LASTING)
    fifo = Fifo(machine.folder, f"{language}-killed")
    with machine.start(language) as program:
        for _ in range(3):
            program.do("open", options={"executable": machine.held(fifo, "none", agent)})
            program.do("prompt", input="go")
            program.do("read", count=2)
        program.killed()
        fifo.all_gone("the program was killed")
        return {"files left": [path.name for path in program.folder.iterdir()]}


CASES = [cycles("close"), cycles("drop"), cycles("collect"), cycles("cancel"), at_once, in_one_process, host_killed]
