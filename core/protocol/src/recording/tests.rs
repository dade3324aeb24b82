use std::borrow::Cow;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

mod streams;

const HEADER: &str = r#"{"type":"header","format":1,"started":"2026-01-01T00:00:00Z","sdk":{"name":"kimi-agent","version":"0.1.0","language":"rust"},"dialect":"wire","executable":["kimi"],"options":{}}"#;

fn redactor(secrets: &[&str], patterns: &[&str]) -> Redactor {
    let place = |name, path: &str| Place { name, path: path.to_owned() };
    let places = [place("work_dir", "/home/ada/src/app"), place("home", "/home/ada"), place("temp", "/tmp")];
    let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
    Redactor::new(&places, secrets.iter().map(|secret| Cow::Borrowed(*secret)), &patterns).unwrap()
}

fn writer(redactor: Redactor) -> (EntryWriter, Vec<u8>) {
    let mut out = Vec::new();
    let header = serde_json::from_str(HEADER).unwrap();
    (EntryWriter::new(&mut out, header, redactor), out)
}

fn shown(redactor: &Redactor, line: &str) -> String {
    String::from_utf8(redactor.redacted(line.as_bytes()).into_owned()).unwrap()
}

#[test]
fn secrets_are_masked_in_every_spelling() {
    let redactor = redactor(&["canary-1", "quo\"te\\d", "höflich", "123456", "short"], &[r"ACME-\d+"]);
    for (line, expected) in [
        (r#"{"a":"canary-1","canary-1":[1,"x canary-1 y"]}"#, r#"{"a":"***","***":[1,"x *** y"]}"#),
        (r#"{"a":"quo\"te\\d"}"#, r#"{"a":"***"}"#),
        (r#"{"a":"{\"b\":\"quo\\\"te\\\\d\"}"}"#, r#"{"a":"{\"b\":\"***\"}"}"#),
        (r#"{"a":"h\u00f6flich höflich"}"#, r#"{"a":"*** ***"}"#),
        (r#"{"n":123456,"m":1234567,"s":"123456"}"#, r#"{"n":"***","m":1234567,"s":"***"}"#),
        (r#"{"a":"short ACME-17 ACME-"}"#, r#"{"a":"short *** ACME-"}"#),
        ("not JSON: canary-1", "not JSON: ***"),
        (r#"{"cut":"canary-1"#, r#"{"cut":"***"#),
    ] {
        assert_eq!(shown(&redactor, line), expected);
    }
}

#[test]
fn numbers_of_protocols_stay() {
    let redactor = redactor(&["131072", "262144"], &[]);
    for line in [
        r#"{"payload":{"max_context_tokens":131072,"token_usage":{"input_other": 262144,"output":131072}}}"#,
        r#"{"sessionUpdate":"usage_update","used":131072,"size":262144}"#,
    ] {
        assert_eq!(shown(&redactor, line), line);
    }
    let line = r#"{"size":[131072],"pin":131072,"output":"131072"}"#;
    assert_eq!(shown(&redactor, line), r#"{"size":["***"],"pin":"***","output":"***"}"#);
}

#[test]
fn words_of_protocols_stay() {
    let redactor = redactor(&["prompt", "version", "finished", "session/prompt"], &["[A-Za-z_]{6,}"]);
    for line in [
        r#"{"jsonrpc":"2.0","id":"1","method":"prompt","params":{}}"#,
        r#"{"method": "session/prompt", "params": {"agent": {"version": "1"}}}"#,
        r#"{"result":{"status":"finished","protocol_version":"1"}}"#,
    ] {
        assert_eq!(shown(&redactor, line), line);
    }
    for (line, expected) in [
        (r#"{"text":"finished","status":["finished"]}"#, r#"{"text":"***","status":["***"]}"#),
        (r#"{"status":"finished: 1","my version":1}"#, r#"{"status":"***: 1","my ***":1}"#),
        (r#"{"method":"prompt","text":"prompt"}"#, r#"{"method":"prompt","text":"***"}"#),
    ] {
        assert_eq!(shown(&redactor, line), expected);
    }
}

#[test]
fn keys_are_masked() {
    let redactor = redactor(&[], &[]);
    let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-DEF_1";
    for (text, expected) in [
        ("key sk-abcdefghijklmnop.", "key ***."),
        (r"\nsk-proj-abcdefghij1234", r"\n***"),
        ("task-abcdefghijklmnopqrst", "task-abcdefghijklmnopqrst"),
        ("sk-short", "sk-short"),
        ("ghp_0123456789abcdefghij x", "*** x"),
        ("AKIAIOSFODNN7EXAMPLE", "***"),
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer ***"),
        ("the bearer is here", "the bearer is here"),
        ("Authorization: Basic YWRhOmNhbmFyeQ==.", "Authorization: Basic ***."),
        ("a basic understanding, basic dGhpcyBpcyB0ZXh0", "a basic understanding, basic dGhpcyBpcyB0ZXh0"),
        ("ghr_0123456789abcdefghij gsk_0123456789abcdefghij", "*** ***"),
        ("sk_live_0123456789abcdef sk_test_0123456789abcdef rk_live_0123456789abcdef", "*** *** ***"),
        ("xoxr-0123456789abcdef npm_0123456789abcdef hf_0123456789abcdef", "*** *** ***"),
        ("glpat-0123456789abcdef pypi-0123456789abcdef", "*** ***"),
        ("postgres://ada:canary@db/app", "postgres://ada:***@db/app"),
        (r"https:\/\/ada:canary@a.example\/x", r"https:\/\/ada:***@a.example\/x"),
        (
            "http://localhost:8080/@scope https://ada@a.example //x: y@z ssh://git@a.example:x",
            "http://localhost:8080/@scope https://ada@a.example //x: y@z ssh://git@a.example:x",
        ),
        ("https://sk-abcdefghijklmnop:canary@a.example", "https://***:***@a.example"),
        ("redis://:canary@db", "redis://:***@db"),
        ("postgres://ada:c@n:ry@db/app", "postgres://ada:***@db/app"),
        ("https://ada:canary@a.example/@scope", "https://ada:***@a.example/@scope"),
        ("docker://alpine:3.19@sha256:51b67269", "docker://alpine:3.19@sha256:51b67269"),
        ("https://ada:canary@sha", "https://ada:***@sha"),
        (jwt, "***"),
        ("eyJ is not a token", "eyJ is not a token"),
        (
            r"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- x",
            "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY----- x",
        ),
        (r"-----BEGIN PRIVATE KEY-----\nMIIE", "-----BEGIN PRIVATE KEY-----***"),
        (r"-----BEGIN CERTIFICATE-----\nMIIE", r"-----BEGIN CERTIFICATE-----\nMIIE"),
    ] {
        assert_eq!(shown(&redactor, &format!(r#"{{"a":"{text}"}}"#)), format!(r#"{{"a":"{expected}"}}"#));
    }
}

#[test]
fn directories_become_placeholders() {
    let redactor = redactor(&[], &[]);
    for (text, expected) in [
        ("/home/ada/src/app/a.rs", "{{work_dir}}/a.rs"),
        ("/home/ada/src/app", "{{work_dir}}"),
        ("in /home/ada/src/app.", "in {{work_dir}}."),
        ("/home/ada/src/app.old", "{{home}}/src/app.old"),
        ("/home/ada/src/application", "{{home}}/src/application"),
        ("/home/adam", "/home/adam"),
        (r"a\n/tmp/x", r"a\n{{temp}}/x"),
        ("file:///tmp/x", "file://{{temp}}/x"),
        ("/var/tmp/x", "/var/tmp/x"),
        ("路径/home/ada。", "路径{{home}}。"),
        ("sessions/-home-ada-src-app/1", "sessions/{{work_dir:slug}}/1"),
        ("-home-ada-src-app-2", "{{work_dir:slug}}-2"),
    ] {
        assert_eq!(shown(&redactor, &format!(r#"{{"a":"{text}"}}"#)), format!(r#"{{"a":"{expected}"}}"#));
    }
}

#[test]
fn windows_paths_become_placeholders() {
    let place = Place { name: "work_dir", path: r"C:\Users\Ada\app".to_owned() };
    let redactor = Redactor::new(&[place], [], &[]).unwrap();
    let text = json!({"a": r"C:\Users\Ada\app\x", "b": "C:/Users/Ada/app/x"}).to_string();
    assert_eq!(shown(&redactor, &text), r#"{"a":"{{work_dir}}\\x","b":"{{work_dir}}/x"}"#);
    for (text, expected) in [
        (r"c:\\Users\\Ada\\app\\x", r"{{work_dir}}\\x"),
        ("c:/Users/Ada/app", "{{work_dir}}"),
        ("cd /c/Users/Ada/app/x", "cd {{work_dir:posix}}/x"),
        ("file:///c%3A/Users/Ada/app/x", "file:///{{work_dir:url}}/x"),
        ("file:///C%3a/Users/Ada/app", "file:///{{work_dir:url}}"),
        ("projects/c--Users-Ada-app/1", "projects/{{work_dir:slug}}/1"),
        ("/d/Users/Ada/app d:/Users/Ada/app", "/d/Users/Ada/app d:/Users/Ada/app"),
    ] {
        assert_eq!(shown(&redactor, &format!(r#"{{"a":"{text}"}}"#)), format!(r#"{{"a":"{expected}"}}"#));
    }
}

/// A time that grows with the square of the length would be minutes.
#[test]
fn long_lines_are_searched_once() {
    let redactor = redactor(&["123456", "äpfel-geheim"], &[]);
    for filler in ["ab/h+/tBa/be+bA4", "1234123412341234", "/eyJhIjoxfQ==eyJ", r"\\\\\\\\"] {
        let filler = filler.repeat(1 << 15);
        let line = format!(r#"{{"a":"{filler} /home/ada/src/app/a.rs {filler}"}}"#);
        let expected = format!(r#"{{"a":"{filler} {{{{work_dir}}}}/a.rs {filler}"}}"#);
        assert!(shown(&redactor, &line) == expected);
        let scan = redactor.scan(line.as_bytes(), 0, Some(&[]));
        assert!(scan.matches.len() == 1);
    }
}

#[test]
fn name_and_password_of_url_are_masked() {
    for (secrets, line, expected) in [
        (&["canary-user"][..], "https://canary-user:pw@a.example", "https://***:***@a.example"),
        (&["user:pass@host/secret"], "https://a-user:pass@host/secret", "https://a-***"),
    ] {
        assert_eq!(shown(&redactor(secrets, &[]), &format!(r#"{{"a":"{line}"}}"#)), format!(r#"{{"a":"{expected}"}}"#));
    }
}

#[test]
fn encoded_secrets_are_masked() {
    let redactor = redactor(&["can/ary-1", "ada:canary"], &[]);
    for (text, expected) in [
        ("a=can%2Fary-1&b=can%2fary-1", "a=***&b=***"),
        ("Y2FuL2FyeS0x x", "*** x"),
        ("Authorization: Basic YWRhOmNhbmFyeQ==", "Authorization: Basic ***"),
        ("YWRhOmNhbmFyeQ.", "***."),
        ("YWRhOmNhbmFyeQo=", "***"),
        ("ada%3Acanary", "***"),
    ] {
        assert_eq!(shown(&redactor, &format!(r#"{{"a":"{text}"}}"#)), format!(r#"{{"a":"{expected}"}}"#));
    }
}

#[test]
fn invalid_pattern_is_refused() {
    let (at, reason) = Redactor::new(&[], [], &["a".to_owned(), "(".to_owned()]).unwrap_err();
    assert_eq!(at, 1);
    assert!(!reason.is_empty());
}

#[test]
fn written_entries_are_read() {
    let redactor = redactor(&["canary-1"], &[]);
    let (mut writer, mut file) = writer(redactor);
    let big = b"{\"id\":\"1\",\"big\":123456789012345678901234567890}\n";
    writer.message(&mut file, 0.5, Side::Sdk, big, true);
    writer.message(&mut file, 0.75, Side::Agent, b"no JSON canary-1\r\n", false);
    let call = CallEntry { call: CallKind::Cancel, turn: Some(1), arguments: Default::default() };
    writer.entry(&mut file, 1.0, Entry::Call(call));
    file.extend_from_slice(b"{\"type\":\"later\",\"time\":2}\n{\"type\":\"end\",\"ti");
    let recording = Recording::read(std::str::from_utf8(&file).unwrap()).unwrap();
    assert_eq!(recording.header.sdk.language, "rust");
    assert!(recording.is_cut);
    let [first, second, third, fourth] = &recording.entries[..] else { panic!("{:?}", recording.entries) };
    let Entry::Message(message) = &first.entry else { panic!("{first:?}") };
    let json = message.message.as_ref().unwrap().get();
    assert_eq!((message.from, json), (Side::Sdk, r#"{"id":"1","big":123456789012345678901234567890}"#));
    let Entry::Message(message) = &second.entry else { panic!("{second:?}") };
    assert_eq!((second.time, message.line.as_deref()), (0.75, Some("no JSON ***")));
    assert!(matches!(&third.entry, Entry::Call(CallEntry { call: CallKind::Cancel, turn: Some(1), .. })));
    assert!(matches!(&fourth.entry, Entry::Unknown));
}

#[test]
fn problems_name_their_line() {
    for (text, line, part) in [
        ("", 1, "the file is empty"),
        ("{}\n", 1, "it is not the header of a recording"),
        (r#"{"type":"message","format":1}"#, 1, "but an entry `message`"),
        (r#"{"type":"header","format":2}"#, 1, "newer"),
        (&format!("{HEADER}\n{{\n{HEADER}\n"), 2, "it cannot be read: EOF while parsing an object, at column 1"),
        (&format!("{HEADER}\n{{\"type\":\"turn\",\"time\":1}}\n"), 2, "missing field `turn`"),
    ] {
        let problem = Recording::read(text).unwrap_err();
        assert_eq!(problem.line, line, "{problem}");
        assert!(problem.to_string().contains(part), "{problem}");
    }
}

proptest! {
    #[test]
    fn secret_texts_never_remain(secret in "\\PC{6,30}", before in "\\PC{0,8}", after in "\\PC{0,8}", depth in 0..3) {
        let redactor = redactor(&[&secret], &[]);
        let mut value = json!({"key": format!("{before}{secret}{after}"), "n": [1.5, true]});
        for _ in 0..depth {
            value = json!({"nested": value});
        }
        let line = value.to_string();
        let redacted = shown(&redactor, &line);
        prop_assert!(serde_json::from_str::<Value>(&redacted).is_ok(), "{}", redacted);
        prop_assert!(!redacted.contains(&serde_json::to_string(&secret).unwrap().trim_matches('"').to_owned()));
    }

    #[test]
    fn other_lines_are_unchanged(text in "[a-z {}:,\\[\\]\"0-9]{0,60}") {
        let redactor = redactor(&["CANARY"], &[]);
        prop_assert_eq!(shown(&redactor, &text), text);
    }
}

#[test]
fn prompt_ends_unfinished_cancelled_turn() {
    let call = |call: &str, turn: u64| json!({"time": 0, "type": "call", "call": call, "turn": turn});
    let message = |from: &str, message: Value| json!({"time": 0, "type": "message", "from": from, "message": message});
    let sdk =
        |id: &str, method: &str| message("sdk", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {}}));
    let agent = |id: &str, result: Value| message("agent", json!({"jsonrpc": "2.0", "id": id, "result": result}));
    let entries = [
        sdk("i", "initialize"),
        agent("i", json!({"protocol_version": "1.1", "server": {"name": "a", "version": "1"}, "slash_commands": []})),
        call("prompt", 1),
        sdk("p", "prompt"),
        call("cancel", 1),
        sdk("c", "cancel"),
        agent("c", json!({})),
        // The agent never answers the first prompt.
        call("prompt", 2),
        sdk("q", "prompt"),
        agent("q", json!({"status": "finished"})),
    ];
    let text: String = entries.iter().map(|entry| format!("{entry}\n")).collect();
    let events = Recording::read(&format!("{HEADER}\n{text}")).unwrap().events();
    let shown: Vec<_> = events.iter().map(|event| (event.turn, event.event.type_name())).collect();
    assert_eq!(shown, [(Some(1), "TurnEnd"), (Some(2), "TurnEnd")]);
}

#[test]
fn time_that_no_clock_has_is_ignored() {
    let entry = json!({"type": "call", "time": 1e19, "call": "close"});
    assert!(Recording::read(&format!("{HEADER}\n{entry}\n")).unwrap().events().is_empty());
}

#[test]
fn part_of_escape_is_not_part_of_secret() {
    let redactor = redactor(&["nabcdef", "00e9abc", "secret\\"], &[]);
    for line in [
        r#"{"a":"x\nabcdef"}"#,
        r#"{"a":"\u00e9abc"}"#,
        r#"{"a":"secret\""}"#,
        r#"{"a":"x\npm_0123456789abcdef"}"#,
        r#"{"a":"\bearer 0123456789"}"#,
    ] {
        assert_eq!(shown(&redactor, line), line);
    }
    assert_eq!(shown(&redactor, r#"{"a":"x\\nabcdef \n\nabcdef nabcdef"}"#), r#"{"a":"x\\*** \n\nabcdef ***"}"#);
    assert_eq!(shown(&redactor, r"not JSON: C:\nabcdef"), r"not JSON: C:\***");
}

#[test]
fn pattern_takes_whole_escapes() {
    for (pattern, line, expected) in [
        ("n+", r#"{"a":"x\ny"}"#, r#"{"a":"x***y"}"#),
        ("ab.", r#"{"a":"ab\"c"}"#, r#"{"a":"***c"}"#),
        ("ab..", r#"{"a":"ab\u00e9c"}"#, r#"{"a":"***c"}"#),
        ("0e", r#"{"a":"ab\u00e9c"}"#, r#"{"a":"ab***c"}"#),
        ("ab.{4}", r#"{"a":"ab\ud83d\ude00c"}"#, r#"{"a":"***c"}"#),
        (".ude", r#"{"a":"ab\ud83d\ude00c"}"#, r#"{"a":"ab***c"}"#),
        ("0c", r#"{"a":"ab\ud83d\ude00c"}"#, r#"{"a":"ab***"}"#),
        ("9", r#"{"a":"ab\u00e9\\u00e9"}"#, r#"{"a":"ab***\\u00e***"}"#),
    ] {
        assert_eq!(shown(&redactor(&[], &[pattern]), line), expected, "{pattern}");
    }
}

#[test]
fn further_spellings_of_secrets_are_masked() {
    let redactor = redactor(&["höflich-1", "a<b>&c/d-1", "123456", "Bearer", "sk-012"], &[]);
    let key = "sk-0123456789abcdefgh";
    for (line, expected) in [
        // Lines that begin like JSON.
        (format!("[INFO] token höflich-1 key {key} in /home/ada/x"), "[INFO] token *** key *** in {{home}}/x"),
        (format!("{{'python': 'höflich-1', {key}"), "{'python': '***', ***"),
        (r#"{"n":-123456}"#.to_owned(), r#"{"n":"***"}"#),
        (
            r#"{"a":"h\u00F6flich-1 h\\u00f6flich-1 a\u003cb\u003e\u0026c/d-1 a<b>&c\/d-1 \/home\/ada\/x"}"#.to_owned(),
            r#"{"a":"*** *** *** *** {{home}}\/x"}"#,
        ),
        (
            format!(r#"{{"a":"\u0000{key} \u0000/home/ada/x \u8def/home/ada/x \u0061/home/ada"}}"#),
            r#"{"a":"\u0000*** \u0000{{home}}/x 路{{home}}/x a/home/ada"}"#,
        ),
        (
            format!(r#"{{"a":"\u001b[1;31m/home/ada\u001b[0m \u001B[32m{key} ml/home/ada"}}"#),
            r#"{"a":"\u001b[1;31m{{home}}\u001b[0m \u001B[32m*** ml/home/ada"}"#,
        ),
        (
            r#"{"a":"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-DEF_1... Bearer abcdef0123456789"}"#.to_owned(),
            r#"{"a":"*** ***"}"#,
        ),
        (format!(r#"{{"a":"{key}"}}"#), r#"{"a":"***"}"#),
    ] {
        assert_eq!(shown(&redactor, &line), expected, "{line}");
    }
}

#[test]
fn entries_keep_their_own_words() {
    let words = ["header", "prompt", "12.125", "finished", "closed"];
    let (mut writer, mut file) = writer(redactor(&words, &[]));
    let arguments = serde_json::from_value(json!({"input": "a prompt"})).unwrap();
    writer.entry(&mut file, 12.125, Entry::Call(CallEntry { call: CallKind::Prompt, turn: Some(1), arguments }));
    let end = EndEntry { reason: EndReason::Closed, error: None, exit_code: None, signal: None };
    writer.entry(&mut file, 13.0, Entry::End(end));
    let recording = Recording::read(std::str::from_utf8(&file).unwrap()).unwrap();
    let Entry::Call(call) = &recording.entries[0].entry else { panic!("{:?}", recording.entries) };
    assert_eq!((call.call, &call.arguments["input"]), (CallKind::Prompt, &json!("a ***")));
}

#[test]
fn text_length_is_roughly_length_of_line() {
    for line in [
        r#"{"time":1,"type":"tool_result","id":"1","result":{"output":["abcdefghij","abcdefghij"],"n":1}}"#,
        r#"{"time":1,"type":"tool_call","id":"1","name":"t","arguments":{"a":"abcdefghij","b":{"c":"abcdefghij"}}}"#,
        r#"{"time":1,"type":"turn","turn":1,"result":{"text":"abcdefghij abcdefghij"}}"#,
        r#"{"time":1,"type":"decision","request":"1","kind":"question","by":"handler","answer":"abcdefghij abcdefghij","duration":1}"#,
        r#"{"time":1,"type":"end","reason":"failed","error":{"code":"c","message":"abcdefghij abcdefghij"}}"#,
    ] {
        let entries = Recording::read(&format!("{HEADER}\n{line}\n")).unwrap().entries;
        let length = entries[0].entry.text_length();
        assert!((20..=line.len()).contains(&length), "{length} {line}");
    }
}

#[test]
fn secret_with_escaped_letters_is_masked() {
    let redactor = Redactor::new(&[], [Cow::Borrowed("canary-secret-é")], &[]).unwrap();
    for spelled in [
        "c\\u0061nary-secret-é",
        "can\\u0061ry\\u002dsecret-\\u00e9",
        "{\\\"a\\\":\\\"c\\\\u0061nary-secret-\\\\u00e9\\\"}",
    ] {
        let line = format!(r#"{{"text":"{spelled}","other":"\\u0041"}}"#);
        assert!(serde_json::from_str::<serde_json::Value>(&line).is_ok(), "{line}");
        let shown = String::from_utf8(redactor.redacted(line.as_bytes()).into_owned()).unwrap();
        assert!(shown.contains(MASK) && !shown.contains("nary"), "{shown}");
    }
    let kept = r#"{"text":"the escape \\u0041 is A"}"#;
    assert_eq!(redactor.redacted(kept.as_bytes()), kept.as_bytes());
}

#[test]
fn secret_in_another_spelling_is_masked_in_entries() {
    let (mut writer, mut file) = writer(redactor(&["zq9-Hid\"den é"], &[]));
    for spelled in [
        r#"{\"x\":\"\u007a\u0071\u0039\u002d\u0048\u0069\u0064\u0022\u0064\u0065\u006e\u0020\u00e9\"}"#,
        r#"{"x":"\u007aq9-Hid\u0022den \u00e9"}"#,
        "%7A%71%39%2D%48%69%64%22%64%65%6E%20%C3%A9",
        "zq9-Hid%2522den%2520%25C3%25A9",
        "zq9-Hid&quot;den &#233;",
    ] {
        let arguments = serde_json::from_value(json!({"input": spelled})).unwrap();
        writer.entry(&mut file, 1.0, Entry::Call(CallEntry { call: CallKind::Prompt, turn: Some(1), arguments }));
        let update = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": spelled}});
        let line = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"update": update}}).to_string();
        writer.message(&mut file, 1.0, Side::Agent, line.as_bytes(), true);
    }
    writer.finish(&mut file);
    let lines: Vec<&str> = std::str::from_utf8(&file).unwrap().lines().skip(1).collect();
    assert_eq!(lines.len(), 10);
    for line in lines {
        assert!(
            line.contains(MASK) && !line.contains("den") && !line.contains("%48") && !line.contains("u0048"),
            "{line}"
        );
    }
}
