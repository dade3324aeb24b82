//! The parsers of text that comes from agents, models, recordings and files, each with texts that take it longest. For the
//! tests that count what such texts take: `bench/instructions/src/worst`.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::json;

use crate::answers::Approval;
use crate::dialect::{Acp, Answer, Call, Dialect as _, KimiWeb, Wire, WireVersion};
use crate::json::{parsed, rewritten};
use crate::jsonrpc::framing::LineBuffer;
use crate::output::{OutputPlan, OutputRun, OutputSpec};
use crate::printable::{printable, printable_line, unambiguous};
use crate::recording::{Place, Recording, Redactor};
use crate::secrets::Secrets;

/// In a part, the place of a number that is different each time.
pub const NUMBER: &str = "{n}";

/// A text of any size: a beginning, a part that is repeated for one half, a middle, a part that is repeated for the other half, and
/// an end.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    /// The beginning.
    pub before: &'static str,
    /// What is repeated first; it can be empty.
    pub first: &'static str,
    /// What follows.
    pub middle: &'static str,
    /// What is repeated then.
    pub then: &'static str,
    /// The end.
    pub after: &'static str,
}

/// A text that is one part again and again.
pub const fn repeated(part: &'static str) -> Text {
    within("", part, "")
}

/// A text that is one part again and again between two others.
pub const fn within(before: &'static str, part: &'static str, after: &'static str) -> Text {
    Text { before, first: "", middle: "", then: part, after }
}

/// A text that has a long part, and another part many times.
pub const fn halves(
    before: &'static str,
    first: &'static str,
    middle: &'static str,
    then: &'static str,
    after: &'static str,
) -> Text {
    Text { before, first, middle, then, after }
}

impl Text {
    /// Returns the text with about this number of bytes.
    pub fn of_size(&self, size: usize) -> String {
        let first = if self.first.is_empty() { 0 } else { size / 2 };
        let times = |part: &str, size: usize| {
            let count = size.checked_div(part.len()).unwrap_or_default();
            match part.contains(NUMBER) {
                false => part.repeat(count),
                true => (0..count).map(|number| part.replace(NUMBER, &number.to_string())).collect(),
            }
        };
        let (first, then) = (times(self.first, first), times(self.then, size - first));
        [self.before, &first, self.middle, &then, self.after].concat()
    }
}

/// A parser, and the texts that take it longest.
#[derive(Clone, Copy, Debug)]
pub struct Parser {
    /// Its name in `docs/evidence/security.md`.
    pub name: &'static str,
    /// Reads a text.
    pub read: fn(&str),
    /// The texts.
    pub texts: &'static [Text],
}

/// The parsers of this crate.
pub const PARSERS: &[Parser] = &[
    Parser { name: "lines of the agent", read: lines, texts: &[repeated("\n"), repeated("a")] },
    Parser { name: "messages of Wire", read: wire, texts: MESSAGES },
    Parser { name: "messages of ACP", read: acp, texts: MESSAGES },
    Parser { name: "messages of Kimi Code's server", read: kimi_web, texts: MESSAGES },
    Parser { name: "nearly-JSON", read: lenient, texts: LENIENT },
    Parser { name: "values in an answer's text", read: answer, texts: ANSWERS },
    Parser { name: "a value and a JSON Schema", read: schema, texts: VALUES },
    Parser {
        name: "patterns of a JSON Schema",
        read: patterns,
        texts: &[within("\"", "a", "\""), within("\"", "é", "\"")],
    },
    Parser { name: "text of recordings, for secrets and paths", read: redaction, texts: SECRETS },
    Parser { name: "invalid lines, for secrets", read: invalid_line, texts: &[repeated("canary"), repeated("a")] },
    Parser { name: "recordings", read: recording, texts: &[repeated("{}\n"), repeated("\n"), repeated("[")] },
    Parser {
        name: "text for a terminal or a log",
        read: shown,
        texts: &[
            repeated("\u{1b}"),
            repeated(" "),
            repeated("\n"),
            repeated("\u{202e}"),
            repeated("\r"),
            repeated("\u{200b}"),
        ],
    },
];

const MESSAGES: &[Text] = &[
    repeated("["),
    within("[", "[],", "1]"),
    within(
        r#"{"jsonrpc":"2.0","method":"event","params":{"type":"ContentPart","payload":{"type":"text","text":""#,
        "\\u0061",
        r#""}}}"#,
    ),
    within(r#"{"jsonrpc":"2.0","method":"event","params":{"#, r#""a":1,"#, r#""type":"X","payload":{}}}"#),
    within(r#"{"jsonrpc":"2.0","method":"event","params":{"type":"X","payload":["#, r#"{"":[]},"#, "1]}}"),
    within(
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"session-1","update":{"sessionUpdate":"tool_call","toolCallId":"1","title":"t","content":["#,
        r#"{"type":"content","content":{"type":"text","text":""}},"#,
        r#"{"type":"content","content":{"type":"text","text":"x"}}]}}}"#,
    ),
    within(
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"session-1","update":{"sessionUpdate":"tool_call","toolCallId":"1","title":""#,
        "`a`",
        r#""}}}"#,
    ),
    within(
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"session-1","update":{"sessionUpdate":"plan","entries":["#,
        r#"{"content":"a","status":"pending","priority":"low"},"#,
        r#"{"content":"a","status":"pending","priority":"low"}]}}}"#,
    ),
    within(
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"session-1","update":{"sessionUpdate":"tool_call","toolCallId":"1","title":"t","content":["#,
        r#"{"type":"diff","path":"/{n}","newText":""},"#,
        r#"{"type":"diff","path":"/","newText":""}]}}}"#,
    ),
    within(
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"session-1","update":{"sessionUpdate":"tool_call","toolCallId":"1","title":"t","locations":["#,
        r#"{"path":"/{n}"},"#,
        r#"{"path":"/"}]}}}"#,
    ),
    within(
        r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"sessionId":"session-1","message":"m","requestedSchema":{"properties":{"#,
        r#""{n}":{"type":"string"},"#,
        r#""z":{"type":"string"}}}}}"#,
    ),
    within(
        r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"sessionId":"session-1","message":"m","requestedSchema":{"properties":{"a":{"type":"string","enum":["#,
        r#""{n}","#,
        r#""z"]}}}}}"#,
    ),
    within(
        r#"{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"session-1","toolCall":{"toolCallId":"1","title":"t"},"options":["#,
        r#"{"optionId":"{n}","name":"n","kind":"allow_once"},"#,
        r#"{"optionId":"r","name":"n","kind":"reject_once"}]}}"#,
    ),
    within(
        r#"{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"session-1","toolCall":{"toolCallId":"1","title":"t","kind":"execute","rawInput":{"#,
        r#""{n}":"n","#,
        r#""z":"z"}},"options":[{"optionId":"r","name":"n","kind":"reject_once"}]}}"#,
    ),
    within(r#"{"jsonrpc":"2.0","id":"prompt-1","error":{"code":-32603,"message":""#, "status 4 ", r#""}}"#),
    halves(
        r#"{"jsonrpc":"2.0","method":"event","params":{"type":"X","payload":{""#,
        "a",
        r#"":["#,
        "[],",
        r#""\ud83d"]}}}"#,
    ),
    within(
        r#"{"jsonrpc":"2.0","method":"event","params":{"type":"X","payload":{"a":["#,
        r#""\ud83d","\ude80","#,
        "1]}}}",
    ),
];

const LENIENT: &[Text] = &[
    halves("{\"", "a", "\":[", "[],", "\"\\ud83d\"]}"),
    halves("{\"", "a", "\":[", "\"\\ud83d\",", "1]}"),
    halves("{\"", "a", "b\":[\"\\ud83d\"],\"", "\"a\",", "]}"),
    within("[", "\"\\ud83d\",\"\\ude80\",", "1]"),
    within("{", "\"\\u0061\":1,", "\"b\":\"\\ud83d\"}"),
    within("[\"", "\u{1}", "\"]"),
    within("[\"", "\\x", "\"]"),
    within("[", "NaN,", "1]"),
    within("[", "1e999,", "1]"),
    within("[\"\\ud83d\",", "9", "]"),
    repeated("["),
    repeated("{\"a\":"),
];

const ANSWERS: &[Text] = &[
    repeated("{"),
    repeated("[{\""),
    repeated("{\"a\":"),
    repeated("[1,"),
    repeated("\""),
    repeated("{}"),
    repeated("```\n"),
    repeated("```\n{}\n```\n"),
    repeated("```\n\"\\ud83d\"\n```\n"),
    repeated("[\"\n"),
    repeated("{]"),
    repeated("[\"[\\"),
    within("{\"output\": \"", "[", "\"}"),
    within("\"", "\\\"", "\""),
    halves("{\"", "a", "\":[", "[],", "\"\\ud83d\"]}"),
];

const VALUES: &[Text] = &[
    within("[", "1,", "1]"),
    within("[", "[],", "1]"),
    within("[", "{\"l\":[]},", "1]"),
    within("[\"", "a", "\"]"),
    within("{", "\"a\":1,", "\"b\":1}"),
    within("[", "0.1,", "1]"),
    within("[", "1e308,", "1]"),
    within("[", "1e-308,", "1]"),
];

const SECRETS: &[Text] = &[
    within("[\"", "eyJ", "\"]"),
    within("[\"", "\\\\", "\"]"),
    within("[\"", "Bearer ", "\"]"),
    within("[\"", "-----BEGIN ", "\"]"),
    within("[\"", "-----BEGIN PRIVATE KEY-----", "\"]"),
    within("[\"", "//", "\"]"),
    within("[\"", "//a:", "\"]"),
    within("[\"", "\\/\\/a:", "\"]"),
    within("[\"", "Basic YTpi ", "\"]"),
    within("[\"Basic ", "YTpi", "\"]"),
    within("[\"", "sk-", "\"]"),
    within("[\"", "sk-aaaaaaaaaaaaaaaa ", "\"]"),
    within("[\"", "canar ", "\"]"),
    within("[\"", "canary/ ", "\"]"),
    within("[\"", "/home/canary ", "\"]"),
    within("[\"", "{{home", "\"]"),
    within("[\"", "\\u0061", "\"]"),
    within("[\"", "\\\\u0061", "\"]"),
    within("[\"", "\\u001b[0;0m", "\"]"),
    within("[\"\\u001b[", "0;", "m\"]"),
    within("[", "\"\",", "1]"),
    within("[", "1234567,", "1]"),
    within("[", "1", "]"),
    within("{", "\"a\":\"canary\",", "\"b\":1}"),
    within("[\"", "m", "\"]"),
    within("[\"", "0", "m\"]"),
    repeated("\\"),
    repeated("\""),
];

fn lines(text: &str) {
    let mut lines = LineBuffer::new(usize::MAX);
    for chunk in text.as_bytes().chunks(4096) {
        lines.extend(chunk);
        while let Ok(Some(line)) = lines.next_line() {
            std::hint::black_box(&line);
        }
    }
}

fn wire(text: &str) {
    std::hint::black_box(Wire::new(WireVersion::LATEST).read_line(text.as_bytes()));
}

fn acp(text: &str) {
    let mut dialect = Acp::open("session-1");
    drop(dialect.call("prompt-1", &Call::Prompt("go".into())));
    std::hint::black_box(dialect.read_line(text.as_bytes()));
    // The answer looks at all that was asked.
    std::hint::black_box(dialect.answer("1", "1", &Answer::Approval(Approval::Approve)));
}

fn kimi_web(text: &str) {
    std::hint::black_box(KimiWeb::open("session-1").read_line(text.as_bytes()));
}

fn lenient(text: &str) {
    std::hint::black_box(rewritten(text.as_bytes()));
    drop(parsed(text));
}

fn run(schema: serde_json::Value) -> Option<OutputRun> {
    OutputPlan::new(&OutputSpec::new(schema)).ok().map(|plan| OutputRun::new(Arc::new(plan), false))
}

fn answer(text: &str) {
    let run = run(json!({"type": "object", "required": ["a"]}));
    drop(std::hint::black_box(run.map(|run| run.read_answer(text))));
}

/// A union that refers to itself, as pydantic makes them.
fn schema(text: &str) {
    let branch =
        |name: &str| json!({"type": "object", "properties": {"l": {"$ref": "#/$defs/E"}}, "required": ["l", name]});
    let list = |rules: serde_json::Value| json!({"type": "array", "items": {"$ref": "#/$defs/E"}, "uniqueItems": true, "contains": rules});
    let union = json!([branch("a"), branch("b"), list(json!({"multipleOf": 0.1})), {"type": "string", "maxLength": 3},
        {"type": "number", "multipleOf": 0.001}, {"const": {"a": [1]}}]);
    let run = run(json!({"$ref": "#/$defs/E", "$defs": {"E": {"anyOf": union, "unevaluatedProperties": false}}}));
    drop(std::hint::black_box(run.map(|run| run.read_answer(text))));
}

fn patterns(text: &str) {
    let run = run(json!({"type": "string", "pattern": "^(?:a|b|ab|a.){1,60}(?:x*y*)*[^a]{3,90}$"}));
    drop(std::hint::black_box(run.map(|run| run.read_answer(text))));
}

fn redaction(text: &str) {
    let place = Place { name: "home", path: "/home/canary".to_owned() };
    let secrets = ["canary/é\\1", "canary-2", "1234567"].map(Cow::Borrowed);
    if let Ok(redactor) = Redactor::new(&[place], secrets, &[]) {
        std::hint::black_box(redactor.redacted(text.as_bytes()));
    }
}

fn invalid_line(text: &str) {
    let secrets = Secrets::new([&json!(["canary-of-config", "canary-2"])], []);
    std::hint::black_box(secrets.shown(text.as_bytes(), 1 << 16));
}

fn recording(text: &str) {
    drop(std::hint::black_box(Recording::read(text)));
}

fn shown(text: &str) {
    std::hint::black_box((printable(text), printable_line(text), unambiguous(text)));
}
