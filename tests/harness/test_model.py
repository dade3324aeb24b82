"""The scripted model, asked the way an agent asks."""

from __future__ import annotations

import http.client
import json
import tempfile
import unittest
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from real.model import Reply, ScriptedModel


class Model(unittest.TestCase):
    def serve(self, *replies: Reply) -> ScriptedModel:
        model = ScriptedModel(list(replies))
        model.__enter__()
        self.addCleanup(model.__exit__)
        return model

    def ask(self, model: ScriptedModel, **body: Any) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(urlsplit(model.base_url).netloc, timeout=20)
        self.addCleanup(connection.close)
        connection.request("POST", "/v1/chat/completions", json.dumps({"messages": [], **body}))
        return connection.getresponse()

    def deltas(self, response: http.client.HTTPResponse) -> list[dict[str, Any]]:
        rows = [row[6:] for row in response.read().decode().split("\n") if row.startswith("data: {")]
        return [choice["delta"] for row in rows for choice in json.loads(row)["choices"]]

    def text(self, response: http.client.HTTPResponse) -> str:
        return "".join(delta.get("content") or "" for delta in self.deltas(response))

    def test_replies_for_one_of_several_agents(self) -> None:
        model = self.serve({"for": "main", "text": "first"}, {"for": "main", "text": "second"}, {"text": "other"})
        main, helper = [{"content": "main"}], [{"content": "helper"}]
        texts = [self.text(self.ask(model, messages=messages)) for messages in (main, helper, helper, main)]
        self.assertEqual(texts, ["first", "other", "(no reply left)", "second"])
        self.assertEqual(model.unused, 0)

    def test_pieces_and_thoughts(self) -> None:
        model = self.serve({"think": "hm", "text": ["a", "b"]})
        deltas = self.deltas(self.ask(model))
        self.assertEqual(deltas[1:4], [{"reasoning_content": "hm"}, {"content": "a"}, {"content": "b"}])
        self.assertEqual(self.text(self.ask(model)), "(no reply left)")

    def test_calls_are_split(self) -> None:
        model = self.serve({"calls": [{"id": "c1", "name": "Shell", "arguments": {"a": 1}, "pieces": 3}]})
        calls = [delta["tool_calls"][0] for delta in self.deltas(self.ask(model)) if "tool_calls" in delta]
        self.assertEqual(calls[0]["function"], {"name": "Shell", "arguments": ""})
        parts = [call["function"]["arguments"] for call in calls]
        self.assertEqual((len(parts), "".join(parts)), (4, '{"a": 1}'))

    def test_status(self) -> None:
        response = self.ask(self.serve({"status": 401, "message": "no"}))
        self.assertEqual((response.status, json.loads(response.read())["error"]["message"]), (401, "no"))

    def test_needs_and_lacks(self) -> None:
        model = self.serve({"needs": ["x"], "text": "t"}, {"lacks": ["x"], "text": "t"}, {"offers": ["Shell"]})
        self.assertIn("it lacks 'x'", self.text(self.ask(model)))
        self.assertIn("it has 'x'", self.text(self.ask(model, messages=[{"content": "x"}])))
        self.assertIn("doesn't offer Shell", self.text(self.ask(model)))

    def test_capture_serves_later_replies(self) -> None:
        model = self.serve({"capture": {"file": r"File: (\S+)"}, "text": "{{file}}"}, {"text": "again {{file}}"})
        self.assertEqual(self.text(self.ask(model, messages=[{"content": "File: a.md now"}])), "a.md")
        self.assertEqual(self.text(self.ask(model)), "again a.md")

    def test_waits_for_a_file(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "go"
            response = self.ask(self.serve({"text": ["a", {"wait_file": str(path)}, "b"]}))
            while b'"a"' not in response.readline():
                pass
            path.touch()
            self.assertEqual(self.text(response), "b")

    def test_closing_ends_a_hanging_stream(self) -> None:
        model = ScriptedModel([{"text": "a", "end": "hang"}])
        with model:
            response = self.ask(model)
            while b'"a"' not in response.readline():
                pass
        self.assertNotIn(b"[DONE]", response.read())


if __name__ == "__main__":
    unittest.main()
