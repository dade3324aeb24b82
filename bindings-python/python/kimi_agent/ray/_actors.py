"""A pool of Ray actors that run the jobs of a batch."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

from .._encode import kind_of
from .._errors import AgentExited, InvalidOption, KimiAgentError
from ._module import check_picklable, load_ray
from ._numbers import RESERVED, check_numbers, find_limits
from ._worker import Worker, failure, trace_context

__all__ = ["ActorPool", "pool_for"]

# Seconds for the agent of an actor to exit.
_GRACE = 30.0
# Seconds between two questions whether an actor that cannot be reached runs again.
_DELAY = 1.0
# Seconds between an actor that could not start and the start of another one, while others run.
_START_DELAY = 10.0
# The default of the option `sessions`.
_SESSIONS = 4


class ActorPool:
    """A pool of Ray actors for `run_batch(…, on=ActorPool(…))`. Each actor has one agent with many sessions.

    The pool starts an actor if each actor runs `sessions` jobs. It stops an actor that runs no job if the other actors
    have free sessions for as many jobs as one actor runs. Ray decides which machine an actor runs on. If the actor or
    its machine is lost, Ray starts the actor again, and the pool repeats the jobs that it had not finished on any actor
    that runs. If an actor cannot start, the jobs run on the other actors; they fail only if no other actor runs.

    The batch runs in the calling program, with its retries and its journal: each job has one result there, although a
    lost job can have begun twice. The option `concurrency` of the batch also limits the pool; leave it out.

    Args:
        actors: The number of actors, or the smallest and the largest number. Default: 1 to 4.
        sessions: The largest number of jobs that an actor runs at the same time. Default: 4.
        actor_options: Ray's options of an actor, such as `num_cpus`, `memory`, `resources` or `runtime_env`.
            `max_task_retries` limits how often a job is repeated because its actor was lost. Default: `num_cpus=0.25`,
            because sessions mostly wait for the model, and no limit.

    Raises:
        InvalidOption: A number is wrong, also `max_task_retries`.

    >>> from kimi_agent import run_batch
    >>> from kimi_agent.ray import ActorPool
    >>> pool = ActorPool(actors=(1, 8), sessions=4)
    >>> async for result in run_batch(["What is in this directory?"], on=pool, work_dir="."):
    ...     print(result.text)
    There are 3 files.
    """

    def __init__(
        self,
        actors: int | tuple[int, int] = (1, 4),
        *,
        sessions: int = _SESSIONS,
        actor_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Makes the pool. It starts no actor yet."""
        self._smallest, self._largest = find_limits("actors", actors)
        check_numbers(sessions=sessions)
        self._sessions = sessions
        self._actor_options = dict(actor_options or {})
        # -1: no limit, as for Ray.
        self._repeats: int = self._actor_options.pop("max_task_retries", -1)
        if isinstance(self._repeats, bool) or not isinstance(self._repeats, int) or self._repeats < -1:
            expected = f"expected an integer from -1 on (-1: no limit), got {kind_of(self._repeats)}"
            raise InvalidOption(f"invalid option `actor_options`: `max_task_retries`: {expected}", "actor_options")
        self._make: Any = None
        self._is_open = False
        self._actors: list[_Actor] = []
        # The jobs that wait for an actor, in their order.
        self._waiting: deque[asyncio.Future[_Actor]] = deque()
        self._stops: set[asyncio.Task[None]] = set()
        # Runs after an actor could not start. Until it ends, no other actor starts while one runs.
        self._pause: asyncio.TimerHandle | None = None

    @property
    def concurrency(self) -> int:
        """The largest number of jobs that run at the same time, which is the default of the batch."""
        return self._largest * self._sessions

    async def open(self, options: Mapping[str, Any]) -> None:
        """Starts the smallest number of actors. `run_batch` calls it before the first job.

        Args:
            options: The options of the sessions. They must be picklable, handlers included.

        Raises:
            ImportError: Ray is not installed.
            InvalidOption: An option cannot be pickled, or another batch uses the pool.

        >>> pool = ActorPool(actors=2)
        >>> await pool.open({"work_dir": "."})
        >>> await pool.close()
        """
        if self._is_open:
            raise InvalidOption("invalid option `on`: another batch uses this pool; make a pool for each batch", "on")
        ray = load_ray()
        check_picklable(dict(options))
        settings = {
            "max_restarts": -1,
            "scheduling_strategy": "SPREAD",
            **RESERVED,
            **self._actor_options,
            # The pool repeats jobs itself. Ray would wait for the same actor, which may find no machine any more.
            "max_task_retries": 0,
            # Two more than the sessions, for the calls of `check` and `close`.
            "max_concurrency": self._sessions + 2,
        }
        actor_class = ray.remote(JobActor).options(**settings)
        shared = ray.put(dict(options))
        trace = trace_context(options.get("telemetry"))
        self._make = lambda: actor_class.remote(shared, self._sessions, trace)
        self._is_open = True
        for _ in range(self._smallest):
            self._start()

    async def run_job(self, request: dict[str, Any]) -> dict[str, Any]:
        """Makes one attempt of a job. `run_batch` calls it.

        Args:
            request: `key` (the key of the job), `attempt` (from 1 on) and `job` (`prompt` and options of its own), as
                JSON. An actor makes each attempt of a key once.

        Returns:
            The result of the attempt, as JSON.

        >>> pool = ActorPool(actors=1)
        >>> await pool.open({"work_dir": "."})
        >>> job = {"prompt": "What is in this directory?"}
        >>> result = await pool.run_job({"key": "a", "attempt": 1, "job": job})
        >>> await pool.close()
        >>> result["status"]
        'finished'
        """
        errors = load_ray("ray.exceptions")
        repeats = 0
        while True:
            try:
                actor = await self._take()
            except errors.RayError as error:
                return _lost(error)
            try:
                return await self._call(actor, request, repeats)
            except errors.RayTaskError:
                # The actor runs. Its call raised an exception, and would raise it again.
                raise
            except errors.RayError as error:
                if isinstance(error, errors.ActorDiedError):
                    self._remove(actor)
                    return _lost(error)
                self._check(actor)
                if not isinstance(error, errors.RayActorError) or repeats == self._repeats:
                    return _lost(error)
            finally:
                actor.running -= 1
                self._release(actor)
            repeats += 1

    async def _call(self, actor: _Actor, request: dict[str, Any], repeats: int) -> dict[str, Any]:
        reference = actor.handle.run.remote(request["job"], _key_of_attempt(request), repeats)
        try:
            found: dict[str, Any] = await reference
        except asyncio.CancelledError:
            load_ray().cancel(reference)
            raise
        if found.pop("is_actor_broken", False):
            actor.is_broken = True
        return found

    async def _take(self) -> _Actor:
        """Waits for an actor that runs and has a free session, and counts the job. Starts an actor if all are busy."""
        waiting: asyncio.Future[_Actor] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self._assign()
        try:
            return await waiting
        except asyncio.CancelledError:
            if not waiting.cancelled() and waiting.exception() is None:
                waiting.result().running -= 1
                self._release(waiting.result())
            raise

    def _assign(self) -> None:
        """Gives waiting jobs to the actors with the fewest jobs, and starts actors for the others."""
        self._forget_cancelled()
        while self._waiting:
            usable = [actor for actor in self._actors if not actor.is_broken]
            free = [actor for actor in usable if actor.is_up and actor.running < self._sessions]
            if not usable and len(self._actors) == self._largest:
                # Without a better actor, the error of a broken one stands.
                free = self._actors
            if not free:
                break
            actor = min(free, key=lambda actor: actor.running)
            actor.running += 1
            self._waiting.popleft().set_result(actor)
        if self._pause is not None and self._has_usable_actor():
            return
        starting = sum(not actor.is_up for actor in self._actors)
        while len(self._waiting) > starting * self._sessions and len(self._actors) < self._largest:
            self._start()
            starting += 1

    def _has_usable_actor(self) -> bool:
        return any(actor.is_up and not actor.is_broken for actor in self._actors)

    def _forget_cancelled(self) -> None:
        self._waiting = deque(waiting for waiting in self._waiting if not waiting.done())

    def _release(self, actor: _Actor) -> None:
        """Gives the free session of this actor to a waiting job, or stops the actor.

        An actor that runs no job is stopped if the others have free sessions for as many jobs as one actor runs.
        """
        self._assign()
        if actor.running or actor not in self._actors or len(self._actors) <= self._smallest:
            return
        others = [other for other in self._actors if other.is_up and not other.is_broken and other is not actor]
        if sum(other.running for other in others) <= (len(others) - 1) * self._sessions:
            self._actors.remove(actor)
            self._stop(actor)

    def _start(self) -> None:
        actor = _Actor(self._make())
        self._actors.append(actor)
        self._check(actor)

    def _check(self, actor: _Actor) -> None:
        """Gives no job to this actor until it answers."""
        if actor.checking is None and actor in self._actors:
            actor.is_up = False
            actor.checking = asyncio.get_running_loop().create_task(self._wait_for(actor))

    async def _wait_for(self, actor: _Actor) -> None:
        """Waits until an actor answers, or until Ray gives it up."""
        errors = load_ray("ray.exceptions")
        while not actor.is_up and actor in self._actors:
            try:
                await actor.handle.check.remote()
                actor.is_up = True
            except errors.ActorUnavailableError:
                # Ray starts it again, if it finds a machine.
                await asyncio.sleep(_DELAY)
            except Exception as error:
                self._remove(actor)
                self._give_up(error)
        actor.checking = None
        self._release(actor)

    def _give_up(self, error: Exception) -> None:
        """Fails the jobs of an actor that cannot start, unless other actors can run them."""
        if self._has_usable_actor():
            self._delay_start()
            return
        self._forget_cancelled()
        # Another actor may fail for the same reason, so the jobs for this one do not wait for it.
        for _ in range(min(self._sessions, len(self._waiting))):
            self._waiting.popleft().set_exception(error)

    def _delay_start(self) -> None:
        """Starts no actor for some seconds. A start takes resources of the cluster, and can fail again."""
        if self._pause is not None:
            self._pause.cancel()
        self._pause = asyncio.get_running_loop().call_later(_START_DELAY, self._end_pause)

    def _end_pause(self) -> None:
        self._pause = None
        self._assign()

    def _remove(self, actor: _Actor) -> None:
        if actor in self._actors:
            self._actors.remove(actor)

    def _stop(self, actor: _Actor) -> None:
        if actor.checking is not None:
            actor.checking.cancel()
        task = asyncio.get_running_loop().create_task(_stop(actor))
        self._stops.add(task)
        task.add_done_callback(self._stops.discard)

    async def close(self) -> None:
        """Stops all actors. `run_batch` calls it after the last result.

        >>> pool = ActorPool(actors=1)
        >>> await pool.open({"work_dir": "."})
        >>> await pool.close()
        """
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        actors, self._actors = self._actors, []
        for actor in actors:
            self._stop(actor)
        await asyncio.gather(*self._stops)
        self._is_open = False


def pool_for(concurrency: Any) -> ActorPool:
    """Makes the pool of `run_batch(…, on="ray")`, for a number of jobs that run at the same time.

    Raises:
        ImportError: Ray is not installed.
    """
    # Without Ray each job would fail later.
    load_ray()
    if isinstance(concurrency, int) and concurrency > 0:
        return ActorPool((1, -(-concurrency // _SESSIONS)), sessions=_SESSIONS)
    # The core refuses other values.
    return ActorPool()


def _key_of_attempt(request: Mapping[str, Any]) -> str:
    """Returns the key of an attempt for the batch of its actor, where no two jobs have the same key."""
    key: str = request["key"]
    return key if request["attempt"] == 1 else f"{key}\0{request['attempt']}"


def _lost(error: Exception) -> dict[str, Any]:
    """Returns the result of an attempt whose actor was lost, as JSON. The core adds the hint to its own text."""
    found = failure(AgentExited(f"the Ray actor of the job was lost, and so was its agent: {error}"))
    found["error"]["hint"] = f"because the Ray actor of the job was lost: {error}"
    return found


class _Actor:
    """An actor, and the number of jobs that run on it."""

    __slots__ = ("checking", "handle", "is_broken", "is_up", "running")

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        # Whether it can run no more jobs, for example because its agent cannot start.
        self.is_broken = False
        # Whether it has answered, and no call has found it lost since.
        self.is_up = False
        # Waits for its answer.
        self.checking: asyncio.Task[None] | None = None
        self.running = 0


async def _stop(actor: _Actor) -> None:
    """Lets an actor close its agent, and then kills the actor."""
    ray, errors = load_ray(), load_ray("ray.exceptions")
    if not actor.is_up:
        # It has no agent, or its agent is lost. The call of `close` would wait for a machine.
        ray.kill(actor.handle)
        return
    closing = actor.handle.close.remote()
    try:
        await asyncio.wait_for(asyncio.wrap_future(closing.future()), _GRACE)
    except (asyncio.TimeoutError, errors.RayError):
        # The agent of a killed actor exits, because its stdin is closed.
        pass
    finally:
        ray.kill(actor.handle)


class JobActor:
    """Runs jobs, in an actor of Ray."""

    def __init__(self, options: Mapping[str, Any], sessions: int, trace: Mapping[str, str] | None = None) -> None:
        # The batch in the calling program retries.
        self._worker = Worker(options, sessions, 1, trace)
        self._running: dict[str, asyncio.Task[dict[str, Any]]] = {}

    async def check(self) -> None:
        """Does nothing. The answer shows that this actor runs."""

    async def run(self, job: Mapping[str, Any], key: str, repeats: int = 0) -> dict[str, Any]:
        """Makes one attempt of a job, which the pool has repeated so often. A call for a key that runs waits for it.

        The first call can have reached this actor although the pool has lost its answer.
        """
        running = self._running.get(key)
        if running is None:
            # The worker accepts each key once.
            name = f"{key}\0again-{repeats}" if repeats else key
            running = self._running[key] = asyncio.ensure_future(self._attempt(job, name))
            running.add_done_callback(lambda _: self._running.pop(key))
        return await running

    async def _attempt(self, job: Mapping[str, Any], key: str) -> dict[str, Any]:
        try:
            result = await self._worker.run(job, key)
        except KimiAgentError as error:
            # Not an error of this job: the batch of the worker has ended.
            return {**failure(error), "is_actor_broken": True}
        return result.to_dict()

    async def close(self) -> None:
        """Closes the agent."""
        await self._worker.close()
