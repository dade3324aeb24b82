//! Turns whose model fails, as agents reported them (`tests/recorded/model-errors`).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Recorded {
    /// How the turn ends here.
    ends: String,
    /// The agent's messages during the turn, and its answer to the prompt.
    messages: Vec<Value>,
}

/// Returns how a turn ends: its status, or the code of its error, the HTTP status, and whether a retry can help.
fn end_of(agent: &str, recorded: &Recorded) -> String {
    let mut player = Player::new(params());
    player.hear(&initialized(json!({})).to_string().replace("fake", agent));
    player.hear(&answer(1, json!({"sessionId": "s"})));
    player.connection.prompt(1, "Hello".into(), player.now);
    for message in &recorded.messages {
        player.hear(&message.to_string());
    }
    if let Some(deadline) = player.connection.poll_timeout() {
        player.connection.handle_timeout(deadline);
        player.look();
    }
    match &player.failed {
        Some(error) => {
            let status = match error {
                Error::Rpc(error) => error.status(),
                _ => None,
            };
            let retry = if error.is_retryable() { "retryable" } else { "final" };
            format!("{} {} {retry}", error.code(), status.map_or_else(|| "-".to_owned(), |status| status.to_string()))
        }
        None => {
            let end = player.trace.iter().rev().find_map(|line| line.strip_prefix("turn ")).expect("an end");
            end.split(' ').next().unwrap_or_default().to_owned()
        }
    }
}

#[test]
fn recorded_errors_of_models_are_typed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded/model-errors");
    let mut wrong = Vec::new();
    let mut count = 0;
    for file in std::fs::read_dir(folder).expect("the recordings") {
        let path = file.expect("a file").path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a recording");
        let cases: BTreeMap<String, Recorded> = serde_json::from_str(&text).expect("cases");
        let agent = path.file_stem().expect("a name").to_string_lossy().into_owned();
        for (case, recorded) in cases {
            let end = end_of(&agent, &recorded);
            count += 1;
            if end != recorded.ends {
                wrong.push(format!("{agent} {case}: {end}, expected {}", recorded.ends));
            }
        }
    }
    assert!(wrong.is_empty() && count > 50, "{count} cases\n{}", wrong.join("\n"));
}
