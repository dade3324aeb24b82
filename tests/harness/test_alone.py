"""Plays of real agents start one after the other, and those whose agent ended by itself are played again."""

from __future__ import annotations

import threading
import unittest
from typing import Any

from harness import alone
from harness.runners import Outcome


class Starts(unittest.TestCase):
    def test_next_start_waits_for_end_of_turn(self) -> None:
        starts = alone.Starts()
        order: list[str] = []
        waiting = threading.Event()

        def second() -> None:
            waiting.set()
            with starts.turn("0.58"):
                order.append("second")

        with starts.turn("0.58") as started:
            thread = threading.Thread(target=second)
            thread.start()
            waiting.wait()
            order.append("first")
            started()
            # The play goes on meanwhile. A second call changes nothing.
            thread.join()
            started()
        self.assertEqual(order, ["first", "second"])

    def test_releases_do_not_wait_for_each_other(self) -> None:
        starts = alone.Starts()
        with starts.turn("0.58"), starts.turn("1.52"):
            pass

    def test_turn_ends_with_error(self) -> None:
        starts = alone.Starts()
        with self.assertRaises(ValueError), starts.turn("0.58"):
            raise ValueError
        with starts.turn("0.58"):
            pass


class Again(unittest.TestCase):
    def test_only_unexpected_end_of_agent_is_own_failure(self) -> None:
        died: dict[str, Any] = {"op": "open", "error": "agent_exited", "exit_code": 1}
        killed = {**died, "exit_code": None}
        for expect, lines, said in (
            ([{"op": "open"}], [died], "its agent ended by itself, with exit code 1"),
            (
                [{"op": "open"}],
                [{**killed, "signal": "SIGSEGV"}],
                "its agent ended by itself, with SIGSEGV",
            ),
            ([{"op": "open"}], [killed], "its agent ended by itself, with no status"),
            ([died], [died], None),
            ([{"op": "open"}], [{"op": "open", "error": "timeout"}], None),
            (None, [], None),
        ):
            self.assertEqual(alone.own_failure(expect, Outcome(lines=lines)), said)

    def test_failed_plays_are_repeated_one_by_one_and_named(self) -> None:
        played: list[str] = []
        said: list[str] = []

        def job(name: str, reasons: list[str | None]) -> alone.Job:
            def play(suffix: str) -> str | None:
                played.append(name + suffix)
                return reasons.pop(0)

            return play

        # A second failure counts: it is not repeated for ever.
        jobs = {"a": job("a", ["why", "why"]), "b": job("b", [None]), "c": job("c", ["so", None])}
        alone.play_all(jobs, 1, said.append)
        self.assertEqual(played, ["a", "b", "c", "a-again", "c-again"])
        self.assertEqual(said, ["played again, alone: a: why", "played again, alone: c: so"])


if __name__ == "__main__":
    unittest.main()
