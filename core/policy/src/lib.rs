//! Rules that decide which tool calls of an agent are denied, asked about or allowed. Nothing here waits or starts a task; the
//! only input and output is the resolution of paths.
//!
//! - `load`: TOML, JSON and mappings, and the errors of a rule set
//! - `rule`: one rule, and how it matches
//! - `tools`: the kinds of the tools of known agents, and the targets of a call
//! - `command`: shell commands, taken apart with a shell parser
//! - `path`, `host`: targets of files and of requests
//! - `warnings`: rules that can never decide

#![deny(missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod command;
#[doc(hidden)]
pub mod generated;
mod host;
mod load;
mod path;
mod rule;
mod tools;
mod warnings;

use std::fmt;
use std::path::Path;

use kimi_agent_protocol::messages::{ToolCallInfo, ToolKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use load::PolicyError;
use rule::{Certainty, Rule};
use tools::{Part, Target};

/// The decision about a tool call.
///
/// # Examples
/// ```
/// # use kimi_agent_policy as kimi_agent;
/// assert_eq!(kimi_agent::Decision::Ask.as_str(), "ask");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The call may run.
    Allow,
    /// The handler of approvals decides.
    Ask,
    /// The call must not run.
    Deny,
}

impl Decision {
    /// Returns the word for the decision: `allow`, `ask` or `deny`.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_policy as kimi_agent;
    /// assert_eq!(kimi_agent::Decision::Deny.as_str(), "deny");
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Allow, Self::Ask, Self::Deny].into_iter().find(|decision| decision.as_str() == word)
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A decision and its reason, from [`Policy::check`].
///
/// # Examples
/// ```
/// # use kimi_agent_policy as kimi_agent;
/// fn explain(verdict: &kimi_agent::PolicyVerdict) -> String {
///     format!("{} by {}", verdict.decision, verdict.rule.as_deref().unwrap_or("default"))
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PolicyVerdict {
    /// The decision.
    pub decision: Decision,
    /// The rule that decided. Absent if the default decided, or if a part of the call cannot be decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The place of the rule, for example `policy.toml:3`. For a policy without a file, `deny[0]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// A tool call, as rules see it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Call<'a> {
    pub(crate) name: &'a str,
    /// The kind of the tool, if the agent sends one.
    pub(crate) kind: Option<&'a str>,
    /// The arguments, if they are known.
    pub(crate) arguments: Option<&'a Map<String, Value>>,
    /// The agent's description of the call. Only rules that deny look at it, if the arguments do not say what the call does.
    pub(crate) about: Option<&'a str>,
    /// Paths that the agent names in addition to the arguments.
    pub(crate) locations: &'a [String],
    /// Paths of files whose change the agent shows.
    pub(crate) diffs: &'a [String],
}

impl<'a> Call<'a> {
    fn of(call: &'a ToolCallInfo) -> Self {
        let kind = call.kind.as_ref().map(ToolKind::as_str);
        Self {
            name: &call.name,
            kind,
            arguments: call.arguments.as_ref(),
            about: None,
            locations: call.locations.as_deref().unwrap_or_default(),
            diffs: call.diffs.as_deref().unwrap_or_default(),
        }
    }
}

/// Rules that decide which tool calls an agent may make.
///
/// The order is deny, ask, allow, default. Each part of a compound command needs a decision of its own, and the strictest one
/// counts. A part that cannot be decided matches no allow rule.
///
/// # Examples
/// ```
/// # use kimi_agent_policy as kimi_agent;
/// use kimi_agent::{Decision, Policy};
/// # fn main() -> Result<(), kimi_agent::PolicyError> {
/// let policy = Policy::from_toml(r#"allow = ["read", "execute(git status)"]"#)?;
/// let call = serde_json::json!({"name": "Shell", "arguments": {"command": "git status && rm -rf ~"}});
/// assert_eq!(policy.check_json(&call, ".").expect("a tool call").decision, Decision::Ask);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Policy {
    default: Decision,
    deny: Vec<Rule>,
    ask: Vec<Rule>,
    allow: Vec<Rule>,
    warnings: Vec<String>,
}

impl Policy {
    /// Returns the warnings: rules that can never decide, because they match nothing or because another rule decides first.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_policy as kimi_agent;
    /// let policy = kimi_agent::Policy::from_toml(r#"allow = ["execute(git status)", "execute(git status)"]"#).unwrap();
    /// assert_eq!(policy.warnings().len(), 1);
    /// ```
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether a rule can deny a call, so that it is worth looking at calls that need no approval.
    #[doc(hidden)]
    pub fn denies(&self) -> bool {
        !self.deny.is_empty()
    }

    /// Decides about a tool call of an agent that works in `work_dir`.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_policy as kimi_agent;
    /// # use kimi_agent_protocol::messages as wire;
    /// # fn decide(policy: &kimi_agent::Policy, call: &wire::ToolCallInfo) {
    /// let verdict = policy.check(call, ".");
    /// println!("{} by {:?}", verdict.decision, verdict.rule);
    /// # }
    /// ```
    pub fn check(&self, call: &ToolCallInfo, work_dir: impl AsRef<Path>) -> PolicyVerdict {
        self.check_call(Call::of(call), work_dir.as_ref())
    }

    /// Decides about a call that an agent describes like this. Some agents ask before they send the arguments.
    #[doc(hidden)]
    pub fn check_described(&self, call: &ToolCallInfo, about: &str, work_dir: &Path) -> PolicyVerdict {
        self.check_call(Call { about: Some(about), ..Call::of(call) }, work_dir)
    }

    pub(crate) fn check_call(&self, call: Call<'_>, work_dir: &Path) -> PolicyVerdict {
        self.decide(call, work_dir, Self::decide_part)
    }

    /// Returns the verdict if a deny rule matches. The default does not deny here.
    #[doc(hidden)]
    pub fn denied(&self, call: &ToolCallInfo, work_dir: &Path) -> Option<PolicyVerdict> {
        let call = Call::of(call);
        Some(self.decide(call, work_dir, Self::deny_part)).filter(|verdict| verdict.decision == Decision::Deny)
    }

    /// Decides about a tool call as JSON: an object with `name`, and optionally `kind`, `arguments`, and lists of paths,
    /// `locations` and `diffs`. The kind `mcp` is that of a tool of the program.
    ///
    /// # Errors
    /// The problem of the tool call.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_policy as kimi_agent;
    /// let policy = kimi_agent::Policy::from_toml(r#"deny = ["execute(rm *)"]"#).unwrap();
    /// let call = serde_json::json!({"name": "Bash", "arguments": {"command": "rm -rf ."}});
    /// assert_eq!(policy.check_json(&call, ".").unwrap().decision.as_str(), "deny");
    /// ```
    pub fn check_json(&self, call: &Value, work_dir: impl AsRef<Path>) -> Result<PolicyVerdict, String> {
        let text = |key: &str| match call.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(&**text)),
            Some(other) => Err(format!("expected text for `{key}` of the tool call, got {other}")),
        };
        let name = text("name")?.filter(|name| !name.is_empty());
        let name = name.ok_or("expected a tool call: an object with `name`, and optionally `kind` and `arguments`")?;
        let arguments = match call.get("arguments") {
            None | Some(Value::Null) => None,
            Some(Value::Object(arguments)) => Some(arguments),
            Some(other) => return Err(format!("expected an object for `arguments` of the tool call, got {other}")),
        };
        let paths = |key: &str| match call.get(key) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(paths) => Vec::<String>::deserialize(paths)
                .map_err(|_| format!("expected a list of paths for `{key}` of the tool call, got {paths}")),
        };
        let (locations, diffs) = (paths("locations")?, paths("diffs")?);
        let call = Call { name, kind: text("kind")?, arguments, about: None, locations: &locations, diffs: &diffs };
        Ok(self.check_call(call, work_dir.as_ref()))
    }

    fn decide<'p>(
        &'p self,
        call: Call<'_>,
        work_dir: &Path,
        decide_part: impl Fn(&'p Self, Call<'_>, &Part) -> Verdict<'p>,
    ) -> PolicyVerdict {
        let parts = tools::parts(call, work_dir);
        let mut strictest: Option<Verdict<'_>> = None;
        for part in &parts {
            let verdict = decide_part(self, call, part);
            if strictest.as_ref().is_none_or(|known| verdict.decision > known.decision) {
                strictest = Some(verdict);
            }
        }
        let Verdict { decision, rule } = strictest.unwrap_or(Verdict::none(self.default));
        PolicyVerdict {
            decision,
            rule: rule.map(|rule| rule.text.clone()),
            source: rule.map(|rule| rule.source.clone()),
        }
    }

    fn deny_part<'p>(&'p self, call: Call<'_>, part: &Part) -> Verdict<'p> {
        let found = self.deny.iter().find(|rule| rule.matches_liberally(call.name, part) == Certainty::Yes);
        let decision = if found.is_some() { Decision::Deny } else { Decision::Allow };
        Verdict { decision, rule: found }
    }

    fn decide_part<'p>(&'p self, call: Call<'_>, part: &Part) -> Verdict<'p> {
        let mut maybe = None;
        for rule in &self.deny {
            match rule.matches_liberally(call.name, part) {
                Certainty::Yes => return Verdict { decision: Decision::Deny, rule: Some(rule) },
                Certainty::Maybe if !part.shadow => maybe = maybe.or(Some(rule)),
                _ => {}
            }
        }
        let asks = |rule: &&Rule| match rule.matches_liberally(call.name, part) {
            Certainty::Yes => true,
            Certainty::Maybe => !part.shadow,
            Certainty::No => false,
        };
        if let Some(rule) = maybe.or_else(|| self.ask.iter().find(asks)) {
            return Verdict { decision: Decision::Ask, rule: Some(rule) };
        }
        if part.shadow {
            return Verdict::none(Decision::Allow);
        }
        if let Some(rule) = self.allow.iter().find(|rule| rule.matches_strictly(call.name, part)) {
            return Verdict { decision: Decision::Allow, rule: Some(rule) };
        }
        let undecidable = matches!(part.target, Target::Opaque(_)) && self.default == Decision::Allow;
        Verdict::none(if undecidable { Decision::Ask } else { self.default })
    }
}

struct Verdict<'p> {
    decision: Decision,
    rule: Option<&'p Rule>,
}

impl Verdict<'_> {
    fn none(decision: Decision) -> Self {
        Verdict { decision, rule: None }
    }
}
