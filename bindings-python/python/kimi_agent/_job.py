"""Jobs of a batch, their results, and retries. Imported when first needed, because dataclasses take long to import."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal

from ._encode import NotUnicode, kind_of, option_problem, seconds, to_jsonable, valid_unicode
from ._errors import InvalidOption, KimiAgentError, TurnCancelled, from_native
from ._hints import clear_arguments
from ._input import encode_input
from ._message import Message
from ._output import T_co
from ._place import Place, settings_of
from ._results import result_of, value_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._option_types import Budget, JobSettings, Seconds, StrPath, UserInput
    from ._output import OutputCheck
    from ._results import FinishedResult, PromptResult
    from ._wire import Content, TokenUsage

__all__ = ["Job", "JobResult", "Progress", "Retry", "encode_job", "job_result_of"]


class Job:
    """A prompt of a batch with options of its own, for `run_batch`. A text or a mapping with these names is a job, too.

    Args:
        prompt: Text, a content part, or a list of texts and parts.
        key: The name of the job in results and in the journal. It must differ from those of the other jobs. Default: a
            hash of the prompt and the options.
        work_dir: The directory that the agent works in. Default: that of the batch.
        data: A value with a JSON form that the result and the journal contain unchanged. Default: None.
        timeout: The longest time of one attempt, in seconds or as a `timedelta`. Default: `job_timeout` of the batch.
        budget: The most that one attempt may use, as a `Budget`. Default: no limit.
        options: Options of the session that override those of the batch, for example `model`. They have a JSON form.

    >>> jobs = [Job("Fix the issue", key=f"issue-{number}", data={"number": number}) for number in (1, 2)]
    >>> async for result in run_batch(jobs, concurrency=1):
    ...     print(result.key, result.data)
    issue-1 {'number': 1}
    issue-2 {'number': 2}
    """

    __slots__ = ("budget", "data", "key", "options", "prompt", "timeout", "work_dir")

    prompt: UserInput
    """The prompt."""
    key: str | None
    """The name of the job, if it was given."""
    work_dir: StrPath | None
    """The directory that the agent works in, if it was given."""
    data: Any
    """The value for the result."""
    timeout: Seconds
    """The longest time of one attempt, if it was given."""
    budget: Budget | None
    """The most that one attempt may use, if it was given."""
    options: JobSettings
    """The other options."""

    def __init__(
        self,
        prompt: UserInput,
        *,
        key: str | None = None,
        work_dir: StrPath | None = None,
        data: Any = None,
        timeout: Seconds = None,
        budget: Budget | None = None,
        **options: Unpack[JobSettings],
    ) -> None:
        self.prompt = prompt
        self.key = key
        self.work_dir = work_dir
        self.data = data
        self.timeout = timeout
        self.budget = budget
        self.options = options

    def __repr__(self) -> str:
        # Options can be secret.
        return f"Job({self.prompt!r})" if self.key is None else f"Job({self.prompt!r}, key={self.key!r})"


def encode_job(given: Any) -> Any:
    """Returns a job as JSON for the core, which checks names and values.

    A job with a mistake fails when it is its turn.

    Raises:
        InvalidOption: It is not a job.
    """
    if isinstance(given, str):
        return valid_unicode(str.__str__(given))
    if isinstance(given, Job):
        fields: dict[str, Any] = {name: getattr(given, name) for name in Job.__slots__ if name != "options"}
        fields = {**given.options, **fields}
    elif isinstance(given, Message):
        fields = {"prompt": given}
    elif isinstance(given, Mapping):
        fields = dict(given)
    else:
        expected = "expected texts, mappings with a `prompt`, or objects of the class Job"
        raise InvalidOption(f"invalid option `jobs`: {expected}; got {kind_of(given)}", "jobs")
    found: dict[str, Any] = {}
    for given_name, value in fields.items():
        # The core refuses a wrong name.
        name = valid_unicode(str(given_name))
        try:
            found[name] = _encode_field(name, value)
        except InvalidOption as error:
            found["$mistake"] = {"option": name, "reason": str(error).partition(": ")[2]}
        except NotUnicode as error:
            found["$mistake"] = {"option": name, "reason": option_problem(name, value, error)}
        except TypeError as error:
            found["$mistake"] = {"option": name, "reason": f"in a job it must have a JSON form, and {error}"}
    return found


def _encode_field(name: str, value: Any) -> Any:
    if name == "prompt":
        return encode_input(value)
    if isinstance(value, Place):
        return settings_of(value)
    if isinstance(value, (list, tuple)):
        value = [os.fspath(item) if isinstance(item, os.PathLike) else item for item in value]
    value = seconds(os.fspath(value) if isinstance(value, os.PathLike) else value)
    return to_jsonable(value, valid_unicode) if name == "data" else to_jsonable(value)


@dataclass(frozen=True)
class Retry:
    """How a batch retries jobs. Only errors with `retryable` are retried, for example of an overloaded model.

    The delay before an attempt is a random part of `initial_delay * multiplier ** (attempt - 1)`, at most `max_delay`.

    >>> async for result in run_batch(["What is in this directory?"], retry=Retry(attempts=5, initial_delay=2)):
    ...     print(result.attempts)
    1
    """

    attempts: int = 3
    """The most attempts of a job, the first one included. 1: no retries. Default: 3."""
    initial_delay: Seconds = 1.0
    """The longest delay before the second attempt, in seconds or as a `timedelta`. Default: 1."""
    max_delay: Seconds = 60.0
    """The longest delay before any attempt, likewise. Default: 60."""
    multiplier: float = 2.0
    """The factor by which each attempt makes the delay longer. Default: 2."""

    def to_payload(self) -> dict[str, Any]:
        """Returns the option as JSON.

        >>> Retry(attempts=5).to_payload()["attempts"]
        5
        """
        return {
            "attempts": self.attempts,
            "initial_delay": seconds(self.initial_delay),
            "max_delay": seconds(self.max_delay),
            "multiplier": self.multiplier,
        }


if not TYPE_CHECKING:
    Retry.__init__ = clear_arguments(Retry.__init__, "Retry")


@dataclass(frozen=True)
class Progress:
    """The numbers of a running batch. The handler `on_progress` gets it.

    >>> import asyncio
    >>> reports: asyncio.Queue[Progress] = asyncio.Queue()
    >>> async for result in run_batch(["What is in this directory?"], on_progress=reports.put):
    ...     pass
    >>> while (progress := await reports.get()).done < 1:
    ...     pass
    >>> print(progress.done, "of", progress.total, "-", progress.failed, "failed")
    1 of 1 - 0 failed
    """

    total: int | None
    """The number of jobs, if `jobs` has a length, for example a list."""
    done: int
    """The jobs that have ended, failed jobs and results from the journal included."""
    failed: int
    """The jobs that have failed."""
    running: int
    """The jobs that run."""
    waiting: int
    """The jobs that wait for another attempt."""
    retried: int
    """The attempts after the first one, of all jobs."""
    tokens: int
    """The tokens that the attempts of this run took."""
    concurrency: int
    """The most jobs that may run at once at the moment. An overloaded model lowers it."""
    elapsed: float
    """The seconds since the batch began."""


@dataclass(frozen=True)
class JobResult(Generic[T_co]):
    """The result of a job of a batch. Iterating over `run_batch` gives it.

    >>> async for result in run_batch(["What is in this directory?"]):
    ...     print(result.status, result.text)
    finished There are 3 files.
    """

    key: str
    """The key of the job: its own, or a hash of its prompt and options."""
    index: int
    """The position of the job in `jobs`, from 0 on."""
    status: Literal["finished", "cancelled", "max_steps_reached", "truncated", "refused", "failed"]
    """How the job ended."""
    prompt: Content
    """The prompt of the job."""
    data: Any
    """The `data` of the job."""
    result: PromptResult[T_co] | None
    """The outcome of the turn. None if the job failed, or was cancelled before its turn began."""
    error: KimiAgentError | None
    """The error of the last attempt, if the job failed."""
    usage: TokenUsage
    """The tokens of all attempts."""
    attempts: int
    """The number of attempts, from 1 on."""
    duration: float
    """The seconds from the start of the first attempt to the end of the last one."""
    recording: str | None
    """The recording of the last attempt, if `record` is set."""
    diff: str | None
    """The changes of the last attempt, as `git diff` prints them. None without `workspace="worktree"`, and if they
    cannot be read; then the worktree is kept."""
    workspace: str | None
    """The copy or the worktree, if it was kept."""
    from_journal: bool
    """Whether the result is from the journal, so that the job did not run now."""
    _json: dict[str, Any] = field(repr=False, compare=False)
    """The same as JSON."""

    @property
    def text(self) -> str:
        """The text of the last step. Empty without `result`."""
        return "" if self.result is None else self.result.text

    @property
    def output(self) -> T_co | None:
        """The value of the option `output`, of its type, also if the result is from the journal. None without one."""
        return None if self.result is None else self.result.output

    def raise_for_status(self) -> FinishedResult[T_co]:
        """Returns the outcome of the turn if it has finished.

        Raises:
            KimiAgentError: The job failed: its `error`.
            TurnCancelled: The job was cancelled.
            MaxStepsReached: The turn reached its limit of steps.
            AnswerTruncated: The answer was cut at the model's limit of tokens.
            AnswerRefused: The model, its provider or a hook of the agent refused to answer.

        >>> async for result in run_batch(["What is in this directory?"]):
        ...     print(result.raise_for_status().text)
        There are 3 files.
        """
        if self.error is not None:
            raise self.error
        if self.result is None:
            raise TurnCancelled(f"the job {self.key!r} was cancelled before its turn began; run the batch again")
        return self.result.raise_for_status()

    def to_dict(self) -> dict[str, Any]:
        """Returns the result as JSON: the object in the journal and in the results of `kimi-agent batch`.

        `error` is an object with `code`, `message` and the other attributes. `duration` is in seconds. The `duration`
        of a tool call is in milliseconds.

        >>> async for result in run_batch(["What is in this directory?"]):
        ...     print(result.to_dict()["result"]["text"])
        There are 3 files.
        """
        return self._json


def job_result_of(parts: Mapping[str, Any], check: OutputCheck | None) -> JobResult[Any]:
    """Makes a result of its parts, as the core reports them."""
    found, outcome, error = parts["json"], parts["outcome"], parts["error"]
    if outcome is not None:
        try:
            value = value_of(outcome, check)
        except Exception as failure:
            # A journal can be older than the type.
            reason = f"the value of the job {found['key']!r} does not fit `output`"
            remedy = "continue with the next result, or start a new journal"
            raise InvalidOption(f"invalid option `journal`: {reason}; {remedy}", "journal") from failure
        outcome = result_of({**outcome, "output": value})
    given = {name: found[name] for name in _PLAIN}
    return JobResult(
        **given,
        prompt=parts["prompt"],
        result=outcome,
        error=None if error is None else from_native(*error),
        usage=parts["usage"],
        _json=found,
    )


# The fields that are the same in JSON.
_PLAIN = (
    "key", "index", "status", "data", "attempts", "duration", "recording", "diff", "workspace", "from_journal",
)  # fmt: skip
