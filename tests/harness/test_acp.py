"""What comes out otherwise over ACP: that each rule does what it says, and that nothing is declared in vain."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path
from typing import Any, ClassVar

from harness import acp
from harness.scenario import BadScenario, Scenario, load_all
from harness.trace import Line

SCENARIOS = Path(__file__).resolve().parent.parent / "scenarios"


def event(kind: str, **payload: Any) -> Line:
    return {"event": {"type": kind, "payload": payload}}


def call(name: str = "Shell", id: str = "c1", arguments: str = "") -> Line:
    return event("ToolCall", id=id, type="function", function={"name": name, "arguments": arguments})


def result(id: str = "c1", **value: Any) -> Line:
    given = {"display": [], "is_error": False, "message": "", "output": "", **value}
    return event("ToolResult", tool_call_id=id, return_value=given)


def scenario(**changes: Any) -> Scenario:
    data: dict[str, Any] = {
        "name": "one",
        "about": "It does one thing.",
        "agent": {"script": [[{"text": "Hi"}]]},
        "program": [{"op": "open"}],
        "expect": [{"op": "open", "ok": True}],
    }
    return Scenario(Path("one.json"), {**data, **changes})


class Rules(unittest.TestCase):
    def test_one_step_a_turn_is_left(self) -> None:
        lines = [
            event("TurnBegin", user_input="Hi"),
            event("StepBegin", n=1),
            event("StepBegin", n=2),
            event("TurnEnd"),
            {"op": "result", "steps": 2, "status": "finished"},
        ]
        self.assertEqual(
            acp.translated(lines),
            [
                event("TurnBegin", user_input="Hi", synthesized=True),
                event("StepBegin", n=1, synthesized=True),
                event("TurnEnd", synthesized=True),
                {"op": "result", "steps": 1, "status": "finished"},
            ],
        )

    def test_arguments_come_as_parts(self) -> None:
        self.assertEqual(
            acp.translated([call(arguments="{}")]), [call(arguments=""), event("ToolCallPart", arguments_part="{}")]
        )

    def test_an_approval_is_told_in_the_agents_words_and_numbered(self) -> None:
        asked = {"tool_call_id": "c1", "sender": "it", "action": "run command", "description": "Run ls"}
        told = acp.translated(
            [
                call(),
                event("ApprovalRequest", id="a1", display=[{"type": "shell", "command": "ls"}], **asked),
                event("ApprovalResponse", request_id="a1", response="approve"),
                result(message="done", output=""),
                event("HandlerFailed", request_id="a1"),
            ]
        )
        self.assertEqual(
            [line["event"]["type"] for line in told], ["ToolCall", "ApprovalRequest", "ToolResult", "HandlerFailed"]
        )
        request, value = told[1]["event"]["payload"], told[2]["event"]["payload"]["return_value"]
        self.assertEqual((request["id"], request["action"], request["display"]), ("0", "Shell", []))
        self.assertEqual(request["description"], "Requesting approval to Run ls")
        self.assertEqual((value["output"], value["extras"]), ("done", {"kind": "execute", "title": "Run ls"}))
        self.assertEqual(told[3]["event"]["payload"]["request_id"], "0")

    def test_what_a_handler_is_given_is_told_alike(self) -> None:
        asked = {"tool_call_id": "c1", "sender": "Shell", "action": "run", "description": "Run", "display": []}
        (line,) = acp.translated([{"handler": "approval", "request": {"id": "a1", **asked}}])
        self.assertEqual(
            (line["handler"], line["request"]["action"], line["request"]["id"]), ("approval", "Shell", "0")
        )

    def test_of_questions_the_first_is_left_and_has_one_choice(self) -> None:
        questions = [{"question": "Which?", "options": [], "multi_select": True, "body": "b"}, {"question": "When?"}]
        (line,) = acp.translated([event("QuestionRequest", id="q", tool_call_id="c1", questions=questions)])
        left = [{"question": "Which?", "options": [], "multi_select": False}]
        self.assertEqual(line["event"]["payload"]["questions"], left)

    def test_ids_that_there_were_in_the_turn_get_a_number(self) -> None:
        lines = [event("TurnBegin"), call(), result(), call(), result(), event("TurnBegin"), call()]
        told = acp.translated(lines)
        ids = [
            payload.get("id") or payload.get("tool_call_id") for payload in (line["event"]["payload"] for line in told)
        ]
        self.assertEqual(ids, [None, "c1", "c1", "c1__2", "c1__2", None, "c1"])

    def test_status_is_left_outside_of_turns_and_of_the_mode_only(self) -> None:
        mode, full = event("StatusUpdate", plan_mode=True), event("StatusUpdate", context_usage=0.5)
        lines = [mode, full, event("TurnBegin"), mode, full, event("TurnEnd")]
        self.assertEqual(
            [line["event"]["type"] for line in acp.translated(lines)], ["StatusUpdate", "TurnBegin", "TurnEnd"]
        )

    def test_a_turn_that_fails_has_no_end(self) -> None:
        lines = [event("StepInterrupted"), event("TurnEnd"), {"op": "drain", "error": "rpc_error", "rpc_code": 1}]
        self.assertEqual(acp.translated(lines), lines[2:])

    def test_the_handshake_and_tokens(self) -> None:
        usage = {"input_other": 1, "output": 2, "input_cache_read": 3, "input_cache_creation": 4}
        info = {"op": "info", "capabilities": {}, "protocol_version": "1.10", "slash_commands": ["a"], "server": None}
        session = {"op": "session", "id": "<id4>"}
        told = acp.translated([info, {"op": "usage", "turn": usage}, session])
        self.assertEqual((told[0]["protocol_version"], told[0]["slash_commands"]), ("acp-1", ["a"]))
        self.assertEqual(set(told[1]["turn"].values()), {0})
        self.assertEqual(told[2]["id"], "session_<id1>")

    def test_each_rule_that_is_used_is_noted(self) -> None:
        used: set[str] = set()
        acp.translated([event("TurnBegin")], used)
        self.assertEqual(used, {"turns"})


class Cast(unittest.TestCase):
    NOTHING: ClassVar[acp.Declared] = acp.Declared({}, {})

    def test_the_script_says_which_protocol(self) -> None:
        cast = acp.cast(scenario(options={"yolo": True}), self.NOTHING)
        self.assertEqual(cast.data["agent"]["script"], {"wire": "acp", "turns": [[{"text": "Hi"}]]})
        self.assertEqual(cast.data["options"], {"yolo": True, "dialect": "acp"})

    def test_another_course_takes_the_place_of_the_rules(self) -> None:
        course = {"why": "so", "expect": [{"op": "open", "error": "x"}]}
        cast = acp.cast(scenario(), acp.Declared({}, {"one": course}))
        self.assertEqual(cast.expect, course["expect"])

    def test_a_course_that_is_none_is_refused(self) -> None:
        course = {"why": "so", "expect": [{"op": "open", "ok": True}]}
        with self.assertRaisesRegex(BadScenario, "one takes no other course"):
            acp.cast(scenario(), acp.Declared({}, {"one": course}))

    def test_what_is_left_out_has_a_reason(self) -> None:
        for changes, word in (
            ({"options": {"hooks": []}}, "hooks"),
            ({"program": [{"op": "open", "options": {"config": {}}}]}, "config"),
            ({"program": [{"op": "steer"}]}, "steer"),
            ({"agent": {"script": [[{"parallel": [{"external_tool": {}}]}]]}}, "external_tool"),
            ({"agent": {"script": {"wire": "1.3"}}}, "wire"),
        ):
            self.assertIn(word, acp.reason(scenario(**changes), self.NOTHING) or "", changes)
        self.assertIsNone(acp.reason(scenario(), self.NOTHING))
        self.assertEqual(acp.reason(scenario(), acp.Declared({"on.": "so"}, {})), "so")


class DeclaredDifferences(unittest.TestCase):
    def test_all_of_them_are_needed(self) -> None:
        known, used = acp.declared(), set[str]()
        scenarios = load_all(SCENARIOS)
        acp.chosen(scenarios, known, used)
        self.assertEqual(acp.needless(scenarios, known, used), [])

    def test_what_is_not_needed_is_named(self) -> None:
        course = {"why": "so", "expect": [{"op": "open", "error": "x"}]}
        known = acp.Declared({"nothing.*": "so"}, {"gone": course})
        complaints = "\n".join(acp.needless([scenario()], known, {"turns"}))
        for word in (
            "`nothing.*` leaves out nothing",
            "gone is not played",
            "`steps` changes no trace",
            "the option `hooks`",
        ):
            self.assertIn(word, complaints)
        self.assertNotIn("`turns`", complaints)

    def test_each_says_why(self) -> None:
        known = acp.declared()
        reasons = [*known.left_out.values(), *(course["why"] for course in known.courses.values())]
        self.assertTrue(all(isinstance(why, str) and len(why) > 10 for why in reasons))

    def test_what_is_written_is_read_again(self) -> None:
        known = acp.declared()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "acp.json"
            acp.write(known.courses, known, path)
            self.assertEqual(acp.declared(path), known)
            self.assertEqual(json.loads(path.read_text("utf-8")), json.loads(acp.DECLARED.read_text("utf-8")))


if __name__ == "__main__":
    unittest.main()
