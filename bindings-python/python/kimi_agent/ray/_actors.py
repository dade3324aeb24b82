"""A pool of Ray actors that run the jobs of a batch."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from .._errors import AgentExited, InvalidOption, KimiAgentError
from ._module import check_picklable, load_ray
from ._numbers import RESERVED, check_numbers, find_limits
from ._worker import Worker, failure, trace_context

__all__ = ["ActorPool", "pool_for"]

# Seconds for the agent of an actor to exit.
_GRACE = 30.0
# The default of the option `sessions`.
_SESSIONS = 4


class ActorPool:
    """A pool of Ray actors for `run_batch(…, on=ActorPool(…))`. Each actor has one agent with many sessions.

    The pool starts an actor if each actor runs `sessions` jobs. It stops an actor that runs no job if the other actors
    have free sessions for as many jobs as one actor runs. Ray decides which machine an actor runs on. If the actor or
    its machine is lost, Ray starts the actor again and repeats the jobs that it had not finished. The batch runs in the
    calling program, with its retries and its journal: each job has one result there, although a lost job can have begun
    twice. The option `concurrency` of the batch also limits the pool; leave it out.

    Args:
        actors: The number of actors, or the smallest and the largest number. Default: 1 to 4.
        sessions: The largest number of jobs that an actor runs at the same time. Default: 4.
        actor_options: Ray's options of an actor, such as `num_cpus`, `memory`, `resources` or `runtime_env`. Default:
            `num_cpus=0.25`, because sessions mostly wait for the model.

    Raises:
        InvalidOption: A number is wrong.

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
        self._make: Any = None
        self._is_open = False
        self._actors: list[_Actor] = []
        self._stops: set[asyncio.Task[None]] = set()

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
            # Ray counts each call while the actor starts again, so calls would use up a small number in a moment.
            "max_task_retries": -1,
            "scheduling_strategy": "SPREAD",
            **RESERVED,
            **self._actor_options,
            # One more than the sessions, for the call of `close`.
            "max_concurrency": self._sessions + 1,
        }
        actor_class = ray.remote(JobActor).options(**settings)
        shared = ray.put(dict(options))
        trace = trace_context(options.get("telemetry"))
        self._make = lambda: actor_class.remote(shared, self._sessions, trace)
        self._actors = [_Actor(self._make()) for _ in range(self._smallest)]
        self._is_open = True

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
        actor = self._take()
        actor.running += 1
        try:
            return await self._call(actor, request)
        finally:
            actor.running -= 1
            self._release(actor)

    async def _call(self, actor: _Actor, request: dict[str, Any]) -> dict[str, Any]:
        ray, errors = load_ray(), load_ray("ray.exceptions")
        reference = actor.handle.run.remote(request["job"], _key_of_attempt(request))
        try:
            found: dict[str, Any] = await reference
        except asyncio.CancelledError:
            ray.cancel(reference)
            raise
        except errors.RayActorError as error:
            if isinstance(error, errors.ActorDiedError) and actor in self._actors:
                self._actors.remove(actor)
            return _lost(error)
        if found.pop("is_actor_broken", False):
            actor.is_broken = True
        return found

    def _take(self) -> _Actor:
        """Returns the actor with the fewest jobs, or a new one if all are busy. Broken actors are the last choice."""
        actor = min(self._actors, key=lambda actor: (actor.is_broken, actor.running), default=None)
        is_busy = actor is None or actor.is_broken or actor.running >= self._sessions
        if actor is None or (is_busy and len(self._actors) < self._largest):
            actor = _Actor(self._make())
            self._actors.append(actor)
        return actor

    def _release(self, actor: _Actor) -> None:
        """Stops this actor if it runs no job, and the others have free sessions for as many jobs as one actor runs."""
        if actor.running or actor not in self._actors or len(self._actors) <= self._smallest:
            return
        running = sum(other.running for other in self._actors)
        if running <= (len(self._actors) - 2) * self._sessions:
            self._actors.remove(actor)
            self._stop(actor)

    def _stop(self, actor: _Actor) -> None:
        task = asyncio.get_running_loop().create_task(_stop(actor))
        self._stops.add(task)
        task.add_done_callback(self._stops.discard)

    async def close(self) -> None:
        """Stops all actors. `run_batch` calls it after the last result.

        >>> pool = ActorPool(actors=1)
        >>> await pool.open({"work_dir": "."})
        >>> await pool.close()
        """
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

    __slots__ = ("handle", "is_broken", "running")

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        # Whether it can run no more jobs, for example because its agent cannot start.
        self.is_broken = False
        self.running = 0


async def _stop(actor: _Actor) -> None:
    """Lets an actor close its agent, and then kills the actor."""
    ray, errors = load_ray(), load_ray("ray.exceptions")
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

    async def run(self, job: Mapping[str, Any], key: str) -> dict[str, Any]:
        """Makes one attempt of a job."""
        try:
            result = await self._worker.run(job, key)
        except KimiAgentError as error:
            # Not an error of this job: the batch of the worker has ended.
            return {**failure(error), "is_actor_broken": True}
        return result.to_dict()

    async def close(self) -> None:
        """Closes the agent."""
        await self._worker.close()
