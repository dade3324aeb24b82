//! Secrets that the agent sends in pieces.

use super::*;

const SECRET: &str = "canary-env-12345";
/// A text with everything that is replaced.
const SAMPLES: [&str; 10] = [
    SECRET,
    // The secret in Base64.
    "Y2FuYXJ5LWVudi0xMjM0NQ==",
    "Basic YWRhOmNhbmFyeTEy",
    "postgres://ada:canary-2@db/app",
    "https://ada:canary-3@a.example",
    "sk-abcdefghijklmnop",
    "Bearer abcdef.123456",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
    "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----",
    "/home/ada/src/app/a.rs",
];

/// The ways in which agents stream texts.
#[derive(Clone, Copy, Debug)]
enum Form {
    Text,
    Think,
    Arguments,
    OfSubagent,
    Legacy,
    Acp,
    AcpThought,
    /// All arguments again with each update.
    AcpArguments,
    Web,
    WebArguments,
    WebProgress,
}

const FORMS: [Form; 11] = [
    Form::Text,
    Form::Think,
    Form::Arguments,
    Form::OfSubagent,
    Form::Legacy,
    Form::Acp,
    Form::AcpThought,
    Form::AcpArguments,
    Form::Web,
    Form::WebArguments,
    Form::WebProgress,
];

impl Form {
    fn repeats(self) -> bool {
        matches!(self, Self::AcpArguments)
    }

    fn message(self, text: &str, number: usize) -> Value {
        let event =
            |kind: &str, payload: Value| json!({"method": "event", "params": {"type": kind, "payload": payload}});
        let update =
            |update: Value| json!({"method": "session/update", "params": {"sessionId": "s", "update": update}});
        let chunk = |kind: &str| update(json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}}));
        let web = |kind: &str, name: &str| {
            let payload = json!({"type": kind, "time": number, "agentId": "main", "toolCallId": "t", name: text});
            json!({"method": kind, "params": {"type": kind, "seq": number, "timestamp": format!("0:{number}"),
                "payload": payload}})
        };
        match self {
            Self::Text => event("ContentPart", json!({"type": "text", "text": text})),
            Self::Think => event("ContentPart", json!({"type": "think", "think": text})),
            Self::Arguments if number == 0 => {
                let function = json!({"name": "Shell", "arguments": text});
                event("ToolCall", json!({"type": "function", "id": "t", "function": function}))
            }
            Self::Arguments => event("ToolCallPart", json!({"arguments_part": text})),
            Self::OfSubagent => {
                let inner = json!({"type": "ContentPart", "payload": {"type": "text", "text": text}});
                event("SubagentEvent", json!({"parent_tool_call_id": "t", "event": inner}))
            }
            Self::Legacy => event("content_part", json!({"type": "text", "text": text})),
            Self::Acp => chunk("agent_message_chunk"),
            Self::AcpThought => chunk("agent_thought_chunk"),
            Self::AcpArguments => {
                let content = json!([{"type": "content", "content": {"type": "text", "text": text}}]);
                update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "content": content}))
            }
            Self::Web => web("assistant.delta", "delta"),
            Self::WebArguments => web("tool.call.delta", "argumentsPart"),
            Self::WebProgress => web("tool.progress", "chunk"),
        }
    }

    fn text(self, message: &Value) -> String {
        let params = &message["params"];
        let (payload, update) = (&params["payload"], &params["update"]);
        let found = match self {
            Self::Text | Self::Legacy => &payload["text"],
            Self::Think => &payload["think"],
            Self::Arguments if params["type"] == "ToolCall" => &payload["function"]["arguments"],
            Self::Arguments => &payload["arguments_part"],
            Self::OfSubagent => &payload["event"]["payload"]["text"],
            Self::Acp | Self::AcpThought => &update["content"]["text"],
            Self::AcpArguments => &update["content"][0]["content"]["text"],
            Self::Web => &payload["delta"],
            Self::WebArguments => &payload["argumentsPart"],
            Self::WebProgress => &payload["chunk"],
        };
        found.as_str().unwrap().to_owned()
    }
}

fn secrets(patterns: &[&str]) -> Redactor {
    redactor(&[SECRET, "quo\"te\\d-secret", "höflich-geheim"], patterns)
}

/// The messages of a recording, in order.
fn messages(file: &[u8]) -> Vec<Value> {
    let lines = std::str::from_utf8(file).unwrap().lines().skip(1);
    let entries = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    entries.filter(|entry| entry["type"] == "message").map(|entry| entry["message"].clone()).collect()
}

/// Writes a text in pieces. Returns the pieces of the recording.
fn streamed(form: Form, pieces: &[&str], patterns: &[&str]) -> Vec<String> {
    let (mut writer, mut file) = writer(secrets(patterns));
    let mut sent = String::new();
    for (number, piece) in pieces.iter().enumerate() {
        sent.push_str(piece);
        let message = form.message(if form.repeats() { &sent } else { piece }, number);
        writer.message(&mut file, 0.0, Side::Agent, message.to_string().as_bytes(), true);
    }
    writer.finish(&mut file);
    let messages = messages(&file);
    assert_eq!(messages.len(), pieces.len(), "{form:?}");
    for (number, message) in messages.iter().enumerate() {
        let text = form.text(message);
        assert_eq!(*message, form.message(&text, number), "{form:?}");
    }
    messages.iter().map(|message| form.text(message)).collect()
}

/// The text as a recording has it that is not streamed.
fn masked(text: &str, patterns: &[&str]) -> String {
    let line = json!({ "a": text }).to_string();
    let line = secrets(patterns).redacted(line.as_bytes()).into_owned();
    serde_json::from_slice::<Value>(&line).unwrap()["a"].as_str().unwrap().to_owned()
}

#[test]
fn secret_in_pieces_is_masked_in_first_one() {
    for form in FORMS {
        let found = streamed(form, &["the key ", "is cana", "ry-env-", "12345", ", so"], &[]);
        let expected = if form.repeats() {
            ["the key ", "the key is ***", "the key is ***", "the key is ***", "the key is ***, so"]
        } else {
            ["the key ", "is ***", "", "", ", so"]
        };
        assert_eq!(found, expected, "{form:?}");
    }
}

/// Ways in which an agent can spell a text within a text.
const SPELLINGS: [fn(&str) -> String; 7] = [
    |text| text.to_owned(),
    |text| serde_json::to_string(text).unwrap().trim_matches('"').to_owned(),
    |text| text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect(),
    |text| text.chars().map(|letter| format!("&#{};", u32::from(letter))).collect(),
    |text| text.replace('&', "&amp;").replace('"', "&quot;"),
    |text| text.bytes().map(|byte| format!("%25{byte:02x}")).collect(),
    |text| text.bytes().map(|byte| format!("\\x{byte:02x}")).collect(),
];

#[test]
fn secret_in_growing_text_is_masked() {
    let secrets = [
        "Zq7vErYs3cr3tTok",
        "Zq7\"vErYs3cr3t",
        "Zq7\\vErYs3cr3t",
        "Zq7vErYs\n3cr3t",
        "Zq7vE€rYs3crö3t",
        "Zq7v\u{1f600}rYs3cr",
    ];
    for (secret, spelled) in secrets.iter().flat_map(|secret| SPELLINGS.map(|spelled| (secret, spelled(secret)))) {
        for (before, after) in [("", " end"), ("out: ", ""), ("{\"k\":\"", "\"}")] {
            let (mut writer, mut file) = writer(redactor(&[secret], &[]));
            let text = format!("{before}{spelled}{after}");
            for (end, letter) in text.char_indices() {
                let message = Form::AcpArguments.message(&text[..end + letter.len_utf8()], 0).to_string();
                writer.message(&mut file, 0.0, Side::Agent, message.as_bytes(), true);
            }
            writer.finish(&mut file);
            for message in messages(&file) {
                let found = Form::AcpArguments.text(&message);
                let part = found[before.len().min(found.len())..].trim_end_matches(after);
                // At most three characters, in their spelling, and a part of the fourth one.
                let spelling = spelled.len().div_ceil(secret.len());
                let is_short = spelled.starts_with(part) && part.len() <= 3 + 5 * (spelling - 1);
                let is_rest = after.contains(part.trim_start_matches("***"));
                assert!(is_short || is_rest || part.is_empty(), "{secret:?} as {spelled:?}: {found:?}");
            }
        }
    }
}

#[test]
fn other_texts_stay_as_they_are() {
    for form in FORMS.into_iter().filter(|form| !form.repeats()) {
        let pieces = ["a cana", "ry-env-1234", "6 sk-", "short", " /home/a", "/b", "", "c"];
        assert_eq!(streamed(form, &pieces, &[]), pieces, "{form:?}");
    }
}

#[test]
fn directory_ends_with_piece() {
    let pieces = ["in /home/ada/src/app", "Done", " in /home/ada", "/src/app/x"];
    assert_eq!(streamed(Form::Text, &pieces, &[]), ["in {{work_dir}}", "Done", " in {{work_dir}}", "/x"]);
}

#[test]
fn paths_of_requests_are_no_pieces() {
    let (mut writer, mut file) = writer(redactor(&[], &[]));
    for (cwd, kept) in
        [("/", "/"), ("/home/ada/src/app", "{{work_dir}}"), ("/home", "/home"), ("/ada/src/app/x", "/ada/src/app/x")]
    {
        let request =
            |cwd: &str| json!({"id": 1, "method": "terminal/create", "params": {"command": "make", "cwd": cwd}});
        writer.message(&mut file, 0.0, Side::Agent, request(cwd).to_string().as_bytes(), true);
        // Nothing waits for the next request.
        assert_eq!(messages(&file).last(), Some(&request(kept)));
    }
}

#[test]
fn streams_are_separate() {
    let (mut writer, mut file) = writer(secrets(&[]));
    let sent = [
        (Form::Text, "cana"),
        (Form::Think, "canary-env-"),
        (Form::Text, "ry-env-12345"),
        (Form::OfSubagent, "12345"),
        (Form::Think, "12345 of"),
    ];
    for (form, text) in sent {
        writer.message(&mut file, 0.0, Side::Agent, form.message(text, 0).to_string().as_bytes(), true);
    }
    // All are known, so that nothing waits.
    assert_eq!(writer.waits_since(), None);
    let messages = messages(&file);
    let found: Vec<_> = sent.iter().zip(&messages).map(|((form, _), message)| form.text(message)).collect();
    assert_eq!(found, ["***", "***", "", "12345", " of"]);
}

#[test]
fn secret_after_any_piece() {
    let key = "sk-0123456789abcdefgh";
    for (first, patterns) in [("eyJ", &[][..]), ("Bear", &[]), ("a\nx", &[]), ("a s", &[]), ("done", &["ZZZ"])] {
        for second in [key.to_owned(), format!("{key} and"), "/home/ada/x and".to_owned()] {
            let found = streamed(Form::Text, &[first, &second], patterns);
            assert!(!found[1].contains(key) && !found[1].contains("/home/ada"), "{first} {second}: {found:?}");
        }
    }
    assert_eq!(streamed(Form::Text, &["hello", "ACME-12"], &[r"^ACME-\d+$"]), ["hello", "***"]);
}

#[test]
fn pattern_after_pause() {
    for length in 1020..1030 {
        let (mut writer, mut file) = writer(secrets(&[r"ACME-\d+"]));
        let before = format!("{}{}", "a".repeat(length % 3), "\u{8def}".repeat(length / 3 + 40));
        for text in [before.as_str(), " key ACME-123 here"] {
            writer.message(&mut file, 0.0, Side::Agent, Form::Text.message(text, 0).to_string().as_bytes(), true);
            writer.pause(&mut file, 1.0);
        }
        writer.finish(&mut file);
        assert_eq!(Form::Text.text(&messages(&file)[1]), " key *** here", "{length}");
    }
}

#[test]
fn order_stays_while_piece_waits() {
    let (mut writer, mut file) = writer(secrets(&[]));
    let header = file.len();
    let piece = |text: &str| Form::Text.message(text, 0).to_string().into_bytes();
    writer.message(&mut file, 1.0, Side::Agent, &piece("cana"), true);
    writer.message(&mut file, 2.0, Side::Sdk, b"{\"id\":\"1\"}", true);
    let call = || Entry::Call(CallEntry { call: CallKind::Cancel, turn: Some(1), arguments: Default::default() });
    writer.entry(&mut file, 3.0, call());
    assert_eq!((file.len(), writer.waits_since()), (header, Some(1.0)));
    writer.message(&mut file, 4.0, Side::Agent, &piece("d."), true);
    let times: Vec<f64> =
        Recording::read(std::str::from_utf8(&file).unwrap()).unwrap().entries.iter().map(|entry| entry.time).collect();
    assert_eq!(times, [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn end_of_turn_ends_wait() {
    for entry in [
        Entry::Turn(Box::new(TurnEntry { turn: 1, result: None, error: None })),
        Entry::End(EndEntry { reason: EndReason::Closed, error: None, exit_code: None, signal: None }),
    ] {
        let (mut writer, mut file) = writer(secrets(&[]));
        for text in ["canary", "-env-"] {
            writer.message(&mut file, 0.0, Side::Agent, Form::Text.message(text, 0).to_string().as_bytes(), true);
        }
        writer.entry(&mut file, 1.0, entry);
        let found: Vec<_> = messages(&file).iter().map(|message| Form::Text.text(message)).collect();
        assert_eq!((found, writer.waits_since()), (vec!["canary".to_owned(), "-env-".to_owned()], None));
    }
}

#[test]
fn pause_masks_part_of_secret() {
    for (pieces, expected) in [
        (["is canary", "-env-12345 x"], ["is ***", " x"]),
        (["is can", "ary-env-12345 x"], ["is can", "*** x"]),
        (["is sk-a", "bcdefghijklmnop x"], ["is ***", " x"]),
        (["Bearer ab", "cdefgh x"], ["Bearer ***", " x"]),
        (["Bea", "rer abcdefgh x"], ["Bea", "rer *** x"]),
        (["/home/ad", "a/src"], ["/home/ad", "a/src"]),
        (["in /home/ada", "/src/app"], ["in {{home}}", "/src/app"]),
    ] {
        let (mut writer, mut file) = writer(secrets(&[]));
        for (number, text) in pieces.iter().enumerate() {
            let time = number as f64;
            writer.message(&mut file, time, Side::Agent, Form::Text.message(text, 0).to_string().as_bytes(), true);
            writer.pause(&mut file, time);
            writer.pause(&mut file, time + 0.5);
            assert_eq!(writer.waits_since(), None);
        }
        let found: Vec<_> = messages(&file).iter().map(|message| Form::Text.text(message)).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn pause_leaves_later_messages_waiting() {
    let (mut writer, mut file) = writer(secrets(&[]));
    for (time, form) in [(1.0, Form::Text), (2.0, Form::Think)] {
        writer.message(&mut file, time, Side::Agent, form.message("cana", 0).to_string().as_bytes(), true);
    }
    writer.pause(&mut file, 2.0);
    assert_eq!((messages(&file).len(), writer.waits_since()), (1, Some(2.0)));
}

#[test]
fn much_ends_wait() {
    let (mut writer, mut file) = writer(secrets(&[]));
    writer.message(&mut file, 1.0, Side::Agent, Form::Text.message("cana", 0).to_string().as_bytes(), true);
    let line = json!({"text": "x".repeat(600 << 10)}).to_string();
    writer.message(&mut file, 2.0, Side::Sdk, line.as_bytes(), true);
    assert_eq!(writer.waits_since(), Some(1.0));
    writer.message(&mut file, 3.0, Side::Sdk, line.as_bytes(), true);
    assert_eq!((messages(&file).len(), writer.waits_since()), (3, None));
}

#[test]
fn pattern_in_pieces_is_masked() {
    let long = format!("{} ACME-17 {}", "x".repeat(3000), "y".repeat(3000));
    let pieces: Vec<String> =
        long.as_bytes().chunks(3).map(|piece| String::from_utf8(piece.to_vec()).unwrap()).collect();
    let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
    for form in FORMS.into_iter().filter(|form| !form.repeats()) {
        assert_eq!(streamed(form, &["an AC", "ME-1", "7."], &[r"ACME-\d+"]), ["an ***", "", "."], "{form:?}");
    }
    assert_eq!(streamed(Form::Text, &pieces, &[r"ACME-\d+"]).concat(), masked(&long, &[r"ACME-\d+"]));
    let found = streamed(Form::AcpArguments, &["an AC", "ME-1", "7."], &[r"ACME-\d+"]);
    assert_eq!(found, ["an ***", "an ***", "an ***."]);
}

/// Cuts a text into pieces.
fn cut<'a>(text: &'a str, places: &[prop::sample::Index]) -> Vec<&'a str> {
    let boundaries: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let mut at: Vec<usize> = places.iter().map(|place| boundaries[place.index(boundaries.len())]).collect();
    at.extend([0, text.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

fn sample() -> impl Strategy<Value = String> {
    let known = prop::sample::select(SAMPLES.to_vec());
    let secret = prop::sample::select(vec!["quo\"te\\d-secret", "höflich-geheim", "canary-env-1234", "sk-", "/home"]);
    prop_oneof![known.prop_map(str::to_owned), secret.prop_map(str::to_owned), "[a-c {\"\\\\/.-]{0,6}"]
}

proptest! {
    #[test]
    fn pieces_are_masked_as_whole_text(
        parts in prop::collection::vec(sample(), 1..6),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        form in prop::sample::select(FORMS.to_vec()),
        has_pattern in any::<bool>(),
    ) {
        let patterns: &[&str] = if has_pattern { &["ab+c"] } else { &[] };
        let text = parts.join(" ");
        let pieces = cut(&text, &places);
        let found = streamed(form, &pieces, patterns);
        for one in &found {
            prop_assert!(!SAMPLES.iter().any(|sample| one.contains(sample)), "{:?} {:?}", pieces, found);
        }
        let whole = if form.repeats() { found.last().cloned().unwrap_or_default() } else { found.concat() };
        prop_assert!(!SAMPLES.iter().any(|sample| whole.contains(sample)), "{:?} {:?}", pieces, found);
        // A piece that looks like a repetition, or a repetition that looks like the rest of a key, can lose more.
        let later = |at: usize| pieces[at + 1..].iter().any(|later| later.starts_with(pieces[at]));
        let looks_repeated = (0..pieces.len()).any(|at| !pieces[at].is_empty() && later(at));
        let has_key = ["sk-", "Bearer", "Basic", "eyJ", "-----BEGIN"].iter().any(|key| text.contains(key));
        if !(if form.repeats() { has_key } else { looks_repeated }) {
            prop_assert_eq!(whole, masked(&text, patterns), "{:?}", pieces);
        }
    }

    #[test]
    fn secret_never_remains_with_pauses(
        before in "[a-z /]{0,5}",
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        pauses in prop::collection::vec(any::<bool>(), 10),
    ) {
        let text = format!("{before}{SECRET}.");
        let (mut writer, mut file) = writer(secrets(&[]));
        for (number, piece) in cut(&text, &places).into_iter().enumerate() {
            writer.message(&mut file, 0.0, Side::Agent, Form::Web.message(piece, number).to_string().as_bytes(), true);
            if pauses[number % pauses.len()] {
                writer.pause(&mut file, 1.0);
            }
        }
        writer.finish(&mut file);
        let found: String = messages(&file).iter().map(|message| Form::Web.text(message)).collect();
        // At most three characters of it are in the file.
        prop_assert!(!found.contains("cana") && !found.contains("12345"), "{}", found);
    }
}
