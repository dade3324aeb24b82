"""Batches for coroutines. tools/generate_sync.py makes `kimi_agent.sync` from the public names."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
    Sized,
)
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, Protocol, Union, cast

from . import _native
from ._encode import kind_of
from ._errors import InvalidOption, KimiAgentError
from ._failures import class_name, failure_text, is_a
from ._handlers import Handlers, Job, observe, observer
from ._hints import MadeByFunction, not_iterable
from ._job import Job as BatchJob
from ._job import JobResult, Progress, encode_job, job_result_of
from ._loop import LoopMailbox, called, current_mailbox, show_messages
from ._opening import encode_options
from ._output import T_co
from ._process import in_this_process
from ._progress import ProgressDisplay
from ._remote import for_other_machines
from ._threads import awaited_in_thread, in_thread

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from ._option_types import BatchSettings
    from ._output import OutputType, V

__all__ = ["Batch", "JobRunner", "JobSource", "run_batch"]

JobSource = Union[
    Iterable[Union[str, Mapping[str, Any], BatchJob]], AsyncIterable[Union[str, Mapping[str, Any], BatchJob]]
]
"""The jobs of a batch: texts, mappings with a `prompt`, or objects of the class `Job`."""

_END = object()
# Seconds for a generator of jobs to end, after which the batch no longer waits for it.
_SOURCE_GRACE = 10.0
_logger = logging.getLogger("kimi_agent")


class JobRunner(Protocol):
    """Runs the jobs of a batch on other machines, for example `kimi_agent.ray.ActorPool`. It is the option `on`.

    The batch itself stays in this program: it decides which job runs when, retries, and writes the journal.
    """

    @property
    def concurrency(self) -> int:
        """The default of the option `concurrency`."""
        ...

    async def open(self, options: Mapping[str, Any], /) -> None:
        """Gets the options of the sessions, before the first job."""
        ...

    async def run_job(self, request: dict[str, Any], /) -> dict[str, Any]:
        """Makes an attempt of a job: `{"key": …, "attempt": …, "job": …}`. Returns what `JobResult.to_dict` returns."""
        ...

    async def close(self) -> None:
        """Ends all work, after the last job."""
        ...


class Batch(MadeByFunction, Generic[T_co]):
    """A running batch. `run_batch` returns it.

    `async for result in batch` gives the results as the jobs end. A batch that still runs is cancelled at the end of
    its `async with` block, when the program drops the last reference to it, and at the end of the program, for example
    after Ctrl-C. The end of the program waits up to some seconds for its jobs.

    >>> async with run_batch(["What is in this directory?"]) as batch:
    ...     async for result in batch:
    ...         print(result.text)
    There are 3 files.
    """

    __slots__ = ("__weakref__", "_handlers", "_lock", "_mailbox", "_native", "_pending")

    def __init__(self, native: _native.Batch, mailbox: LoopMailbox, handlers: _BatchHandlers) -> None:
        self._native = native
        self._mailbox = mailbox
        self._handlers = handlers
        # A cancelled wait leaves its operation to the next one, so that no result is lost.
        self._pending: asyncio.Future[Any] | None = None
        self._lock = asyncio.Lock()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> JobResult[T_co]:
        result = await self._next()
        if result is None:
            raise StopAsyncIteration
        return result

    async def _next(self) -> JobResult[T_co] | None:
        """Returns the next result, or None after the last one."""
        self._mailbox.check()
        async with self._lock:
            if self._pending is None:
                self._pending = self._mailbox.result_of(called(self._native.next))
                self._pending.add_done_callback(_take_exception)
            pending = self._pending
            with contextlib.suppress(KimiAgentError):
                await asyncio.shield(pending)
            if pending.exception() is not None or pending.result() is None:
                self._handlers.display_end()
                await self._handlers.end()
            self._pending = None
        try:
            parts = pending.result()
        except KimiAgentError as error:
            raise self._handlers.cause_of(error) from self._handlers.failure
        return None if parts is None else job_result_of(parts, self._handlers.output_check)

    async def cancel(self) -> None:
        """Cancels the batch and waits until all jobs have ended. Does nothing if it has ended.

        No job starts any more. The jobs that run are cancelled, and their results have the status "cancelled". The
        batch still gives the results that were not read. The journal is then complete, and the same call of `run_batch`
        continues later.

        >>> batch = run_batch(["Write a book"], concurrency=1)
        >>> await batch.cancel()
        """
        await self._mailbox.call(self._native.cancel)
        self._handlers.display_end()
        await self._handlers.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.cancel()

    def __del__(self) -> None:
        native = getattr(self, "_native", None)
        if native is not None and in_this_process():
            native.abandon()
            self._handlers.display_end()
            self._handlers.abandon(native, self._mailbox)

    def __repr__(self) -> str:
        return "<Batch>"

    def __reduce__(self) -> NoReturn:
        # A copy would cancel the original when it is collected.
        raise TypeError("a Batch can be neither copied nor pickled")

    if not TYPE_CHECKING:

        def __iter__(self) -> NoReturn:
            not_iterable(self, "`async for result in batch`; without coroutines use `kimi_agent.sync.run_batch`")

        def __await__(self) -> NoReturn:
            not_iterable(self, "`async for result in batch`; for a list: `[result async for result in batch]`")


# The tasks that close batches and generators. An event loop keeps only weak references to its tasks.
_background: set[asyncio.Task[None]] = set()


def _run_in_background(work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
    task = asyncio.get_running_loop().create_task(work())
    _background.add(task)
    task.add_done_callback(_background.discard)
    return task


def _said(failure: BaseException) -> str:
    """Returns the text of an exception, with its class."""
    said, name = failure_text(failure), class_name(failure)
    return said if said.partition(":")[0] == name else f"{name}: {said}"


def _take_exception(result: asyncio.Future[Any]) -> None:
    """Keeps asyncio from logging the error of a batch that the program has dropped."""
    if not result.cancelled():
        result.exception()


class _BatchHandlers(Handlers):
    """The handlers of the sessions, the source of the jobs, and the handler of the progress."""

    def __init__(
        self, jobs: JobSource, options: Mapping[str, Any], batch_options: Mapping[str, Any], runner: JobRunner | None
    ) -> None:
        super().__init__(options)
        self._runner = runner
        self._opened: asyncio.Future[None] | None = None
        self._closing: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        if runner is not None:
            of_runner = {name: value for name, value in options.items() if name not in _OF_DRIVER}
            self._runner_options = for_other_machines(of_runner)
        self.failure: BaseException | None = None
        self._source = _source_of(jobs)
        # At most one call of `on_progress` runs, and only the newest report waits.
        self._reporting: asyncio.Task[None] | None = None
        self._next_report: tuple[Job, Progress] | None = None
        self._on_progress = observer("on_progress", batch_options.get("on_progress"), "the progress")
        progress = batch_options.get("progress")
        if progress is not None and not isinstance(progress, bool):
            expected = "expected True or False, which shows the progress; a function belongs to `on_progress`"
            raise InvalidOption(f"invalid option `progress`: {expected}; got {kind_of(progress)}", "progress")
        self._display = ProgressDisplay() if progress else None

    @property
    def reports_progress(self) -> bool:
        return self._on_progress is not None or self._display is not None

    def start(self, job: Job, kind: str, index: int | None, payload: Any, in_turn: bool, span: int | None) -> None:
        if kind == "next_job":
            job.start(self.context, self._next_job(job))
        elif kind == "run_job":
            job.start(self.context, self._run_job(job, payload))
        elif kind == "progress":
            self._report(job, Progress(**payload))
        else:
            super().start(job, kind, index, payload, in_turn, span)

    async def _next_job(self, job: Job) -> None:
        """Answers the core with the next job, or with None after the last one."""
        job.begin()
        try:
            given = await self._source.take()
            job.finish(None if given is _END else encode_job(given), None)
        except asyncio.CancelledError:
            job.finish(None, "cancelled")
            raise
        except BaseException as failure:
            self.failure = failure
            job.finish(None, _said(failure))
            if not is_a(failure, Exception):
                raise

    async def _run_job(self, job: Job, request: dict[str, Any]) -> None:
        """Lets the runner make an attempt of a job."""
        assert self._runner is not None
        job.begin()
        try:
            if self._opened is None:
                self._opened = asyncio.ensure_future(self._runner.open(self._runner_options))
            # A cancelled job leaves the opening to the others.
            await asyncio.shield(self._opened)
            request = {**request, "job": for_other_machines(request["job"])}
            job.finish(await self._runner.run_job(request), None)
        except (asyncio.CancelledError, KeyboardInterrupt):
            # Before Python 3.11, Ctrl-C ends the tasks of the jobs before the program can cancel the batch.
            job.finish({"status": "cancelled"}, None)
            raise
        except BaseException as failure:
            job.finish(None, _said(failure))
            if not is_a(failure, Exception):
                raise

    async def end(self) -> None:
        """Closes the iterable of the jobs, and the runner if it was opened. All jobs have ended."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        # A wait that is cancelled leaves the end to the next one.
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            await self._close_source()
        finally:
            await self._close_runner()

    async def _close_source(self) -> None:
        # In a task of its own, because a generator can raise CancelledError, or block.
        closing = _run_in_background(self._source.close)
        _, blocked = await asyncio.wait([closing], timeout=_SOURCE_GRACE)
        if blocked:
            _logger.warning("the iterable of the jobs did not end within %g seconds of its close", _SOURCE_GRACE)

    async def _close_runner(self) -> None:
        if self._opened is None:
            return
        assert self._runner is not None
        await asyncio.wait([self._opened])
        if self._opened.exception() is None:
            await self._runner.close()

    def abandon(self, native: _native.Batch, mailbox: LoopMailbox) -> None:
        """Does the same in the background when all jobs have ended, because the program has dropped the batch."""
        if self._closing is not None or self._loop.is_closed():
            return
        if self._opened is None and not self._source.is_generator:
            return

        async def close() -> None:
            await mailbox.call(native.cancel)
            await self.end()

        self._loop.call_soon_threadsafe(_run_in_background, close)

    def _report(self, job: Job, progress: Progress) -> None:
        if self._display is not None:
            self._display.update(progress)
        if self._on_progress is None:
            job.finish(None, None)
        elif self._reporting is None:
            self._start_report(self._on_progress, job, progress)
        else:
            if self._next_report is not None:
                self._next_report[0].finish(None, None)
            self._next_report = (job, progress)

    def _start_report(self, handler: Any, job: Job, progress: Progress) -> None:
        job.task = self._reporting = self.context.run(job.loop.create_task, observe(job, handler, progress, None))

        def reported(reporting: asyncio.Task[None]) -> None:
            waiting, self._reporting, self._next_report = self._next_report, None, None
            # The loop cancels its tasks at its end.
            if waiting is not None and not reporting.cancelled():
                self._start_report(handler, *waiting)

        self._reporting.add_done_callback(reported)

    def cause_of(self, error: KimiAgentError) -> KimiAgentError:
        """Returns the error to raise for an error of the batch."""
        failure = self.failure
        if failure is not None and is_a(failure, InvalidOption):
            # A wrong job, whose error is as clear as one of the core.
            self.failure = failure.__cause__
            return failure
        return error

    def display_end(self) -> None:
        """Ends the display of the progress."""
        if self._display is not None:
            self._display.close()


# Options of the batch, which stay in this program.
_OF_DRIVER = ("concurrency", "retry", "journal", "timeout")


class _Source(Protocol):
    """The jobs of a batch."""

    is_generator: bool

    async def take(self) -> Any:
        """Returns the next job, or `_END` after the last one."""
        ...

    async def close(self) -> None:
        """Ends a generator early, so that its `finally` runs. Nothing is taken after it."""
        ...


class _ListSource:
    """The jobs of a list, which takes no time."""

    def __init__(self, jobs: Iterable[Any]) -> None:
        self._iterator = iter(jobs)
        self.is_generator = False

    async def take(self) -> Any:
        return next(self._iterator, _END)

    async def close(self) -> None:
        """Does nothing."""


class _ThreadSource:
    """A generator may block, for example because it reads a file, or calls `kimi_agent.sync`."""

    def __init__(self, jobs: Iterable[Any]) -> None:
        self._iterator = iter(jobs)
        self.is_generator = isinstance(self._iterator, Generator)
        self._lock = threading.Lock()

    async def take(self) -> Any:
        return await awaited_in_thread(self._next)

    def _next(self) -> Any:
        with self._lock:
            return next(self._iterator, _END)

    async def close(self) -> None:
        if not self.is_generator:
            return
        if self._lock.locked():
            # It can block without end, so the batch does not wait for it.
            in_thread(self._close)
        else:
            await awaited_in_thread(self._close)

    def _close(self) -> None:
        generator: Any = self._iterator
        with self._lock, _logged_failure():
            generator.close()


class _AsyncSource:
    """An async iterable."""

    def __init__(self, jobs: AsyncIterable[Any]) -> None:
        self._later: Any = aiter(jobs)
        self.is_generator = isinstance(self._later, AsyncGenerator)
        self._taking: asyncio.Task[Any] | None = None

    async def take(self) -> Any:
        self._taking = asyncio.current_task()
        try:
            return await anext(self._later)
        except StopAsyncIteration:
            return _END
        finally:
            self._taking = None

    async def close(self) -> None:
        if not self.is_generator:
            return
        if self._taking is not None:
            # A generator that runs cannot be closed.
            self._taking.cancel()
            await asyncio.wait([self._taking])
        with _logged_failure():
            await self._later.aclose()


@contextlib.contextmanager
def _logged_failure() -> Generator[None]:
    """Logs an exception of a generator that is closed. It changes no result any more."""
    try:
        yield
    except Exception:
        _logger.warning("the iterable of the jobs failed when it was closed", exc_info=True)


def _source_of(jobs: JobSource) -> _Source:
    """Returns the source of the jobs for the option `jobs`."""
    # These are iterable, and never meant as a list of jobs.
    single = isinstance(jobs, (str, bytes, bytearray, Mapping, BatchJob, os.PathLike))
    if isinstance(jobs, AsyncIterable) and not single:
        return _AsyncSource(jobs)
    if single or not isinstance(jobs, Iterable):
        remedy = "; put it into a list: `[…]`" if isinstance(jobs, (str, Mapping, BatchJob)) else ""
        expected = "expected an iterable or async iterable of jobs"
        raise InvalidOption(f"invalid option `jobs`: {expected}, got {kind_of(jobs)}{remedy}", "jobs")
    return _ListSource(jobs) if isinstance(jobs, (list, tuple, range)) else _ThreadSource(jobs)


def _runner_of(on: Any, concurrency: Any) -> JobRunner | None:
    """Returns the runner for the option `on`."""
    # Users can also write `from kimi_agent import ray`.
    if on == "ray" or (isinstance(on, ModuleType) and on.__name__ == f"{__package__}.ray"):
        from .ray._actors import pool_for

        return pool_for(concurrency)
    if on is not None and not hasattr(on, "run_job"):
        expected = 'expected "ray" or a runner such as `kimi_agent.ray.ActorPool(…)`'
        raise InvalidOption(f"invalid option `on`: {expected}; got {kind_of(on)}", "on")
    return cast("JobRunner | None", on)


def run_batch(
    jobs: JobSource,
    *,
    on: JobRunner | ModuleType | Literal["ray"] | None = None,
    output: OutputType[V] | None = None,
    **options: Unpack[BatchSettings],
) -> Batch[V]:
    """Runs many prompts, each in a session of its own, several at once. Gives the results as the jobs end.

    Returns at once, while the batch runs. Jobs are taken from `jobs` one by one when they can start, so an endless
    iterable needs little memory. At most twice as many results as jobs that run at once wait for the program; then no
    job starts until it reads them. A job that fails is a result with an `error`, and the batch continues.

    With `journal`, each result is written to a file. The same call continues after an interruption: jobs that have a
    result in the file do not run again.

    Args:
        jobs: An iterable or async iterable of texts, mappings with a `prompt`, or objects of the class `Job`.
        on: The machines that run the jobs: `"ray"` or the module `kimi_agent.ray` for a cluster of Ray, which runs at
            most `concurrency` jobs at once, or a `kimi_agent.ray.ActorPool`. Default: this machine.
        output: The value that each job must return, as for `create_session`. Default: None, and jobs return text.
        options: The options of `BatchOptions`: those of the batch, and those of `create_session` for all jobs.

    Returns:
        The batch, which runs already.

    Raises:
        ImportError: `on` is `"ray"`, and Ray is not installed.
        InvalidOption: An option is wrong. Reading the batch raises this error, too: for two jobs with the same key, for
            a journal that cannot be used, and for jobs that cannot be read. If the iterable itself failed, `__cause__`
            is its exception.
        SpawnError: Reading the batch raises it if the program of the option `executable` does not exist or cannot be
            executed.

    >>> prompts = ["What is in this directory?", "What is it for?"]
    >>> async for result in run_batch(prompts, concurrency=2, work_dir="."):
    ...     print(result.status, result.text)
    finished There are 3 files.
    finished There are 3 files.
    """
    mailbox = current_mailbox()
    show_messages()
    try:
        called(_native.check_batch_names, list(options))
        of_handlers = ("on_progress", "progress")
        rest = {name: value for name, value in options.items() if name not in of_handlers}
        if output is not None:
            rest["output"] = output
        runner = _runner_of(on, rest.get("concurrency"))
        handlers = _BatchHandlers(jobs, rest, options, runner)
        encoded = encode_options(rest, handlers)
        if runner is not None:
            encoded["on"] = True
            if encoded.get("concurrency") is None:
                encoded["concurrency"] = runner.concurrency
        # Not an option of programs.
        encoded["total"] = len(jobs) if isinstance(jobs, Sized) else None
        mailbox.add_handlers(handlers.key, handlers)
        native = called(
            _native.Batch.open, mailbox.native, handlers.key, encoded, handlers.callbacks(), handlers.reports_progress
        )
    finally:
        # Options can be secret, and error reports can show the variables of frames.
        del options
    return Batch(native, mailbox, handlers)
