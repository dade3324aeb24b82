"""The parts of `kimi_agent.ray` that need no Ray. `tests/ray` has the tests with a cluster."""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from support import HANGING, LOOKUP, children, eventually

from kimi_agent import AgentExited, ExternalTool, InvalidOption, Retry, SessionClosed, SpawnError, run_batch
from kimi_agent.ray import ActorPool, map_prompts
from kimi_agent.ray._actors import JobActor, _Actor, _lost, pool_for
from kimi_agent.ray._data import PromptRows
from kimi_agent.ray._worker import Worker
from kimi_agent.testing import scripted_agent


@pytest.fixture
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ray", "ray.data"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.usefixtures("no_ray")
async def test_missing_ray_names_its_extra() -> None:
    dataset: Any = None
    with pytest.raises(ImportError, match=r'pip install "kimi-agent\[ray\]"'):
        map_prompts(dataset, "question")
    with pytest.raises(ImportError, match=r'pip install "kimi-agent\[ray\]"'):
        await ActorPool().open({})
    with pytest.raises(ImportError, match=r'pip install "kimi-agent\[ray\]"'):
        run_batch(["a"], on="ray")


@pytest.mark.usefixtures("no_ray")
def test_import_needs_no_ray() -> None:
    assert importlib.reload(importlib.import_module("kimi_agent.ray._data"))


@pytest.mark.parametrize("actors", [0, (0, 1), (3, 2)])
def test_wrong_number_of_actors(actors: Any) -> None:
    with pytest.raises(InvalidOption, match="`actors`"):
        ActorPool(actors)


def test_wrong_number_of_sessions() -> None:
    with pytest.raises(InvalidOption, match="`sessions`"):
        ActorPool(sessions=0)


@pytest.mark.parametrize("repeats", [None, "3", -2, 1.5, True])
def test_wrong_number_of_repeats(repeats: Any) -> None:
    with pytest.raises(InvalidOption, match="`max_task_retries`: expected an integer from -1 on") as refused:
        ActorPool(actor_options={"max_task_retries": repeats})
    assert refused.value.option == "actor_options"


@pytest.mark.parametrize(("concurrency", "jobs"), [(None, 16), (64, 64), (6, 8), (1, 4), (0, 16), ("8", 16)])
def test_pool_has_size_of_batch(monkeypatch: pytest.MonkeyPatch, concurrency: Any, jobs: int) -> None:
    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))
    assert pool_for(concurrency).concurrency == jobs


async def test_worker_shares_its_agent() -> None:
    script = {"wire": "acp", "turns": [[{"text": "You said: {{prompt}}"}]] * 4}
    worker, before = Worker({"executable": scripted_agent(script), "dialect": "acp"}, 2, 1), children()
    results = await asyncio.gather(*(worker.run({"prompt": f"Job {number}"}) for number in range(4)))
    assert [result.text for result in results] == [f"You said: Job {number}" for number in range(4)]
    assert len(children() - before) == 1
    await worker.close()
    assert children() == before


async def test_worker_calls_tools() -> None:
    tool = ExternalTool("lookup", "Looks up.", {"type": "object"}, lambda arguments: f"is {arguments['key']}")
    executable = scripted_agent([[LOOKUP, {"text": "It {{last.output}}"}]])
    worker = Worker({"executable": executable, "tools": [tool]}, 1, 1)
    result = await worker.run({"prompt": "What is it?"})
    await worker.close()
    assert (result.status, result.text) == ("finished", "It is a")


async def test_job_has_agent_of_its_own() -> None:
    executable = scripted_agent([[{"text": "{{env.COLOR}}"}]])
    worker = Worker({"executable": executable, "env": {"COLOR": "red"}}, 1, 1)
    results = [await worker.run({"prompt": "Which?"}), await worker.run({"prompt": "Which?", "env": {"COLOR": "blue"}})]
    await worker.close()
    assert [result.text for result in results] == ["red", "blue"]


async def test_wrong_option_of_job_fails_it() -> None:
    worker = Worker({"executable": scripted_agent([[{"text": "Hi"}]])}, 1, 1)
    result = await worker.run({"prompt": "Hi", "max_steps_per_turn": 0})
    await worker.close()
    assert result.error is not None
    assert (result.status, result.error.code, result.error.retryable) == ("failed", "invalid_option", False)


async def test_wrong_option_of_all_jobs_is_raised() -> None:
    with pytest.raises(InvalidOption, match="`max_steps_per_turn`"):
        await Worker({"max_steps_per_turn": 0}, 1, 1).run({"prompt": "Hi"})


async def test_worker_without_agent_repeats_its_error() -> None:
    worker = Worker({"executable": ["/no/such/program"]}, 1, 1)
    for _ in range(2):
        with pytest.raises(SpawnError, match="/no/such/program"):
            await worker.run({"prompt": "Hi"})
    await worker.close()


async def test_broken_actor_gets_no_more_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    errors: Any = ModuleType("ray.exceptions")
    errors.RayError = errors.RayActorError = errors.ActorDiedError = RuntimeError
    errors.RayTaskError = LookupError
    for module in (ModuleType("ray"), errors):
        monkeypatch.setitem(sys.modules, module.__name__, module)

    def pool_of(*executables: list[str]) -> ActorPool:
        pool = ActorPool(len(executables), sessions=1)
        workers = [JobActor({"executable": executable}, 1) for executable in executables]
        handles = [SimpleNamespace(run=SimpleNamespace(remote=worker.run), close=worker.close) for worker in workers]
        pool._actors = [_Actor(handle) for handle in handles]
        for actor in pool._actors:
            actor.is_up = True
        return pool

    async def codes(pool: ActorPool) -> list[str | None]:
        jobs: list[dict[str, Any]] = [{"key": key, "attempt": 1, "job": {"prompt": "Hi"}} for key in "abc"]
        results = [await pool.run_job(job) for job in jobs]
        for actor in pool._actors:
            await actor.handle.close()
        return [result["error"] and result["error"]["code"] for result in results]

    missing, good = ["/no/such/program"], scripted_agent([[{"text": "Hi"}]])
    assert await codes(pool_of(missing, good)) == ["spawn_error", None, None]
    # Without a better actor, the error of the agent stands.
    assert await codes(pool_of(missing)) == ["spawn_error"] * 3


async def test_repeated_call_waits_for_the_same_attempt(tmp_path: Path) -> None:
    go = tmp_path / "go"
    actor = JobActor({"executable": scripted_agent([[{"wait_file": str(go)}, {"text": "{{prompt}}"}]])}, 2)
    before = children()
    calls = [asyncio.ensure_future(actor.run({"prompt": "Hi"}, "a")) for _ in range(2)]
    other = asyncio.ensure_future(actor.run({"prompt": "Hello"}, "b"))
    assert await eventually(lambda: len(children() - before) == 2)
    go.touch()
    first, second = await asyncio.gather(*calls)
    assert first is second
    # The answer can also be lost when the attempt has ended. Then the job runs again.
    results = [first, await other, await actor.run({"prompt": "Hi"}, "a", 1)]
    await actor.close()
    assert [result["result"]["text"] for result in results] == ["Hi", "Hello", "Hi"]


class FakeRay:
    """Actors without a cluster. Their calls are coroutines, and a lost one waits for a machine without end."""

    class RayError(Exception):
        """Any error of Ray, for example of a `runtime_env`."""

    class RayTaskError(RayError):
        """The call of an actor has raised an exception."""

    class RayActorError(RayError):
        """The actor is lost."""

    class ActorUnavailableError(RayActorError):
        """The actor can come back."""

    class ActorDiedError(RayActorError):
        """The actor cannot come back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        errors: Any = ModuleType("ray.exceptions")
        for kind in ("RayError", "RayTaskError", "RayActorError", "ActorUnavailableError", "ActorDiedError"):
            setattr(errors, kind, getattr(self, kind))
        ray: Any = ModuleType("ray")
        ray.remote = lambda _: SimpleNamespace(options=self._options)
        ray.put = lambda value: value
        ray.kill = ray.cancel = lambda _: None
        pickle: Any = ModuleType("ray.cloudpickle")
        pickle.dumps = lambda _: b""
        for module in (ray, errors, pickle):
            monkeypatch.setitem(sys.modules, module.__name__, module)
        self.actors: list[FakeActor] = []
        # The error of each start from now on.
        self.failure: Exception | None = None
        self.settings: dict[str, Any] = {}

    def _options(self, **settings: Any) -> Any:
        self.settings = settings
        return SimpleNamespace(remote=self._make)

    def _make(self, *_: Any) -> FakeActor:
        self.actors.append(FakeActor())
        self.actors[-1].failure = self.failure
        return self.actors[-1]


class FakeActor:
    """An actor whose jobs end when the test says so."""

    def __init__(self) -> None:
        self.is_up = asyncio.Event()
        self.is_up.set()
        self.failure: Exception | None = None
        self.jobs: dict[str, asyncio.Future[dict[str, Any]]] = {}
        for name in ("run", "check", "close"):
            setattr(self, name, SimpleNamespace(remote=getattr(self, f"_{name}")))

    def lose(self, error: Exception) -> None:
        """Ends its jobs with an error. It answers no check until `is_up` is set."""
        self.is_up.clear()
        for job in self.jobs.values():
            job.set_exception(error)
        self.jobs = {}

    def end_jobs(self) -> None:
        """Ends its jobs with a result."""
        for job in self.jobs.values():
            job.set_result({"status": "finished"})
        self.jobs = {}

    def _run(self, job: Any, key: str, repeats: int) -> asyncio.Future[dict[str, Any]]:
        assert key not in self.jobs
        self.jobs[key] = asyncio.get_running_loop().create_future()
        return self.jobs[key]

    async def _check(self) -> None:
        await self.is_up.wait()
        if self.failure is not None:
            raise self.failure

    def _close(self) -> Any:
        done: Any = concurrent.futures.Future()
        done.set_result(None)
        return SimpleNamespace(future=lambda: done)


def _jobs(pool: ActorPool, keys: str) -> list[asyncio.Task[dict[str, Any]]]:
    requests: list[dict[str, Any]] = [{"key": key, "attempt": 1, "job": {"prompt": "Hi"}} for key in keys]
    return [asyncio.create_task(pool.run_job(request)) for request in requests]


async def _rounds() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_jobs_of_lost_actor_run_on_others(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRay(monkeypatch)
    pool = ActorPool(2, sessions=2)
    await pool.open({})
    jobs = _jobs(pool, "abcd")
    await _rounds()
    first, second = fake.actors
    assert [sorted(actor.jobs) for actor in fake.actors] == [["a", "c"], ["b", "d"]]
    first.lose(fake.ActorUnavailableError("its machine is lost"))
    await _rounds()
    # They wait for a free session.
    assert (sorted(second.jobs), first.jobs) == (["b", "d"], {})
    second.end_jobs()
    await _rounds()
    assert (sorted(second.jobs), first.jobs) == (["a", "c"], {})
    second.end_jobs()
    assert [(await job)["status"] for job in jobs] == ["finished"] * 4
    # No job is given to it until it is started again.
    jobs = _jobs(pool, "efg")
    await _rounds()
    assert (sorted(second.jobs), first.jobs) == (["e", "f"], {})
    first.is_up.set()
    await _rounds()
    assert sorted(first.jobs) == ["g"]
    for actor in fake.actors:
        actor.end_jobs()
    assert [(await job)["status"] for job in jobs] == ["finished"] * 3
    await pool.close()
    assert fake.settings["max_task_retries"] == 0


async def test_number_of_repeats_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRay(monkeypatch)
    pool = ActorPool(1, actor_options={"max_task_retries": 1})
    await pool.open({})
    [job] = _jobs(pool, "a")
    for _ in range(2):
        await _rounds()
        fake.actors[0].lose(fake.ActorUnavailableError("no memory"))
        await _rounds()
        fake.actors[0].is_up.set()
    result = await job
    assert (result["status"], result["error"]["code"]) == ("failed", "agent_exited")
    await pool.close()


async def test_actor_that_cannot_start_fails_its_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRay(monkeypatch)
    pool = ActorPool(1, sessions=2)
    await pool.open({})
    fake.actors[0].is_up.clear()
    jobs = _jobs(pool, "abc")
    await _rounds()
    fake.actors[0].failure = fake.ActorDiedError("no package")
    fake.actors[0].is_up.set()
    results = await asyncio.gather(*jobs[:2])
    assert [result["error"]["code"] for result in results] == ["agent_exited"] * 2
    # The others wait for the next actor.
    await _rounds()
    assert sorted(fake.actors[1].jobs) == ["c"]
    fake.actors[1].end_jobs()
    assert (await jobs[2])["status"] == "finished"
    await pool.close()


async def test_failed_start_leaves_jobs_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRay(monkeypatch)
    pool = ActorPool((1, 2), sessions=1)

    async def end_pause() -> None:
        assert pool._pause is not None
        pool._pause.cancel()
        pool._end_pause()
        await _rounds()

    await pool.open({})
    await _rounds()
    fake.failure = fake.RayError("no package")
    jobs = _jobs(pool, "abcd")
    await _rounds()
    first = fake.actors[0]
    # The second actor could not start. The pool waits before it starts a third one.
    for key in "ab":
        assert (sorted(first.jobs), len(fake.actors)) == ([key], 2)
        first.end_jobs()
        await _rounds()
    await end_pause()
    assert len(fake.actors) == 3
    assert (sorted(first.jobs), pool._actors[0].handle, len(pool._actors)) == (["c"], first, 1)
    fake.failure = None
    await end_pause()
    assert sorted(fake.actors[3].jobs) == ["d"]
    for actor in fake.actors:
        actor.end_jobs()
    assert [(await job)["status"] for job in jobs] == ["finished"] * 4
    await pool.close()


async def test_pool_without_actors_starts_one_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRay(monkeypatch)
    pool = ActorPool((1, 2), sessions=1)
    await pool.open({})
    await _rounds()
    fake.failure = fake.RayError("no package")
    jobs = _jobs(pool, "ab")
    await _rounds()
    assert (len(fake.actors), len(pool._actors)) == (2, 1)
    fake.failure = None
    fake.actors[0].lose(fake.ActorDiedError("its machine is lost"))
    assert (await jobs[0])["error"]["code"] == "agent_exited"
    await _rounds()
    assert sorted(fake.actors[2].jobs) == ["b"]
    fake.actors[2].end_jobs()
    assert (await jobs[1])["status"] == "finished"
    await pool.close()
    assert pool._pause is None


async def test_error_of_start_fails_jobs_without_actor(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRay(monkeypatch)
    fake.failure = fake.RayError("no package")
    pool = ActorPool(1, sessions=1)
    await pool.open({})
    for job in _jobs(pool, "ab"):
        error = (await job)["error"]
        assert (error["code"], error["retryable"]) == ("agent_exited", True)
        assert "no package" in error["message"]
    await pool.close()


async def test_other_error_of_ray_fails_job(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRay(monkeypatch)
    pool = ActorPool(1, sessions=1)
    await pool.open({})
    [job] = _jobs(pool, "a")
    await _rounds()
    fake.actors[0].lose(fake.RayError("the object with the result is lost"))
    assert (await job)["error"]["code"] == "agent_exited"
    fake.actors[0].is_up.set()
    [job] = _jobs(pool, "b")
    await _rounds()
    # The actor runs, so the error is not that of a lost actor.
    fake.actors[0].lose(fake.RayTaskError("the result cannot be pickled"))
    with pytest.raises(fake.RayTaskError):
        await job
    await pool.close()


async def test_cancelled_wait_keeps_session_free(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRay(monkeypatch)
    pool = ActorPool(1, sessions=1)
    await pool.open({})
    jobs = _jobs(pool, "abcd")
    await _rounds()
    jobs[1].cancel()
    fake.actors[0].end_jobs()
    await asyncio.sleep(0)
    jobs[2].cancel()
    await _rounds()
    assert sorted(fake.actors[0].jobs) == ["d"]
    fake.actors[0].end_jobs()
    assert (await jobs[3])["status"] == "finished"
    assert [actor.running for actor in pool._actors] == [0]
    await pool.close()


async def test_lost_actor_is_named() -> None:
    class LosingRunner:
        concurrency = 1

        async def open(self, options: Mapping[str, Any], /) -> None:
            """Does nothing."""

        async def run_job(self, request: dict[str, Any], /) -> dict[str, Any]:
            return _lost(RuntimeError("no memory"))

        async def close(self) -> None:
            """Does nothing."""

    [result] = [result async for result in run_batch(["a"], on=LosingRunner(), retry=1)]
    assert isinstance(result.error, AgentExited)
    assert result.error.retryable
    assert str(result.error).endswith("because the Ray actor of the job was lost: no memory")


async def test_closed_worker_exports_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = MeterProvider()
    flushed: list[bool] = []
    monkeypatch.setattr(provider, "force_flush", lambda: flushed.append(True))
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    worker = Worker({"executable": scripted_agent([[{"text": "Hi"}]]), "telemetry": True}, 1, 1)
    assert (await worker.run({"prompt": "Hi"})).text == "Hi"
    await worker.close()
    assert flushed == [True]


class FakeDataset:
    """Keeps the arguments of the class that runs the prompts."""

    arguments: tuple[Any, ...] = ()

    def repartition(self, **_: Any) -> FakeDataset:
        return self

    def map_batches(self, _: Any, *, fn_constructor_args: tuple[Any, ...], **__: Any) -> FakeDataset:
        self.arguments = fn_constructor_args
        return self


@pytest.fixture
def dataset(monkeypatch: pytest.MonkeyPatch) -> FakeDataset:
    data: Any = ModuleType("ray.data")
    data.ActorPoolStrategy = lambda **_: None
    pickle: Any = ModuleType("ray.cloudpickle")
    pickle.dumps = lambda _: b""
    for module in (data, pickle):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return FakeDataset()


async def test_prompts_of_rows_have_parent_span(dataset: FakeDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []
    provider = TracerProvider()
    monkeypatch.setattr(provider, "force_flush", lambda: flushed.append("spans"))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    with provider.get_tracer("program").start_as_current_span("caller") as caller:
        map_prompts(dataset, "question", telemetry=True)
    rows = PromptRows(*dataset.arguments)
    context = caller.get_span_context()
    assert rows._worker._trace is not None
    _, trace_id, span_id, _ = rows._worker._trace["traceparent"].split("-")
    assert (int(trace_id, 16), int(span_id, 16)) == (context.trace_id, context.span_id)
    del rows
    assert flushed == ["spans"]


def test_prompts_of_rows_have_absolute_paths(dataset: FakeDataset) -> None:
    map_prompts(dataset, "question", work_dir=".", record="runs", executable=["bin/agent", "--fast"])
    options = dataset.arguments[5]
    assert options == {
        "work_dir": str(Path.cwd()),
        "record": str(Path.cwd() / "runs"),
        "executable": [str(Path.cwd() / "bin/agent"), "--fast"],
    }


async def test_cancelled_wait_cancels_jobs() -> None:
    worker, before = Worker({"executable": scripted_agent([HANGING])}, 2, 1), children()
    jobs = [asyncio.ensure_future(worker.run({"prompt": "Hi"})) for _ in range(2)]
    assert await eventually(lambda: len(children() - before) == 2)
    jobs[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await jobs[0]
    assert (await jobs[1]).status == "cancelled"
    assert await eventually(lambda: children() == before)
    with pytest.raises(SessionClosed):
        await worker.run({"prompt": "Hi"})


async def test_branch_has_key(tmp_path: Path) -> None:
    for command in ("init --quiet", "-c user.name=t -c user.email=t@example.com commit --quiet --allow-empty -m x"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    options = {"executable": scripted_agent([[{"text": "{{work_dir}}"}]]), "work_dir": tmp_path}
    worker = Worker({**options, "workspace": "worktree"}, 1, 1)
    # The second attempt of a key, as `ActorPool` names it.
    names = [Path((await worker.run({"prompt": "Hi"}, key)).text).name for key in ("a", "a\0002")]
    await worker.close()
    assert names[0] == "a"
    assert names[1].startswith("a2-")


async def test_worker_retries() -> None:
    executable = scripted_agent([[{"error": {"code": -32003, "message": "overloaded"}}]])
    worker = Worker({"executable": executable}, 1, Retry(attempts=2, initial_delay=0.001))
    result = await worker.run({"prompt": "Hi"})
    await worker.close()
    assert (result.status, result.attempts) == ("failed", 2)
