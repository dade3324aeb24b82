"""Shows the progress of a batch on stderr: a bar with tqdm or rich if they are installed, plain lines otherwise."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ._job import Progress

__all__ = ["ProgressDisplay"]


class _View(Protocol):
    """One way to show the progress."""

    def update(self, progress: Progress) -> None: ...
    def close(self) -> None: ...


class ProgressDisplay:
    """The progress on stderr, from the first report on."""

    __slots__ = ("_view",)

    def __init__(self) -> None:
        self._view: _View | None = None

    def update(self, progress: Progress) -> None:
        """Shows the numbers."""
        if self._view is None:
            self._view = _view(progress)
        self._view.update(progress)

    def close(self) -> None:
        """Ends the display. Another call does nothing."""
        view, self._view = self._view, _Nothing()
        if view is not None:
            view.close()


def _view(progress: Progress) -> _View:
    if sys.stderr is not None and sys.stderr.isatty():
        for kind in (_Tqdm, _Rich):
            try:
                return kind(progress)
            except ImportError:
                continue
    return _Lines()


def _details(progress: Progress) -> str:
    parts = [f"{progress.running} running"]
    if progress.waiting:
        parts.append(f"{progress.waiting} waiting")
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    return ", ".join([*parts, f"{progress.tokens:,} tokens"])


class _Nothing:
    def update(self, progress: Progress) -> None:
        pass

    def close(self) -> None:
        pass


class _Lines:
    """A line for each percent, or at 1, 2, … 10, 20, … 100, 200, … jobs if their number is unknown."""

    def __init__(self) -> None:
        self._shown: int | None = None

    def update(self, progress: Progress) -> None:
        done, total = progress.done, progress.total
        level = done * 100 // total if total else done // 10 ** (len(str(done)) - 1) * 10 ** (len(str(done)) - 1)
        if done == 0 or level == self._shown or sys.stderr is None:
            return
        self._shown = level
        of = "" if total is None else f" of {total}"
        print(f"{done}{of} jobs done, {_details(progress)}", file=sys.stderr)

    def close(self) -> None:
        pass


class _Tqdm:
    def __init__(self, progress: Progress) -> None:
        tqdm = importlib.import_module("tqdm").tqdm
        self._bar: Any = tqdm(total=progress.total, unit="job", file=sys.stderr)

    def update(self, progress: Progress) -> None:
        self._bar.set_postfix_str(_details(progress), refresh=False)
        self._bar.update(progress.done - self._bar.n)
        self._bar.refresh()

    def close(self) -> None:
        self._bar.close()


class _Rich:
    def __init__(self, progress: Progress) -> None:
        console = importlib.import_module("rich.console").Console(stderr=True)
        rich = importlib.import_module("rich.progress")
        rate = rich.TextColumn("{task.fields[rate]}")
        self._bars: Any = rich.Progress(*rich.Progress.get_default_columns(), rate, console=console)
        self._bars.start()
        self._task = self._bars.add_task("", total=progress.total, rate="")

    def update(self, progress: Progress) -> None:
        rate = f"{progress.done / progress.elapsed:.1f} jobs/s" if progress.done else ""
        self._bars.update(self._task, completed=progress.done, description=_details(progress), rate=rate)

    def close(self) -> None:
        self._bars.stop()
