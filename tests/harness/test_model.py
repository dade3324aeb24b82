"""The scripted model, asked the way an agent asks."""

from __future__ import annotations

import http.client
import json
import unittest
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

    def test_reply_can_be_for_one_agent(self) -> None:
        model = self.serve({"for": "main", "text": "first"}, {"for": "main", "text": "second"}, {"text": "other"})
        main, helper = [{"content": "main"}], [{"content": "helper"}]
        texts = [self.text(self.ask(model, messages=messages)) for messages in (main, helper, helper, main)]
        self.assertEqual(texts, ["first", "other", "(no reply left)", "second"])
        self.assertEqual(model.unused, 0)

    def test_unmet_needs_of_reply_are_reported(self) -> None:
        model = self.serve({"needs": ["x"], "text": "t"}, {"lacks": ["x"], "text": "t"}, {"offers": ["Shell"]})
        self.assertIn("it lacks 'x'", self.text(self.ask(model)))
        self.assertIn("it has 'x'", self.text(self.ask(model, messages=[{"content": "x"}])))
        self.assertIn("doesn't offer Shell", self.text(self.ask(model)))


if __name__ == "__main__":
    unittest.main()
