//! The login: the ways that an agent offers, and the option `auth`, which selects one of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::one_off::Question;
use super::opening::{self, NAME, Stage};
use super::{Acp, failure};
use crate::dialect::{InitializeParams, agent_name};
use crate::error::{Error, Result, RpcError, RpcErrorKind, invalid_option};
use crate::json::object;
use crate::jsonrpc::RpcFailure;
use crate::messages::Json;

/// The kind of a way that the agent runs itself, when the SDK calls `authenticate`.
const AGENT: &str = "agent";
/// The kind of a way that needs a person at a terminal.
const TERMINAL: &str = "terminal";
/// The kind of a way that needs variables, which the way names.
const VARIABLES: &str = "env_var";
/// The limit of the ways that are read.
const MAX_WAYS: usize = 64;

/// Variables with a key, by the id of the way: those of Gemini CLI, Qwen Code and earlier releases of codex-acp.
const KEYS_BY_ID: [(&str, &[&str]); 5] = [
    ("codex-api-key", &["CODEX_API_KEY"]),
    ("gemini-api-key", &["GEMINI_API_KEY"]),
    ("openai", &["OPENAI_API_KEY"]),
    ("openai-api-key", &["OPENAI_API_KEY"]),
    ("vertex-ai", &["GOOGLE_API_KEY"]),
];
/// Variables with a key, by the provider in `_meta` of the way, as Codex (codex-acp 2.6.0) and Gemini CLI (0.61.0) name it.
const KEYS_BY_PROVIDER: [(&str, &[&str]); 3] = [
    ("anthropic", &["ANTHROPIC_API_KEY"]),
    ("google", &["GEMINI_API_KEY"]),
    ("openai", &["CODEX_API_KEY", "OPENAI_API_KEY"]),
];

/// A way to log in that an agent offers.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// fn report(error: &kimi_agent::Error) {
///     if let kimi_agent::Error::Rpc(answer) = error {
///         for method in &*answer.methods {
///             println!("{} ({}): {}", method.id, method.kind, method.name);
///         }
///     }
/// }
/// # report(&kimi_agent::Error::session_closed());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AuthMethod {
    /// The id. The option `auth` takes it.
    pub id: String,
    /// The name, for people.
    pub name: String,
    /// The description, if the agent sends one.
    pub description: Option<String>,
    /// The kind: `agent` if the agent logs in itself, `terminal` if a person logs in at a terminal, `env_var` if the agent
    /// needs variables. Other words are possible.
    pub kind: String,
}

/// A way to log in, with what only the SDK needs of it.
#[derive(Clone, Debug, PartialEq)]
pub struct LoginWay {
    /// The part that programs see.
    pub method: AuthMethod,
    /// The arguments of the agent's program for a login in a terminal, after its own.
    pub args: Vec<String>,
    /// The variables of the agent's program for a login in a terminal.
    pub env: BTreeMap<String, String>,
    /// Variables with a key. One of each list is needed.
    keys: Vec<Vec<String>>,
}

impl LoginWay {
    /// Returns whether a person logs in with the agent's program in a terminal.
    pub fn needs_terminal(&self) -> bool {
        self.method.kind == TERMINAL
    }

    /// Reads a way. `None` if it has no id, or is one for a terminal that cannot be run.
    fn read(way: &Value) -> Option<Self> {
        let text = |name: &str| way[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let id = text("id")?;
        let kind = text("type").unwrap_or_else(|| AGENT.to_owned());
        let (mut args, mut env) = (Vec::new(), BTreeMap::new());
        if kind == TERMINAL {
            args = serde_json::from_value::<Option<_>>(way["args"].clone()).ok()?.unwrap_or_default();
            env = serde_json::from_value::<Option<_>>(way["env"].clone()).ok()?.unwrap_or_default();
        }
        let keys = if kind == VARIABLES { needed_variables(way) } else { key_variables(&id, way) };
        let method =
            AuthMethod { name: text("name").unwrap_or_else(|| id.clone()), description: text("description"), id, kind };
        Some(Self { method, args, env, keys })
    }
}

/// Returns the variables that a way names itself. An optional one is not needed.
fn needed_variables(way: &Value) -> Vec<Vec<String>> {
    let variables = way["vars"].as_array().into_iter().flatten();
    let needed = variables.filter(|variable| variable["optional"] != true);
    needed.filter_map(|variable| variable["name"].as_str()).map(|name| vec![name.to_owned()]).collect()
}

/// Returns the variables of which one has the key that a known way needs.
fn key_variables(id: &str, way: &Value) -> Vec<Vec<String>> {
    let provider = way["_meta"]["api-key"]["provider"].as_str();
    let of_id = KEYS_BY_ID.iter().filter(|(known, _)| *known == id);
    let of_provider = KEYS_BY_PROVIDER.iter().filter(|(known, _)| Some(*known) == provider);
    let mut names: Vec<String> = Vec::new();
    for name in of_id.chain(of_provider).flat_map(|(_, names)| *names) {
        if !names.iter().any(|known| known == name) {
            names.push((*name).to_owned());
        }
    }
    if names.is_empty() { Vec::new() } else { vec![names] }
}

/// Makes the call whose answer has the ways to log in.
pub fn login_question(hello: &InitializeParams) -> Question {
    ("initialize", json!(opening::initialize_request(hello)))
}

/// Reads the ways to log in from the outcome of [`login_question`].
///
/// # Errors
/// The agent's error.
pub fn login_ways(outcome: std::result::Result<Json, RpcFailure>) -> Result<Vec<LoginWay>> {
    match outcome {
        Ok(answer) => Ok(ways_of(&answer)),
        Err(failure) => Err(Error::Rpc(RpcError::of_answer(RpcErrorKind::Other, failure::with_details(failure)))),
    }
}

/// Reads the ways to log in from the answer to `initialize`. Those that cannot be read are left out.
pub(super) fn ways_of(answer: &Json) -> Vec<LoginWay> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Answer {
        auth_methods: Value,
    }
    let answer: Answer = object(answer.get()).unwrap_or_default();
    let ways = answer.auth_methods.as_array().into_iter().flatten();
    ways.filter_map(LoginWay::read).take(MAX_WAYS).collect()
}

/// Returns the part of the ways that programs see.
pub(super) fn shown(ways: &[LoginWay]) -> Arc<Vec<AuthMethod>> {
    Arc::new(ways.iter().map(|way| way.method.clone()).collect())
}

/// How a session logs in.
#[derive(Clone, Debug, Default)]
pub struct Login {
    /// The option `auth`. `None`: never.
    pub auth: Option<String>,
    /// The names of the variables that the program has set, with a value, in `env`.
    pub variables: Vec<String>,
}

impl Login {
    /// Returns the id of the way to use when the agent asks for a login. `None`: there is none. `agent` is its name.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if the option names a way that the agent does not offer, or that needs a terminal.
    pub(super) fn select(&self, ways: &[LoginWay], agent: &str) -> Result<Option<String>> {
        let Some(auth) = &self.auth else { return Ok(None) };
        if auth == "auto" {
            let found = ways.iter().find(|way| !way.needs_terminal() && !way.keys.is_empty() && self.has_keys(way));
            return Ok(found.map(|way| way.method.id.clone()));
        }
        let Some(way) = ways.iter().find(|way| way.method.id == *auth) else {
            let known: Vec<_> = ways.iter().map(|way| format!("{:?}", way.method.id)).collect();
            let known = match &*known {
                [] => format!("{agent} offers no way to log in"),
                known => format!("{agent} offers {}", known.join(", ")),
            };
            return Err(invalid_option(
                "auth",
                format!("expected \"none\", \"auto\" or the id of a way to log in, got {auth:?}; {known}"),
            ));
        };
        if way.needs_terminal() {
            return Err(invalid_option(
                "auth",
                format!(
                    "with {auth:?} a person logs in at a terminal; run `kimi-agent login` with this agent once, and leave the option \
                     out"
                ),
            ));
        }
        Ok(Some(auth.clone()))
    }

    fn has_keys(&self, way: &LoginWay) -> bool {
        way.keys.iter().all(|names| names.iter().any(|name| self.variables.contains(name)))
    }

    /// Returns what the program can change, if the agent asked for a login and got none.
    fn advice(&self, ways: &[LoginWay]) -> Option<String> {
        let ready = ways.iter().find(|way| !way.needs_terminal() && !way.keys.is_empty() && self.has_keys(way));
        match (self.auth.as_deref(), ready) {
            (None, Some(way)) => {
                Some(format!("set `auth` to \"auto\": `env` has the key for the way {:?}", way.method.id))
            }
            (Some("auto"), None) => {
                let mut names: Vec<&str> =
                    ways.iter().flat_map(|way| &way.keys).flatten().map(String::as_str).collect();
                names.sort_unstable();
                names.dedup();
                let set = match &*names {
                    [] => "set `auth` to the id of a way".to_owned(),
                    names => format!("set one of these in `env`: {}", names.join(", ")),
                };
                Some(format!("`auth` is \"auto\", and `env` has no key for a way that the SDK knows; {set}"))
            }
            _ => None,
        }
    }
}

/// A login that happens when the agent asks for it, and the request that opens the session, which is then sent again.
pub(super) struct PreparedLogin {
    pub(super) way: String,
    pub(super) method: &'static str,
    pub(super) params: Value,
}

impl std::fmt::Debug for PreparedLogin {
    /// Leaves out the parameters, whose servers may have secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PreparedLogin").field("way", &self.way).field("method", &self.method).finish_non_exhaustive()
    }
}

impl Acp {
    /// Reads the ways that the agent offers. Returns the id of the way for when the agent asks for a login.
    pub(super) fn read_login_ways(&mut self, answer: &Json) -> Result<Option<String>> {
        let ways = ways_of(answer);
        self.auth_methods = shown(&ways);
        let selected = self.params.login.select(&ways, &agent_name(self.server.as_ref(), NAME));
        self.login_advice = self.params.login.advice(&ways).map(Box::from);
        selected
    }

    /// Calls `authenticate`, once.
    pub(super) fn log_in(&mut self, id: &str) -> Option<Vec<u8>> {
        let prepared = self.login.take()?;
        let params = json!({"methodId": prepared.way});
        self.stage = Stage::Login(prepared);
        Some(self.request(id, "authenticate", &params))
    }

    /// Sends the request that opens the session again.
    pub(super) fn open_again(&mut self, id: &str) -> Option<Vec<u8>> {
        let Stage::Login(prepared) = std::mem::replace(&mut self.stage, Stage::Session) else { return None };
        Some(self.request(id, prepared.method, &prepared.params))
    }

    /// Returns the error for a login that the agent has refused.
    pub(super) fn login_refused(&self, way: &str, failure: &RpcFailure) -> Error {
        let mut failure = failure::with_details(failure.clone());
        let agent = agent_name(self.server.as_ref(), NAME);
        failure.message = format!("{agent} refuses the login with {way:?}: {}", failure.message.trim_end_matches('.'));
        Error::Rpc(RpcError {
            hint: Some(format!("check the key in `env`, or set `auth` to another way: {}", self.way_ids()).into()),
            ..RpcError::of_answer(RpcErrorKind::AuthExpired, failure)
        })
    }

    fn way_ids(&self) -> String {
        self.auth_methods.iter().map(|method| format!("{:?}", method.id)).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways(methods: Value) -> Vec<LoginWay> {
        ways_of(&Json::from(json!({"authMethods": methods})))
    }

    fn selects(auth: &str, variables: &[&str], methods: &Value) -> std::result::Result<Option<String>, String> {
        let variables = variables.iter().map(|name| (*name).to_owned()).collect();
        let login = Login { auth: Some(auth.to_owned()), variables };
        login.select(&ways(methods.clone()), "it").map_err(|error| error.to_string())
    }

    #[test]
    fn unreadable_ways_are_left_out() {
        let read = ways(json!([
            {"id": "a", "name": "A", "description": "With a key"}, {"id": "b", "type": "novel"}, 3, {"id": 4}, {"name": "C"},
            {"id": "d", "name": "D", "type": "terminal", "args": ["--login"], "env": {"K": "v"}},
            {"id": "e", "name": "E", "type": "terminal", "args": "--login"},
        ]));
        let told: Vec<_> = read.iter().map(|way| (&*way.method.id, &*way.method.name, &*way.method.kind)).collect();
        assert_eq!(told, [("a", "A", "agent"), ("b", "b", "novel"), ("d", "D", "terminal")]);
        assert_eq!(
            (read[0].method.description.as_deref(), read[1].method.description.as_deref()),
            (Some("With a key"), None)
        );
        assert_eq!((&*read[2].args, &read[2].env["K"][..]), (&["--login".to_owned()][..], "v"));
        for answer in [json!([]), json!({"authMethods": "x"}), json!({"authMethods": null}), json!({})] {
            assert_eq!(ways_of(&Json::from(answer)), []);
        }
        assert_eq!(ways(Value::from_iter((0..200).map(|n| json!({"id": format!("{n}")})))).len(), MAX_WAYS);
    }

    #[test]
    fn auto_selects_way_whose_key_was_passed() {
        let codex = json!([
            {"id": "api-key", "name": "API Key", "_meta": {"api-key": {"provider": "openai"}}}, {"id": "chat-gpt", "name": "ChatGPT"},
        ]);
        for (variables, expected) in [
            (&["CODEX_API_KEY"][..], Some("api-key")),
            (&["X", "OPENAI_API_KEY"], Some("api-key")),
            (&["GEMINI_API_KEY"], None),
            (&[], None),
        ] {
            assert_eq!(selects("auto", variables, &codex), Ok(expected.map(str::to_owned)));
        }
        let gemini = json!([{"id": "oauth-personal"}, {"id": "gemini-api-key"}, {"id": "vertex-ai"}]);
        assert_eq!(selects("auto", &["GOOGLE_API_KEY"], &gemini), Ok(Some("vertex-ai".to_owned())));
        assert_eq!(
            selects("auto", &["GEMINI_API_KEY", "GOOGLE_API_KEY"], &gemini),
            Ok(Some("gemini-api-key".to_owned()))
        );
        let vars = json!([{"name": "A"}, {"name": "B", "optional": true}, {"name": "C"}]);
        let named = json!([{"id": "none", "type": "env_var"}, {"id": "own", "type": "env_var", "vars": vars}]);
        assert_eq!(selects("auto", &["A"], &named), Ok(None));
        assert_eq!(selects("auto", &["A", "C"], &named), Ok(Some("own".to_owned())));
        let terminal = json!([{"id": "openai", "type": "terminal"}]);
        assert_eq!(selects("auto", &["OPENAI_API_KEY"], &terminal), Ok(None));
    }

    #[test]
    fn unknown_way_error_lists_known_ways() {
        let methods = json!([{"id": "a"}, {"id": "b", "type": "terminal"}]);
        assert_eq!(selects("a", &[], &methods), Ok(Some("a".to_owned())));
        let expected = "invalid option `auth`: expected \"none\", \"auto\" or the id of a way to log in, got \"c\"; it offers \"a\", \"b\"";
        assert_eq!(selects("c", &[], &methods), Err(expected.to_owned()));
        assert!(selects("c", &[], &json!([])).unwrap_err().ends_with("it offers no way to log in"));
        assert!(selects("b", &[], &methods).unwrap_err().contains("run `kimi-agent login` with this agent"));
    }
}
