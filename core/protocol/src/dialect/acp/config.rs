//! The options of a session that its client may set: the model, thinking, the mode and others.
//!
//! Agents list them as `configOptions`. Older agents have `modes` and `models` instead, which are made into options here.

use std::sync::Arc;

use agent_client_protocol_schema::v1 as acp;
use serde_json::{Value, json};

use super::{Acp, Asked};
use crate::dialect::{ConfigChoice, ConfigOption, ConfigValue, Incoming};
use crate::error::{Result, invalid_option};
use crate::json::{object, parsed_object};
use crate::messages::{Json, StatusUpdate};
use crate::spelling::nearest;

const PLAN: &str = "plan";
const MODE: &str = "mode";
const MODEL: &str = "model";
const THOUGHT_LEVEL: &str = "thought_level";

/// The options of a session.
#[derive(Debug, Default)]
pub(super) struct Config {
    options: Arc<Vec<ConfigOption>>,
    /// The options that have a call of their own.
    own_calls: Vec<OwnCall>,
    /// The current mode, if the agent has named it.
    mode: Option<String>,
    /// The mode that follows plan mode.
    normal: Option<String>,
}

/// The call with which an older agent sets an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OwnCall {
    option: &'static str,
    method: &'static str,
    value: &'static str,
}

const SET_MODE: OwnCall = OwnCall { option: MODE, method: "session/set_mode", value: "modeId" };
const SET_MODEL: OwnCall = OwnCall { option: MODEL, method: "session/set_model", value: "modelId" };

/// An option and its new value, while the call that sets it is under way.
#[derive(Debug)]
pub(super) struct Setting {
    option: String,
    value: ConfigValue,
}

impl Config {
    /// Reads the options of a session from `configOptions`, `modes` and `models`. What cannot be read is left out.
    pub(super) fn new(options: &[Value], modes: Option<&Value>, models: Option<&Value>) -> Self {
        let mut all: Vec<_> = options.iter().filter_map(read).collect();
        let mut own_calls = Vec::new();
        let modes = modes.filter(|_| !all.iter().any(is_mode));
        if let Some(modes) =
            modes.and_then(|modes| own_option(MODE, "Mode", modes, "currentModeId", "availableModes", "id"))
        {
            all.push(modes);
            own_calls.push(SET_MODE);
        }
        let models = models.filter(|_| !all.iter().any(|option| is(option, MODEL)));
        let models = models
            .and_then(|models| own_option(MODEL, "Model", models, "currentModelId", "availableModels", "modelId"));
        if let Some(models) = models {
            all.push(models);
            own_calls.push(SET_MODEL);
        }
        let mut config = Self { options: Arc::new(all), own_calls, ..Self::default() };
        config.note_mode();
        config
    }

    pub(super) fn options(&self) -> &Arc<Vec<ConfigOption>> {
        &self.options
    }

    /// Returns the option of this category, for example `model`.
    fn of(&self, category: &str) -> Option<&ConfigOption> {
        self.options.iter().find(|option| is(option, category))
    }

    pub(super) fn model(&self) -> Option<&ConfigOption> {
        self.of(MODEL)
    }

    /// Returns the problem of a model that is not in the agent's list of models.
    pub(super) fn unknown_model(&self, model: &str) -> Option<String> {
        let values = || self.model().into_iter().flat_map(|option| &option.choices).map(|choice| &*choice.value);
        let is_unknown = values().next().is_some() && !values().any(|value| value == model);
        is_unknown.then(|| format!("the agent has no model {}", meant(model, values)))
    }

    /// Returns the option that turns thinking on or off, and its new value.
    pub(super) fn thinking(&self, on: bool) -> Option<(&ConfigOption, ConfigValue)> {
        let option = self.of(THOUGHT_LEVEL)?;
        let ConfigValue::Text(current) = &option.value else { return Some((option, ConfigValue::Bool(on))) };
        let is_off = |value: &str| matches!(value, "off" | "none");
        let mut values = option.choices.iter().map(|choice| &*choice.value);
        let value = if !on {
            values.find(|value| is_off(value))?
        } else if is_off(current) || current.is_empty() {
            // The agent's configuration has no level to use, so the first level above "none" is used.
            values.find(|value| !is_off(value))?
        } else {
            current
        };
        Some((option, value.into()))
    }

    pub(super) fn has_plan(&self) -> bool {
        self.plan_option().is_some()
    }

    fn plan_option(&self) -> Option<&ConfigOption> {
        let has_plan = |option: &&ConfigOption| option.choices.iter().any(|choice| choice.value == PLAN);
        self.options.iter().find(|option| is_mode(option)).filter(has_plan).filter(|option| option.choices.len() > 1)
    }

    /// Returns the option that switches plan mode, and its new value. `None` if the agent has no plan mode.
    pub(super) fn for_plan(&self, on: bool) -> Option<(String, ConfigValue)> {
        let option = self.plan_option()?;
        let other = || option.choices.iter().map(|choice| &*choice.value).find(|mode| *mode != PLAN);
        let mode = if on { Some(PLAN) } else { self.normal.as_deref().or_else(other) };
        Some((option.id.clone(), mode?.into()))
    }

    pub(super) fn in_plan(&self) -> bool {
        self.mode.as_deref() == Some(PLAN)
    }

    /// Adopts the agent's current mode. Returns whether the mode has changed.
    pub(super) fn enter(&mut self, mode: &str) -> bool {
        if mode != PLAN {
            self.normal = Some(mode.to_owned());
        }
        let is_new = self.mode.as_deref() != Some(mode);
        self.mode = Some(mode.to_owned());
        is_new
    }

    /// Returns whether the agent has named its mode.
    pub(super) fn has_mode(&self) -> bool {
        self.mode.is_some()
    }

    /// Adopts the mode from the options. Returns whether the mode has changed.
    fn note_mode(&mut self) -> bool {
        let option = self.options.iter().find(|option| is_mode(option));
        match option.map(|option| option.value.clone()) {
            Some(ConfigValue::Text(mode)) if !mode.is_empty() => self.enter(&mode),
            _ => false,
        }
    }

    /// Sets the value of an option as the agent has set it.
    fn set_value(&mut self, is_meant: impl Fn(&ConfigOption) -> bool, value: &ConfigValue) {
        let place = self.options.iter().position(|option| is_meant(option) && option.value != *value);
        if let Some(place) = place
            && let Some(option) = Arc::make_mut(&mut self.options).get_mut(place)
        {
            option.value = value.clone();
        }
    }

    /// Adopts the agent's new list. Options with a call of their own are not in the list.
    fn replace(&mut self, options: &[Value]) {
        let mut all: Vec<_> = options.iter().filter_map(read).collect();
        self.own_calls.retain(|call| !all.iter().any(|option| option.id == call.option));
        let own = |option: &&ConfigOption| self.own_calls.iter().any(|call| call.option == option.id);
        all.extend(self.options.iter().filter(own).cloned());
        if *self.options != all {
            self.options = Arc::new(all);
        }
    }

    /// Refuses an option that the agent does not have, and a value that the option does not have.
    pub(super) fn check(&self, id: &str, value: &ConfigValue) -> Result<()> {
        let Some(option) = self.options.iter().find(|option| option.id == id) else {
            let ids = || self.options.iter().map(|option| &*option.id);
            let problem = format!("the agent has no option {}", meant(id, ids));
            return Err(invalid_option("id", problem));
        };
        match (&option.value, value) {
            (ConfigValue::Bool(_), ConfigValue::Bool(_)) => Ok(()),
            (ConfigValue::Bool(_), ConfigValue::Text(text)) => {
                Err(invalid_option("value", format!("`{id}` is on or off: expected a boolean, got \"{text}\"")))
            }
            (ConfigValue::Text(_), ConfigValue::Text(text)) => {
                let values = || option.choices.iter().map(|choice| &*choice.value);
                if option.choices.is_empty() || values().any(|value| value == text) {
                    return Ok(());
                }
                Err(invalid_option("value", format!("`{id}` has no value {}", meant(text, values))))
            }
            (ConfigValue::Text(_), ConfigValue::Bool(on)) => {
                let values = listed(option.choices.iter().map(|choice| &*choice.value));
                Err(invalid_option("value", format!("`{id}` is set to a text, got {on}; the values are {values}")))
            }
        }
    }

    /// Returns the method and the parameters of the call that sets an option.
    pub(super) fn call(&self, session: &acp::SessionId, id: &str, value: &ConfigValue) -> (&'static str, Value) {
        let mut params = json!({"sessionId": session});
        if let Some(own) = self.own_calls.iter().find(|own| own.option == id) {
            params[own.value] = json!(value);
            return (own.method, params);
        }
        params["configId"] = json!(id);
        params["value"] = json!(value);
        if let ConfigValue::Bool(_) = value {
            params["type"] = json!("boolean");
        }
        ("session/set_config_option", params)
    }
}

/// The limit of names that an error lists.
const MAX_LISTED: usize = 20;

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<_> = names.map(|name| format!("\"{name}\"")).collect();
    if names.len() > MAX_LISTED {
        let more = names.len() - MAX_LISTED;
        names.truncate(MAX_LISTED);
        names.push(format!("{more} more"));
    }
    names.join(", ")
}

/// Returns the unknown name, the known names, and the name that may have been meant.
fn meant<'a, I: Iterator<Item = &'a str>>(given: &str, known: impl Fn() -> I) -> String {
    let suggestion = nearest(given, known().map(|name| (name, name)));
    let suggestion = suggestion.map_or_else(String::new, |name| format!("; did you mean \"{name}\"?"));
    format!("\"{given}\"; expected one of {}{suggestion}", listed(known()))
}

fn is(option: &ConfigOption, category: &str) -> bool {
    option.category.as_deref() == Some(category)
}

fn is_mode(option: &ConfigOption) -> bool {
    matches!(option.value, ConfigValue::Text(_)) && (is(option, MODE) || option.id == MODE)
}

fn text(value: &Value, name: &str) -> Option<String> {
    value.get(name)?.as_str().map(str::to_owned)
}

fn left_out(field: &str, value: &Value) {
    let shown: String = value.to_string().chars().take(80).collect();
    tracing::debug!(field, value = shown, "unreadable optional field left out");
}

/// Reads a choice, whose value is the member with the name `key`.
fn choice(listed: &Value, key: &str) -> Option<ConfigChoice> {
    let Some(value) = text(listed, key) else {
        left_out("option of a choice", listed);
        return None;
    };
    let name = text(listed, "name").unwrap_or_else(|| value.clone());
    Some(ConfigChoice { name, description: text(listed, "description"), value })
}

/// Reads the modes or models of an older agent as an option.
fn own_option(id: &str, name: &str, state: &Value, current: &str, available: &str, key: &str) -> Option<ConfigOption> {
    let Some(listed) = state.get(available).and_then(Value::as_array) else {
        if !state.is_null() {
            left_out(available, state);
        }
        return None;
    };
    let choices: Vec<_> = listed.iter().filter_map(|listed| choice(listed, key)).collect();
    let value = text(state, current);
    if value.is_none() {
        left_out(current, state.get(current).unwrap_or(&Value::Null));
    }
    let [id, category] = [id; 2].map(str::to_owned);
    let value = ConfigValue::Text(value.unwrap_or_default());
    Some(ConfigOption { id, name: name.to_owned(), description: None, category: Some(category), value, choices })
}

/// Returns the options that an update or an answer lists. `None` if it lists none.
pub(super) fn listed_in(message: &str) -> Option<Vec<Value>> {
    match parsed_object(message)?.remove("configOptions")? {
        Value::Array(options) => Some(options),
        other => {
            left_out("configOptions", &other);
            None
        }
    }
}

/// Reads an option. `None` if it has no id, or if its kind is unknown.
fn read(option: &Value) -> Option<ConfigOption> {
    let current = option.get("currentValue");
    let listed = option.get("options").and_then(Value::as_array);
    let kind = text(option, "type").unwrap_or_else(|| if listed.is_some() { "select" } else { "boolean" }.to_owned());
    let (value, choices) = match (&*kind, current) {
        ("boolean", Some(Value::Bool(on))) => (ConfigValue::Bool(*on), Vec::new()),
        ("select", current) => {
            let mut choices = Vec::new();
            for item in listed.into_iter().flatten() {
                match item.get("options").and_then(Value::as_array) {
                    Some(group) => choices.extend(group.iter().filter_map(|listed| choice(listed, "value"))),
                    None => choices.extend(choice(item, "value")),
                }
            }
            (ConfigValue::Text(current.and_then(Value::as_str).unwrap_or_default().to_owned()), choices)
        }
        _ => {
            left_out("configOptions", option);
            return None;
        }
    };
    let Some(id) = text(option, "id") else {
        left_out("configOptions", option);
        return None;
    };
    Some(ConfigOption {
        name: text(option, "name").unwrap_or_else(|| id.clone()),
        description: text(option, "description"),
        category: text(option, "category"),
        id,
        value,
        choices,
    })
}

impl Acp {
    /// Returns the bytes of the call that sets an option.
    pub(super) fn set_option(&mut self, id: &str, option: &str, value: &ConfigValue) -> Result<Vec<u8>> {
        let (method, params) = self.config.call(&self.session()?, option, value);
        let setting = Setting { option: option.to_owned(), value: value.clone() };
        Ok(self.send_call(method, &params, Asked { sets: Some(setting), ..Asked::of(id) }))
    }

    /// Handles the agent's answer that an option is set.
    pub(super) fn option_set(&mut self, setting: &Setting, answer: &Json, all: &mut Vec<Incoming>) {
        let before = Arc::clone(self.config.options());
        match listed_in(answer.get()) {
            Some(options) => self.config.replace(&options),
            // An older agent does not return the options.
            None => self.config.set_value(|option| option.id == setting.option, &setting.value),
        }
        let has_entered = self.config.note_mode();
        self.report_config(&before, has_entered, all);
    }

    /// Handles a new list of options.
    pub(super) fn options_listed(&mut self, options: &[Value], all: &mut Vec<Incoming>) {
        if self.is_subagent() {
            return;
        }
        let before = Arc::clone(self.config.options());
        self.config.replace(options);
        let has_entered = self.config.note_mode();
        self.report_config(&before, has_entered, all);
    }

    /// Keeps the mode that the agent enters before its answer about the session, which may name another one.
    pub(super) fn mode_entered_early(&mut self, update: &str) -> Incoming {
        if let Ok(acp::CurrentModeUpdate { current_mode_id: mode, .. }) = object(update) {
            self.early_mode = Some((*mode.0).into());
        }
        Incoming::Batch(Vec::new())
    }

    /// Reports the mode that the agent has entered before its answer about the session, if the answer names none.
    pub(super) fn report_early_mode(&self, answer: &Json, all: &mut Vec<Incoming>) {
        let Some(mode) = &self.early_mode else { return };
        let options = listed_in(answer.get()).unwrap_or_default();
        let modes = answer.to_value().get("modes").cloned();
        let mut config = Config::new(&options, modes.as_ref(), None);
        if !config.has_mode() {
            config.enter(mode);
            let plan_mode = Some(config.in_plan());
            all.push(Incoming::out_of_turn(StatusUpdate { plan_mode, ..StatusUpdate::unchanged() }));
        }
    }

    /// Handles a change of the agent's mode.
    pub(super) fn mode_entered(&mut self, mode: &str, all: &mut Vec<Incoming>) {
        if self.is_subagent() {
            return;
        }
        let before = Arc::clone(self.config.options());
        self.config.set_value(is_mode, &mode.into());
        self.config.enter(mode);
        self.report_config(&before, true, all);
    }

    fn report_config(&self, before: &Arc<Vec<ConfigOption>>, has_entered: bool, all: &mut Vec<Incoming>) {
        let options = self.config.options();
        if before != options {
            all.push(Incoming::ConfigOptions(Arc::clone(options)));
        }
        if has_entered {
            let plan_mode = Some(self.config.in_plan());
            all.push(Incoming::out_of_turn(StatusUpdate { plan_mode, ..StatusUpdate::unchanged() }));
        }
    }
}
