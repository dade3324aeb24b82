"""The normaliser and the matcher, which decide whether a scenario passes."""

from __future__ import annotations

import unittest
from typing import Any, ClassVar

from harness import trace

ONE = "0e2181ca-ec98-4665-a257-e1c519b14001"
TWO = "735257ad-d444-4b07-8b17-12a8a4673e44"


def event(kind: str, **payload: Any) -> trace.Line:
    return {"event": {"type": kind, "payload": payload}}


def text(words: str) -> trace.Line:
    return event("ContentPart", type="text", text=words)


class Normalise(unittest.TestCase):
    def test_ids_are_numbered_by_appearance(self) -> None:
        lines = [
            event("ApprovalRequest", id=ONE, source_id="2fdf3c91e490464b95a360a9b3f1122e"),
            event("ApprovalRequest", id=TWO),
            event("ApprovalResponse", request_id=ONE),
        ]
        clean = [line["event"]["payload"] for line in trace.normalise(lines, "/tmp/x")]
        self.assertEqual(clean, [{"id": "<id1>", "source_id": "<id2>"}, {"id": "<id3>"}, {"request_id": "<id1>"}])

    def test_ids_inside_texts_are_numbered(self) -> None:
        clean = trace.normalise([{"message": f"see {ONE}."}], "/tmp/x")
        self.assertEqual(clean, [{"message": "see <id1>."}])

    def test_hex_outside_ids_stays(self) -> None:
        line = {"event": {"payload": {"text": "deadbeefcafe", "id": "deadbeefcafe"}}}
        clean = trace.normalise([line], "/tmp/x")[0]["event"]["payload"]
        self.assertEqual(clean, {"text": "deadbeefcafe", "id": "<id1>"})

    def test_short_ids_of_scripts_stay(self) -> None:
        line = event("ToolResult", tool_call_id="c1", id="call-1")
        self.assertEqual(trace.normalise([line], "/tmp/x"), [line])

    def test_directory_inside_texts_is_replaced(self) -> None:
        clean = trace.normalise([{"path": "/tmp/x/work/a", "text": 'wrote "/tmp/x/b"'}], "/tmp/x")
        self.assertEqual(clean, [{"path": "{dir}/work/a", "text": 'wrote "{dir}/b"'}])

    def test_times_are_replaced(self) -> None:
        line = event("HookResolved", duration_ms=12, created_at=1.5, wait_s=0.3, steps=2)
        clean = trace.normalise([line], "/tmp/x")[0]["event"]["payload"]
        self.assertEqual(clean, {"duration_ms": 0, "created_at": 0, "wait_s": 0, "steps": 2})

    def test_random_names_of_plan_files_are_replaced(self) -> None:
        clean = trace.normalise([{"file_path": "/tmp/x/plans/loki-thor-odin.md"}], "/tmp/x")
        self.assertEqual(clean, [{"file_path": "{dir}/plans/<plan>.md"}])

    def test_random_names_of_private_folders_are_replaced(self) -> None:
        clean = trace.normalise([{"text": '["--config-file=/var/tmp/kimi-agent-Zx81aB/config.json"]'}], "/tmp/x")
        self.assertEqual(clean, [{"text": '["--config-file=<private>/config.json"]'}])

    def test_handler_lines_follow_earlier_operations(self) -> None:
        handler, prompt, result = {"handler": "tool"}, {"op": "prompt", "ok": True}, {"op": "result"}
        for lines in ([handler, prompt, result], [prompt, handler, result]):
            self.assertEqual(trace.normalise(lines, "/tmp/x"), [prompt, handler, result])
        self.assertEqual(trace.normalise([prompt, result, handler], "/tmp/x"), [prompt, result, handler])

    def test_input_is_not_changed(self) -> None:
        line = event("HookResolved", duration_ms=12)
        trace.normalise([line], "/tmp/x")
        self.assertEqual(line, event("HookResolved", duration_ms=12))


class Simplify(unittest.TestCase):
    def test_parts_of_one_kind_are_joined(self) -> None:
        think = event("ContentPart", type="think", think="a")
        lines = [
            think,
            think,
            text("b"),
            event("StatusUpdate"),
            text("c"),
            {"op": "result"},
            text("d"),
        ]
        self.assertEqual(
            trace.simplify(lines),
            [
                event("ContentPart", type="think", think="aa"),
                text("bc"),
                {"op": "result"},
                text("d"),
            ],
        )

    def test_parts_with_further_fields_are_not_joined(self) -> None:
        signed = event("ContentPart", type="think", think="a", encrypted="s")
        plain = event("ContentPart", type="think", think="b")
        self.assertEqual(trace.simplify([plain, signed]), [plain, signed])

    def test_argument_parts_are_joined(self) -> None:
        call = event("ToolCall", id="c1", function={"name": "Shell", "arguments": ""})
        parts = [event("ToolCallPart", arguments_part=part) for part in ('{"a"', ":1}")]
        whole = event("ToolCall", id="c1", function={"name": "Shell", "arguments": '{"a":1}'})
        self.assertEqual(trace.simplify([call, *parts]), [whole])
        self.assertEqual(call["event"]["payload"]["function"]["arguments"], "")

    def test_argument_parts_may_begin_empty(self) -> None:
        call = event("ToolCall", id="c1", function={"name": "Shell"})
        whole = event("ToolCall", id="c1", function={"name": "Shell", "arguments": "{}"})
        self.assertEqual(trace.simplify([call, event("ToolCallPart", arguments_part="{}")]), [whole])

    def test_incidental_reports_stay_if_listed_in_keep(self) -> None:
        lines = [event("StatusUpdate", plan_mode=True), event("Notification")]
        self.assertEqual(trace.simplify(lines, frozenset({"StatusUpdate"})), lines[:1])

    def test_racing_neighbours_get_fixed_order(self) -> None:
        response, result = (
            event("ApprovalResponse", request_id=ONE),
            event("ToolResult", tool_call_id="c1"),
        )
        for lines in ([result, response], [response, result]):
            self.assertEqual(trace.simplify([*lines, {"op": "x"}]), [response, result, {"op": "x"}])


class Fits(unittest.TestCase):
    def test_pattern_matches_part_of_line(self) -> None:
        self.assertTrue(trace.fits({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}, "d": 3}))
        self.assertFalse(trace.fits({"a": {"b": 1, "e": None}}, {"a": {"b": 1}}))

    def test_list_of_another_length_does_not_match(self) -> None:
        self.assertTrue(trace.fits([{"a": 1}, 2], [{"a": 1, "b": 2}, 2]))
        self.assertFalse(trace.fits([{"a": 1}], [{"a": 1}, 2]))

    def test_pattern_may_be_regular_expression(self) -> None:
        self.assertTrue(trace.fits("~^a.c$", "abc"))
        self.assertFalse(trace.fits("~^a.c$", "abcd"))
        self.assertTrue(trace.fits("~greet", ["skill:greet", "init"]))
        self.assertTrue(trace.fits("~a.b", "a\nb"))

    def test_values_of_different_types_do_not_match(self) -> None:
        self.assertFalse(trace.fits(1, True))
        self.assertFalse(trace.fits("1", 1))
        self.assertFalse(trace.fits({"a": 1}, None))
        self.assertTrue(trace.fits(None, None))


class Unmet(unittest.TestCase):
    lines: ClassVar[list[trace.Line]] = [
        {"op": "open"},
        {"n": 1},
        {"n": 2, "x": 0},
        {"op": "close"},
    ]

    def test_patterns_in_order_are_met(self) -> None:
        self.assertIsNone(trace.unmet([{"op": "open"}, {"n": 2}, {"op": "close"}], self.lines))
        self.assertIsNone(trace.unmet([], self.lines))

    def test_patterns_out_of_order_are_not_met(self) -> None:
        complaint = trace.unmet([{"n": 2}, {"n": 1}], self.lines)
        self.assertIn('no. 2 is missing from line 4 on: {"n":1}', complaint or "")

    def test_each_line_serves_one_pattern(self) -> None:
        self.assertIsNotNone(trace.unmet([{"n": 1}, {"n": 1}], self.lines))

    def test_never_is_checked_between_its_neighbours(self) -> None:
        never = {"never": {"n": 2}}
        self.assertIsNone(trace.unmet([{"op": "open"}, never, {"n": 1}, {"op": "close"}], self.lines))
        complaint = trace.unmet([{"op": "open"}, never, {"op": "close"}], self.lines)
        self.assertIn('never expected {"n":2}', complaint or "")

    def test_never_is_checked_up_to_end(self) -> None:
        self.assertIsNone(trace.unmet([{"n": 2}, {"never": {"n": 1}}], self.lines))
        self.assertIsNotNone(trace.unmet([{"n": 1}, {"never": {"op": "close"}}], self.lines))


class Difference(unittest.TestCase):
    def test_difference_shows_only_unequal_lines(self) -> None:
        self.assertIsNone(trace.difference([{"a": 1}], [{"a": 1}], ("x", "y")))
        diff = trace.difference([{"a": 1}, {"b": 1}], [{"a": 1}, {"b": 2}], ("expected", "rust"))
        self.assertIn('-{"b":1}\n+{"b":2}', diff or "")


if __name__ == "__main__":
    unittest.main()
