"""Prompts for the rows of a dataset of Ray Data."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, Union

from .. import _native
from .._encode import to_jsonable
from .._errors import InvalidOption
from .._job import Retry
from .._loop import called
from .._option_types import UserInput
from .._remote import for_other_machines
from .._telemetry import read_telemetry
from ._module import check_picklable, load_ray
from ._numbers import RESERVED, check_numbers, find_limits
from ._worker import Worker, flush_telemetry, trace_context

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._option_types import SessionOptions

__all__ = ["RowPrompt", "map_prompts"]

RowPrompt = Callable[[dict[str, Any]], Union[UserInput, Mapping[str, Any]]]
"""Makes the prompt of a row: text, content parts, or a job such as `{"prompt": "…", "work_dir": "…"}`."""

OnError = Literal["raise", "column"]


class Dataset(Protocol):
    """The methods of `ray.data.Dataset` that are used here. Type checkers need no Ray for it."""

    def repartition(self, *, target_num_rows_per_block: int, strict: bool) -> Any:
        """Changes the sizes of blocks."""
        ...


D = TypeVar("D", bound=Dataset)


def map_prompts(
    dataset: D,
    prompt: str | RowPrompt,
    *,
    output_column: str = "result",
    concurrency: int | tuple[int, int] = 1,
    sessions: int = 4,
    rows_per_task: int = 1,
    retry: int | Retry = 3,
    on_error: OnError = "raise",
    actor_options: Mapping[str, Any] | None = None,
    **session_options: Unpack[SessionOptions],
) -> D:
    """Runs a prompt for each row of a dataset, on a pool of Ray actors that grows and shrinks with the work.

    Each actor has one agent, and a session of its own for each row. Like all datasets, the result is lazy. If an actor
    or a node is lost, Ray starts the actor again and repeats the tasks that it had not finished.

    Args:
        dataset: The dataset.
        prompt: The name of the column with the prompts, or a function that makes the prompt of a row.
        output_column: The column for the text of the result. Further columns have this name as a prefix: `_status`,
            `_usage`, `_output`, `_error` and `_attempts`. Columns of these names are replaced. Default: "result".
        concurrency: The number of actors, or the smallest and the largest number. Default: 1.
        sessions: The largest number of prompts that an actor runs at the same time. Default: 4.
        rows_per_task: The number of rows in a task of Ray. A task that is lost runs all of its rows again. A larger
            number is for short prompts, which the overhead of a task would slow down. Default: 1.
        retry: The most attempts of a prompt, or a `Retry`. Only errors with `retryable` are retried. Default: 3.
        on_error: "raise" ends the execution of the dataset with the first error of a prompt. With "column" the error is
            in the row. Default: "raise".
        actor_options: Ray's options of an actor, such as `num_cpus`, `memory`, `resources` or `runtime_env`. Default:
            `num_cpus=0.25`, because sessions mostly wait for the model.
        session_options: The options of `create_session`. They must be picklable, handlers included. Relative paths are
            made absolute here, and the file of a policy is read here. With `telemetry`, the spans of the prompts are in
            the span that calls this function.

    Returns:
        The dataset with the columns of the results:

        - the text (text; null after an error)
        - `_status`: `"finished"`, `"max_steps_reached"`, `"cancelled"` or `"failed"`
        - `_usage`: the tokens (a struct with the fields of `TokenUsage`), of all attempts
        - `_output`: the value of the option `output` (JSON as text, or null)
        - `_error`: the error (a struct with `code`, `message` and `retryable`, or null)
        - `_attempts`: the number of attempts

    Raises:
        ImportError: Ray is not installed.
        InvalidOption: An option is unknown, has a wrong value, or cannot be pickled.

    >>> import ray
    >>> from kimi_agent.ray import map_prompts
    >>> dataset = ray.data.from_items([{"file": "a.py"}, {"file": "b.py"}])
    >>> reviewed = map_prompts(dataset, lambda row: f"Review {row['file']}", concurrency=(1, 8), work_dir=".")
    >>> for row in sorted(reviewed.take_all(), key=lambda row: row["file"]):
    ...     print(row["file"], row["result_status"], row["result"])
    a.py finished There are 3 files.
    b.py finished There are 3 files.
    """
    data = load_ray("ray.data")
    called(_native.check_names, list(session_options))
    options = for_other_machines(session_options)
    check_numbers(sessions=sessions, rows_per_task=rows_per_task)
    if on_error not in ("raise", "column"):
        raise InvalidOption(f'invalid option `on_error`: expected "raise" or "column", got {on_error!r}', "on_error")
    smallest, largest = find_limits("concurrency", concurrency)
    check_picklable({"prompt": prompt, **options})
    read_telemetry(options.get("telemetry"))
    trace = trace_context(options.get("telemetry"))
    rows = dataset.repartition(target_num_rows_per_block=rows_per_task, strict=True)
    mapped: D = rows.map_batches(
        PromptRows,
        fn_constructor_args=(prompt, output_column, sessions, retry, on_error, options, trace),
        batch_size=rows_per_task,
        batch_format="pyarrow",
        compute=data.ActorPoolStrategy(min_size=smallest, max_size=largest, max_concurrent_calls_per_actor=sessions),
        **{**RESERVED, **(actor_options or {})},
    )
    return mapped


class PromptRows:
    """Runs the prompts of rows, in an actor of Ray Data."""

    def __init__(
        self,
        prompt: str | RowPrompt,
        column: str,
        sessions: int,
        retry: int | Retry,
        on_error: OnError,
        options: Any,
        trace: Mapping[str, str] | None = None,
    ) -> None:
        self._prompt = prompt
        self._column = column
        self._on_error = on_error
        self._has_telemetry = bool(options.get("telemetry"))
        self._worker = Worker(options, sessions, retry, trace)

    def __del__(self) -> None:
        # Ray Data calls it when an actor has run its last task, and then ends the process.
        if getattr(self, "_has_telemetry", False):
            flush_telemetry()

    async def __call__(self, table: Any) -> AsyncIterator[Any]:
        rows: list[dict[str, Any]] = table.to_pylist()
        found = await asyncio.gather(*map(self._run, rows), return_exceptions=True)
        for result in found:
            if isinstance(result, BaseException):
                raise result
        yield self._with_results(table, found)

    async def _run(self, row: dict[str, Any]) -> dict[str, Any]:
        """Returns the values of the columns, by the ends of their names."""
        done = await self._worker.run(self._job(row))
        if done.error is not None and self._on_error == "raise":
            raise done.error
        found = done.to_dict()
        output = None if done.output is None else json.dumps(to_jsonable(done.output), ensure_ascii=False)
        return {**found, "": None if done.result is None else done.text, "output": output}

    def _job(self, row: dict[str, Any]) -> Mapping[str, Any]:
        if not callable(self._prompt):
            if self._prompt not in row:
                names = ", ".join(f'"{name}"' for name in row)
                raise InvalidOption(f'invalid option `prompt`: no column "{self._prompt}"; there are {names}', "prompt")
            return {"prompt": row[self._prompt]}
        made = self._prompt(row)
        return made if isinstance(made, Mapping) else {"prompt": made}

    def _with_results(self, table: Any, results: list[Any]) -> Any:
        """Adds the columns. They have fixed types, because a block can have null only."""
        arrow = load_ray("pyarrow")
        text, number = arrow.string(), arrow.int64()
        counts = ("input_other", "output", "input_cache_read", "input_cache_creation")
        types = {
            "": text,
            "status": text,
            "usage": arrow.struct([(name, number) for name in counts]),
            "output": text,
            "error": arrow.struct([("code", text), ("message", text), ("retryable", arrow.bool_())]),
            "attempts": number,
        }
        for name, kind in types.items():
            column = f"{self._column}_{name}" if name else self._column
            values = arrow.array([result.get(name) for result in results], kind)
            place = table.schema.get_field_index(column)
            table = table.append_column(column, values) if place < 0 else table.set_column(place, column, values)
        return table
