"""The memory of a session, for any output of the agent and any reading of the program."""

from __future__ import annotations

import json
from typing import Any

import proc
from proc import Failure
from program import Machine, Reports

__all__ = ["CASES"]

KIB = 1 << 10
MIB = 1 << 20
EVENTS = 200_000
# As many times what may be ahead; that the rest is no different is shown over Wire.
ACP_EVENTS = EVENTS // 4
JOBS = 20_000
# A batch keeps a hash of each job, in a table that doubles. A result is more than 1,000 bytes.
A_JOB = 128
# The default of the option `event_buffer_bytes`.
EVENT_BUFFER = 256 * KIB
# An event of the flood on the wire is some 190 bytes, and counts for 128 more; 64 KiB are in the pipe, and as much is
# read at once or lies in the agent.
AHEAD = EVENT_BUFFER // 150 + 3 * 64 * KIB // 150

Figures = dict[str, Any]


class Case:
    """A session with the agent that writes much."""

    def __init__(self, machine: Machine, language: str, acp: bool = False, **options: Any) -> None:
        self.machine = machine
        self.language = language
        self.folder = machine.folder / language
        self.folder.mkdir()
        self.reports = Reports(self.folder)
        self.program = machine.start(language, LIMITS_REPORT=str(self.reports.path))
        self.options = {"executable": machine.writer(acp), "dialect": "acp" if acp else "auto", **options}

    def __enter__(self) -> Case:
        self.program.__enter__()
        self.program.do("open", options=self.options)
        return self

    def __exit__(self, *error: Any) -> None:
        if error[0] is None:
            self.program.do("close")
        self.program.__exit__(*error)
        self.reports.path.unlink()
        self.folder.rmdir()

    def prompt(self, **wish: Any) -> None:
        """Begins a turn of the agent's."""
        self.reports.forget()
        self.program.do("prompt", input=json.dumps(wish))

    def warm_up(self) -> None:
        """What a language's runtime takes for itself when it has work is taken before anything is measured."""
        self.prompt(flood=EVENTS // 4)
        self.program.do("read", count=0)
        # The program may be done before the agent's report is here, which must not pass for the next turn's.
        self.reports.wait("ended")


def at_most(what: str, bytes_: int, limit: int) -> None:
    """The limit."""
    if bytes_ > limit:
        raise Failure(f"{what}: {bytes_:,} bytes, where {limit:,} are allowed")


def slow_reader(machine: Machine, language: str, acp: bool = False, events: int = EVENTS) -> Figures:
    """200,000 events to a reader that is always slower than the agent.

    Before each portion that it reads, the agent has got as far as it can: what a reader that takes a millisecond for
    an event sees, with nothing waited for but that. `--full` lets it take the millisecond.
    """
    with Case(machine, language, acp) as case:
        case.warm_up()
        case.prompt(flood=events)
        ahead = read = 0
        with case.program.growth() as growth:
            while not machine.full and read < events - AHEAD:
                sent = case.reports.standstill(case.program)["sent"]
                ahead = max(ahead, sent - read)
                read += case.program.do("read", count=500)["events"]
            last = case.program.do("read", count=0, pause=0.001 if machine.full else 0)
            grown = growth()
        figures = {"growth": grown, "ahead": ahead}
        # The turn's beginning and end, and its step's.
        if read + last["events"] != events + 3:
            raise Failure(f"{read + last['events']} events of {events + 3} were read")
        at_most("a slow reader", grown, EVENT_BUFFER + CONSTANT[language])
        at_most("events ahead of a slow reader", ahead, AHEAD)
    return figures


def nobody(machine: Machine, language: str, acp: bool = False, events: int = EVENTS) -> Figures:
    """200,000 events without a reader: the agent waits. An earlier approval request is answered; a cancel arrives."""
    with Case(machine, language, acp, approval=True) as case:
        case.warm_up()
        case.prompt(flood=events, approval=True)
        with case.program.growth() as growth:
            case.program.do("asked")
            sent = case.reports.standstill(case.program)["sent"]
            case.program.do("answer")
            case.reports.wait("answered")
            grown = growth()
            # Fails if the agent's answer does not come within `cancel_timeout`.
            discarded = case.program.do("cancel")["discarded"]
            ended = case.reports.wait("ended")["sent"]
            cancelled = growth()
        # How many it writes until its own other thread has read the cancel depends on the load.
        if ended >= events:
            raise Failure(f"the agent wrote all of its {ended} events, also those after the cancel")
        at_most("a turn that nobody reads", grown, EVENT_BUFFER + CONSTANT[language])
        at_most("the same, cancelled", cancelled, EVENT_BUFFER + CONSTANT[language])
        case.warm_up()
    return {"growth": cancelled, "written": sent, "discarded": discarded}


def left(machine: Machine, language: str) -> Figures:
    """200,000 events to a reader that leaves its loop after 100: kept where the turn goes on, the rest is counted."""
    with Case(machine, language) as case:
        case.warm_up()
        case.prompt(flood=EVENTS)
        with case.program.growth() as growth:
            case.program.do("read", count=100)
            case.program.do("leave")
            if language != "node":
                case.reports.standstill(case.program)
            result = case.program.do("result")
            grown = growth()
        # In Node, leaving the loop leaves the turn, which is cancelled.
        status = "cancelled" if language == "node" else "finished"
        if result["status"] != status:
            raise Failure(f"the turn ended as {result}, not as {status}")
        unread = EVENTS + 3 - 100
        # The first unread events are kept for another loop, as many as the buffer holds.
        if language != "node" and not unread - AHEAD <= result["discarded"] < unread:
            raise Failure(f"{result['discarded']} of {unread} unread events were dropped")
        at_most("a reader that left", grown, EVENT_BUFFER + CONSTANT[language])
        case.warm_up()
    return {"growth": grown, **result}


def volume(machine: Machine, language: str) -> Figures:
    """128 MiB (`--full`: 2 GiB) through one session, in lines of 64 KiB and short ones."""
    total = 2 << 30 if machine.full else 128 * MIB
    with Case(machine, language) as case:
        case.prompt(volume=32 * MIB)
        case.program.do("read", count=0)
        case.prompt(volume=total)
        with case.program.growth() as growth:
            read = case.program.do("read", count=0)
            grown = growth()
        if read["chars"] < total * 0.95:
            raise Failure(f"{read['chars']} characters were read of {total}")
        at_most("much through one session", grown, VOLUME[language])
    return {"growth": grown, "read": read["chars"]}


def large_result(machine: Machine, language: str, acp: bool = False) -> Figures:
    """A tool's result of 50 MiB from the agent."""
    size = 50 * MIB
    with Case(machine, language, acp) as case:
        case.warm_up()
        case.prompt(tool_result=size)
        with case.program.growth() as growth:
            read = case.program.do("read", count=0)
            grown, peak = growth(), proc.peak(case.program.pid)
        if read["chars"] != size:
            raise Failure(f"{read['chars']} characters came of {size}")
        at_most("a result of 50 MiB", grown, LARGE[language])
    return {"growth": grown, "peak": peak}


def large_answer(machine: Machine, language: str) -> Figures:
    """A tool's result of 50 MiB to the agent."""
    size = 50 * MIB
    with Case(machine, language, tool=True) as case:
        case.warm_up()
        case.prompt(call_tool=size)
        with case.program.growth() as growth:
            case.program.do("read", count=0)
            grown, peak = growth(), proc.peak(case.program.pid)
        at_most("what the agent got is short by", size - case.reports.wait("answered")["bytes"], 0)
        at_most("an answer of 50 MiB", grown, ANSWER[language])
    return {"growth": grown, "peak": peak}


def slow_reader_acp(machine: Machine, language: str) -> Figures:
    """The same over the Agent Client Protocol."""
    return slow_reader(machine, language, True, ACP_EVENTS)


def nobody_acp(machine: Machine, language: str) -> Figures:
    """The same over the Agent Client Protocol."""
    return nobody(machine, language, True, ACP_EVENTS)


def large_result_acp(machine: Machine, language: str) -> Figures:
    """The same over the Agent Client Protocol."""
    return large_result(machine, language, True)


def batch(machine: Machine, language: str) -> Figures:
    """A batch of 10,000 jobs (`--full`: 20,000), whose results are read and dropped, after one of 2,000."""
    jobs = JOBS if machine.full else JOBS // 2
    with machine.start(language) as program:
        program.do("batch", count=JOBS // 10)
        with program.growth() as growth:
            failed = program.do("batch", count=jobs)["failed"]
            grown = growth()
        if failed != jobs:
            raise Failure(f"{failed} of {jobs} jobs have failed")
        at_most("a batch", grown, jobs * A_JOB + CONSTANT[language])
    return {"growth": grown, "growth per job": grown / jobs}


# Beyond the event buffer: what the allocators and collectors of the languages take for this much work.
CONSTANT = {"rust": 512 * KIB, "python": MIB, "node": 8 * MIB}
VOLUME = {"rust": 2 * MIB, "python": 4 * MIB, "node": 64 * MIB}
# Twice the line; more where JavaScript's own copies go only when its collector comes.
LARGE = {"rust": 105 * MIB, "python": 105 * MIB, "node": 160 * MIB}
ANSWER = {"rust": 105 * MIB, "python": 155 * MIB, "node": 310 * MIB}

CASES = [
    slow_reader, nobody, left, volume, large_result, large_answer, slow_reader_acp, nobody_acp,
    large_result_acp, batch,
]  # fmt: skip
