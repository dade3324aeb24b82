"""The core, as Python sees it. Internal: programs use what `kimi_agent` exports.

No thread of the core ever calls into Python. It writes to a `Mailbox`, whose file descriptor becomes readable, and
Python fetches; that is what makes the end of the interpreter safe. All functions return at once, except `shutdown`
and `run_scripted_agent`, which release the GIL. All objects may be used from any thread.

A *ticket* stands for an operation that is under way; the mailbox delivers `("done", ticket, …)` when it has ended.
An *answer* to a request is JSON: for an approval `"approve"`, `"approve_for_session"`, `"reject"` or
`{"reject": feedback}`; for a question answers by the question's text, or None; for a tool any JSON; for a hook None,
True, `"allow"` or `{"block": reason}`. What it may be is judged by the core.
"""

from collections.abc import Mapping
from typing import Any, Literal, final

from ._interface import Callbacks, Delivery, ErrorTuple, Info, Outcome
from ._wire import Event, ImageURLPart, ResourcePart, StatusUpdate, TokenUsage

__all__ = [
    "Agent",
    "Batch",
    "Mailbox",
    "NativeError",
    "PrivateFolder",
    "Session",
    "Turn",
    "check_batch_names",
    "check_names",
    "check_policy",
    "check_prompt_names",
    "check_script",
    "file_part",
    "image_bytes",
    "image_file",
    "open_cassette",
    "path_options",
    "printable",
    "read_policy",
    "resource_part",
    "run_command",
    "run_scripted_agent",
    "set_wire_log",
    "shutdown",
    "telemetry_names",
    "wrong_type",
]

class NativeError(Exception):
    """An error of the core's; `args` is an `ErrorTuple`."""

@final
class Mailbox:
    """The core's deliveries to an event loop. Wakes are coalesced."""

    def __new__(cls) -> Mailbox: ...
    def fileno(self) -> int:
        """Readable while there is something to drain."""
    def drain(self) -> list[Delivery]:
        """Takes everything; not readable until there is more."""
    def finish_job(self, job_id: int, value: Any, error: str | None, kind: str | None) -> None:
        """Answers a job with a JSON value, or with the text of what went wrong. Unknown ids are ignored."""
    def report_progress(self, job_id: int, fraction: float | None, message: str | None) -> None:
        """Reports the progress of a tool's job. Unknown ids are ignored."""
    def refuse_answer(self, job_id: int, reason: str) -> None:
        """Fails a job whose answer cannot be sent. The model does not read the text. Unknown ids are ignored."""
    def close(self) -> None:
        """Closes the descriptor; later deliveries are dropped and jobs that are open fail."""

@final
class Agent:
    """An agent. Dropping the last reference closes it in the background."""

    @staticmethod
    def open(mailbox: Mailbox, key: int, options: Mapping[str, Any], callbacks: Callbacks) -> Agent:
        """Opens an agent; `key` names it in jobs, which are those of `on_stderr`. Raises for a wrong option."""
    def create_session(
        self, key: int, resume: str | None, fork: str | None, options: Mapping[str, Any], callbacks: Callbacks
    ) -> tuple[Session, int]:
        """Opens a session, as `Session.open` does; with the id of another to go on with, or to begin with its past."""
    def delete_session(self, session_id: str) -> int: ...
    def list_sessions(self, work_dir: str | None, archived: bool) -> int:
        """A ticket, done with a list of dicts, whose fields are those of `SessionInfo`."""
    def rename_session(self, session_id: str, title: str) -> int:
        """A ticket, done with the title that the agent has stored."""
    def archive_session(self, session_id: str, archived: bool) -> int: ...
    def close(self, timeout: object) -> int:
        """A ticket, done with None; may be called again. `timeout` overrides `close_timeout`; None is unset."""
    def described(self) -> tuple[str, str, int | None]:
        """The name of its program, its state, and the id of the process that its sessions share."""
    def abandon(self) -> None:
        """Closes in the background."""

@final
class Batch:
    """A batch. Dropping the last reference cancels it in the background."""

    @staticmethod
    def open(
        mailbox: Mailbox, key: int, options: Mapping[str, Any], callbacks: Callbacks, reports_progress: bool
    ) -> Batch:
        """Starts a batch; `key` names it and its sessions in jobs.

        `options` are those of sessions, as for `Session.open`, and those of the batch; `total` is the number of jobs,
        if it is known. Raises for a wrong option. The jobs of the kind "next_job" are answered with a job as JSON, or
        with None after the last one; those of the kind "progress" have the fields of `Progress`, and need no answer.
        """
    def next(self) -> int:
        """A ticket, done with None after the last result, or with a dict.

        `json`: the result as JSON; `prompt`: as in messages; `usage`; `outcome`: an `Outcome` or None; `error`: an
        `ErrorTuple` or None.
        """
    def cancel(self) -> int:
        """A ticket, done with None when all jobs have ended."""
    def abandon(self) -> None:
        """Cancels in the background."""

@final
class Session:
    """A session. Dropping the last reference closes it in the background."""

    @staticmethod
    def open(mailbox: Mailbox, key: int, options: Mapping[str, Any], callbacks: Callbacks) -> tuple[Session, int]:
        """Opens a session; `key` (chosen by the caller, unique) names it in jobs. Done with None.

        `options` are those of `SessionOptions` as JSON values, None meaning unset, without the functions; `tools` as
        `[{"name", "description", "parameters", "timeout"}]`, `hooks` as `[{"event", "matcher", "timeout",
        "on_error"}]`, `output` as `{"schema", "name", "description", "mode", "retries", "check"}`, where `check` is the
        index of its jobs. Raises for a wrong option.
        """
    @staticmethod
    def one_shot(
        content: str | list[dict[str, Any]],
        prompt_options: Mapping[str, Any],
        mailbox: Mailbox,
        key: int,
        options: Mapping[str, Any],
        callbacks: Callbacks,
    ) -> Turn:
        """A turn in a session of its own, which closes when the turn has ended."""
    @staticmethod
    def begin_one_shot(
        content: str | list[dict[str, Any]], prompt_options: Mapping[str, Any], options: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """Returns the operation that starts the span of a turn with a session of its own."""
    @property
    def id(self) -> str: ...
    @property
    def work_dir(self) -> str: ...
    @property
    def state(self) -> Literal["idle", "active", "closed"]: ...
    @property
    def protocol_version(self) -> str | None: ...
    @property
    def pid(self) -> int | None: ...
    def info(self) -> Info: ...
    def usage(self) -> TokenUsage: ...
    def status(self) -> StatusUpdate: ...
    def begin_turn(self, content: str | list[dict[str, Any]], options: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the operation that starts the span of the next turn. None without the option `telemetry`."""
    def prompt(self, content: str | list[dict[str, Any]], options: Mapping[str, Any]) -> Turn:
        """Begins a turn, with options of its own. Raises for a wrong one."""
    def replay(self) -> Turn:
        """A stream of past events; has neither outcome text nor usage."""
    def set_config_option(self, id: str, value: object) -> int:
        """Starts to set an option of the session. The mailbox delivers the outcome under the returned number."""

    def set_plan_mode(self, on: object) -> int:
        """A ticket, done with None."""
    def undo(self, count: object) -> int:
        """Removes the last turns. Returns a ticket, which ends with None."""
    def respond(self, request: tuple[str, tuple[int, int] | None], answer: Any) -> int:
        """Answers a request: a ticket, done with None. Fails for a wrong answer, or if no such request is open."""
    def cancel(self) -> int:
        """Cancels the turn that runs: a ticket, done with None when it has ended."""
    def close(self, timeout: object) -> int:
        """A ticket, done with None; may be called again. `timeout` overrides `close_timeout`; None is unset."""
    def wait_closed(self) -> int:
        """A ticket, done with None after `close`; fails with the error that closed the session."""
    def abandon(self) -> None:
        """Closes in the background."""

@final
class Turn:
    """A turn, or a replay: a stream of events with an outcome."""

    @property
    def key(self) -> int: ...
    @property
    def id(self) -> str: ...
    def start_loop(self, by_step: bool) -> None:
        """Begins a loop over the events. Raises if the turn was read in the other way, or if another loop reads it."""
    def leave(self) -> None:
        """Ends the loop. The next loop gets the unread events."""
    def next(self) -> Event | None:
        """Returns the next event. None: there is none yet, and "readable" will be delivered when there is.

        Raises `StopAsyncIteration` after the last event, and once `NativeError` if the turn failed.
        """
    def next_batch(self) -> list[Event] | None:
        """Returns the next events, at least one, as `next` does. The program has got the batch before it."""
    def take_batch(self, count: int) -> None:
        """Reports that the program has got the first `count` events of the batch."""
    def next_of(self, step: int) -> Event | None:
        """Returns the next event of a step, as `next` does. A step that is not being read has no events."""
    def next_step(self) -> tuple[int, int] | None:
        """Returns the next step, as `next` does, and passes over the unread events of the step before it.

        A step is its place in the turn, and the agent's number for it.
        """
    @property
    def interrupts(self) -> int:
        """How often `interrupt` was called."""
    def interrupt(self) -> None:
        """Ends a `block` on another thread, if there is one."""
    def block(self, seen: int) -> None:
        """Waits on this thread, with the GIL released, until there is an event or the end.

        It also returns when there are more `interrupts` than were `seen`. Signals interrupt it.
        """
    def outcome(self) -> Outcome | ErrorTuple | None:
        """None while the turn runs."""
    def usage(self) -> TokenUsage: ...
    @property
    def discarded(self) -> int: ...
    def result(self, within: int | None = None) -> int:
        """A ticket, done with an `Outcome`. Takes no events away."""
    def check_wait(self, within: int) -> None:
        """Raises if the turn waits for the handler `within`, which wants to wait for the next event."""
    def cancel(self) -> int:
        """A ticket, done with None when the turn has ended; at once if it has already."""
    def steer(self, content: str | list[dict[str, Any]]) -> int:
        """A ticket, done with None."""
    def cancel_subagent(self, session_id: str) -> int:
        """A ticket, done with None."""
    def respond(self, request: tuple[str, tuple[int, int] | None], answer: Any) -> int:
        """Answers a request: a ticket, done with None. Fails for a wrong answer, or if no such request is open."""
    def note_used(self) -> None:
        """The program knows that it loses the turn, which then brings no warning."""
    def abandon(self) -> None:
        """The program has left the turn: cancels it in the background."""

@final
class PrivateFolder:
    """A folder of files that only this user can read; made with the first, gone with this object.

    Where the process is killed, a later one that opens a session removes it. A fork leaves its parent's alone.
    """

    def __new__(cls) -> PrivateFolder: ...
    def write(self, name: str, content: str) -> str:
        """Writes a file; returns its path."""

    def remove(self) -> None:
        """Removes it, and all that is in it."""

def shutdown() -> None:
    """Closes every session that is open, within bounds, and stops the core's threads. Called at exit."""

def image_file(path: str) -> ImageURLPart:
    """An image part from a file, which is read with the GIL released."""

def image_bytes(bytes: bytes) -> ImageURLPart:
    """An image part from the bytes of an image file."""

def file_part(path: str) -> ResourcePart:
    """A part from a file, which is read with the GIL released."""

def resource_part(uri: str, text: str | None, data: bytes | None, mime_type: str | None) -> ResourcePart:
    """A part from an address, and a text or bytes."""

def read_policy(given: Any) -> dict[str, Any]:
    """Reads a policy: a preset, a path or a mapping; returns it as `policy`, and its `warnings`."""

def check_policy(policy: str, call: Any, work_dir: str) -> dict[str, Any]:
    """Decides about a tool call by the JSON of a policy that was read."""

def check_names(names: list[str]) -> None:
    """Raises for the first name that is no option."""

def check_prompt_names(names: list[str]) -> None:
    """Raises for the first name that is not an option of a prompt."""

def check_batch_names(names: list[str]) -> None:
    """Raises for the first name that is not an option of a batch."""

def path_options() -> list[str]:
    """The names of the options of a session that are paths of files or directories."""

def wrong_type(option: str, got: str) -> None:
    """Raises the error for an option whose value has no form as JSON; `got` says what it is."""

def set_wire_log(on: bool) -> None:
    """Whether each message between the core and the agents is logged."""

def telemetry_names() -> dict[str, Any]:
    """Returns `scope`, `schema_url` and `metrics`."""

def printable(text: str) -> str:
    """Text with control and bidirectional characters as escapes."""

def check_script(script: str, is_path: bool) -> None:
    """Raises if the scripted agent would refuse the script, which is JSON or the path of a file."""

def open_cassette(name: str, mode: str | None, default: str | None, remedy: str | None) -> tuple[str, bool]:
    """Opens a cassette: returns its path, and whether the test records."""

def run_command(argv: list[str]) -> int:
    """Runs the command `kimi-agent`; the arguments begin with the name of the program. Returns the exit code."""

def run_scripted_agent(argv: list[str]) -> int:
    """Is the scripted agent, on this process's stdin and stdout; `argv` without the program. Returns the exit code."""
