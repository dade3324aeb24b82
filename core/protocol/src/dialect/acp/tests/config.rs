//! The options of a session that can be set while it is open.

use super::*;
use crate::dialect::{ConfigOption, ConfigValue};

fn select(id: &str, category: &str, current: &str, values: &[&str]) -> Value {
    let options: Vec<_> = values.iter().map(|value| json!({"value": value, "name": value})).collect();
    json!({"type": "select", "id": id, "name": id, "category": category, "currentValue": current, "options": options})
}

fn listed(model: &str, mode: &str) -> Value {
    json!([
        select("m", "model", model, &["small", "big"]),
        select("mode", "mode", mode, &["default", "plan"]),
        {"type": "boolean", "id": "fast", "name": "Fast", "currentValue": false},
    ])
}

impl Player {
    fn set(&mut self, id: &str, value: impl Into<ConfigValue>) -> Result<Value> {
        self.connection.set_config_option(id.to_owned(), value.into(), self.now)?;
        self.look();
        Ok(self.sent().remove(0))
    }

    fn values(&self) -> Vec<(String, ConfigValue)> {
        let options: &[ConfigOption] = self.options.as_deref().map_or(&[], Vec::as_slice);
        options.iter().map(|option| (option.id.clone(), option.value.clone())).collect()
    }
}

fn values(model: &str, mode: &str) -> Vec<(String, ConfigValue)> {
    vec![("m".into(), model.into()), ("mode".into(), mode.into()), ("fast".into(), false.into())]
}

#[test]
fn config_options_are_listed_and_updated() {
    let mut player = open(json!({"sessionId": "s", "configOptions": listed("small", "default")}));
    assert_eq!(player.values(), values("small", "default"));
    let options = player.options.clone().expect("options");
    let choices: Vec<_> = options[0].choices.iter().map(|choice| &*choice.value).collect();
    assert_eq!((options[0].category.as_deref(), choices), (Some("model"), vec!["small", "big"]));
    assert!(options[2].category.is_none() && options[2].choices.is_empty());

    let sent = player.set("m", "big").expect("sent");
    assert_eq!(sent["method"], "session/set_config_option");
    assert_eq!(sent["params"], json!({"sessionId": "s", "configId": "m", "value": "big"}));
    player.hear(&answer(2, json!({"configOptions": listed("big", "default")})));
    assert_eq!(
        (player.values(), std::mem::take(&mut player.trace)),
        (values("big", "default"), vec!["call ok".into()])
    );

    let sent = player.set("fast", true).expect("sent");
    assert_eq!(sent["params"], json!({"sessionId": "s", "configId": "fast", "value": true, "type": "boolean"}));

    // The agent changes them by itself.
    player.hear(&update(json!({"sessionUpdate": "config_option_update", "configOptions": listed("small", "plan")})));
    assert_eq!(player.values(), values("small", "plan"));
    player.hear(&update(json!({"sessionUpdate": "current_mode_update", "currentModeId": "default"})));
    assert_eq!(player.values(), values("small", "default"));
    let plan_mode = |on: bool| format!("outside: status {{\"plan_mode\":{on}}}");
    assert_eq!(player.trace, [plan_mode(true), "outside: unknown config_option_update".to_owned(), plan_mode(false)]);
}

#[test]
fn plan_mode_from_answer_is_reported() {
    let mut player = open(json!({"sessionId": "s", "configOptions": listed("small", "default")}));
    player.connection.set_plan_mode(true, player.now).expect("sent");
    player.look();
    player.hear(&answer(2, json!({"configOptions": listed("small", "plan")})));
    assert_eq!(player.trace, [r#"outside: status {"plan_mode":true}"#, "call ok"]);
}

#[test]
fn unknown_config_option_error_lists_known_ones() {
    let mut player = open(json!({"sessionId": "s", "configOptions": listed("small", "default")}));
    let mut error = |id: &str, value: ConfigValue| {
        let error = player.set(id, value).expect_err("refused");
        assert_eq!(error.code(), "invalid_option");
        error.to_string()
    };
    assert_eq!(
        error("mod", "plan".into()),
        "invalid option `id`: the agent has no option \"mod\"; expected one of \"m\", \"mode\", \"fast\"; did you mean \"mode\"?"
    );
    assert_eq!(
        error("m", "huge".into()),
        "invalid option `value`: `m` has no value \"huge\"; expected one of \"small\", \"big\""
    );
    assert!(error("fast", "on".into()).ends_with("`fast` is on or off: expected a boolean, got \"on\""));
    assert!(error("m", true.into()).ends_with("is set to a text, got true; the values are \"small\", \"big\""));
    assert!(player.sent().is_empty());
    let error = open(json!({"sessionId": "s"})).set("m", "big").expect_err("refused");
    assert_eq!(
        error.to_string(),
        "fake 1 (ACP 1) does not support `set_config_option`; check `session.capabilities.config_options` before"
    );
}

#[test]
fn unknown_model_error_lists_known_models() {
    let refused = |model: &str, options: Value, code: i64| {
        let mut player = Player::new(SessionParams { model: Some(model.into()), ..params() });
        player.hear(&initialized(json!({})).to_string());
        player.hear(&answer(1, json!({"sessionId": "s", "configOptions": options})));
        let error = json!({"code": code, "message": "Internal error", "data": {"details": "no such model"}});
        player.hear(&json!({"jsonrpc": "2.0", "id": 2, "error": error}).to_string());
        player.trace.remove(0)
    };
    let expected = "not opened: invalid_option: invalid option `model`: the agent has no model \"bigg\"; expected one of \"small\", \
                    \"big\"; did you mean \"big\"?";
    for code in [-32603, -32602] {
        let text = refused("bigg", listed("small", "default"), code);
        assert!(
            text.starts_with(expected) && text.contains("it says: ") && text.ends_with(&format!("({code})")),
            "{text}"
        );
    }
    // The agent has another reason, or has not listed its models.
    for options in [listed("small", "default"), json!([select("m", "model", "small", &[])])] {
        let text = refused("big", options, -32603);
        assert!(text.starts_with("not opened: rpc_error: "), "{text}");
    }
    let text = refused("bigg", listed("small", "default"), -32000);
    assert!(text.starts_with("not opened: auth_expired: "), "{text}");
}

#[test]
fn older_mode_and_model_become_options() {
    let modes = json!({"currentModeId": "default", "availableModes": [
        {"id": "default", "name": "Default"}, {"id": "plan", "name": "Plan"}]});
    let models = json!({"currentModelId": "a", "availableModels": [
        {"modelId": "a", "name": "A"}, {"modelId": "b", "name": "B", "description": "Best"}]});
    let mut player = open(json!({"sessionId": "s", "modes": modes, "models": models}));
    let expected = |mode: &str, model: &str| vec![("mode".into(), mode.into()), ("model".into(), model.into())];
    assert_eq!(player.values(), expected("default", "a"));
    let sent = player.set("model", "b").expect("sent");
    assert_eq!(
        (&sent["method"], &sent["params"]),
        (&json!("session/set_model"), &json!({"sessionId": "s", "modelId": "b"}))
    );
    player.hear(&answer(2, json!({})));
    let sent = player.set("mode", "plan").expect("sent");
    assert_eq!(
        (&sent["method"], &sent["params"]),
        (&json!("session/set_mode"), &json!({"sessionId": "s", "modeId": "plan"}))
    );
    player.hear(&answer(3, json!({})));
    assert_eq!(player.values(), expected("plan", "b"));
    assert_eq!(player.trace, ["call ok", r#"outside: status {"plan_mode":true}"#, "call ok"]);
}

#[test]
fn refused_config_value_keeps_old_value() {
    let mut player = open(json!({"sessionId": "s", "configOptions": listed("small", "default")}));
    player.set("m", "big").expect("sent");
    player.hear(&json!({"jsonrpc": "2.0", "id": 2, "error": {"code": -32603, "message": "no"}}).to_string());
    assert_eq!((player.values(), player.trace), (values("small", "default"), vec!["call rpc_error".to_owned()]));
}

#[test]
fn timed_out_call_sends_cancel_request() {
    let mut player = open(json!({"sessionId": "s", "configOptions": listed("small", "default")}));
    assert_eq!(player.set("m", "big").expect("sent")["id"], 2);
    player.now += 2 * MINUTE;
    player.connection.handle_timeout(player.now);
    player.look();
    let expected = json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 2}});
    assert_eq!((player.sent(), std::mem::take(&mut player.trace)), (vec![expected], vec!["call timeout".to_owned()]));
    // The agent's answer to that changes nothing more for the program.
    player.hear(&json!({"jsonrpc": "2.0", "id": 2, "error": {"code": -32800, "message": "cancelled"}}).to_string());
    assert_eq!((player.values(), player.trace.len()), (values("small", "default"), 0));
}

#[test]
fn notice_is_outside_steps_and_replay() {
    let notice = update(json!({"sessionUpdate": "notice", "severity": "warning", "title": "Slow down"}));
    let mut player = prompted();
    player.hear(&notice);
    assert_eq!(player.trace, ["unknown notice"]);
    let mut player = Player::new(SessionParams { session_id: Some("s".into()), ..params() });
    player.hear(&initialized(json!({"loadSession": true})).to_string());
    player.hear(&notice);
    assert_eq!(player.trace, ["outside: unknown notice"]);
}
