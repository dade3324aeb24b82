//! Rules that decide which tool calls of an agent are denied, asked about or allowed. Nothing here waits or starts a task; the
//! only input and output is the resolution of paths.
//!
//! - `load`: TOML, JSON and mappings, and the errors of a rule set
//! - `rule`: one rule, and how it matches
//! - `kinds`: the kinds of the tools of known agents
//! - `tools`: the targets of a call
//! - `arguments`: the arguments of a call by meaning
//! - `command`: shell commands, taken apart with a recogniser of the text that every shell reads in the same way
//! - `programs`: the table of programs and of their options that do more than a careless rule says
//! - `file_use`: how programs use the files that their words name
//! - `rules`: a list of rules with an index; `path_index`, `names` and `pieces` are its parts
//! - `presets`: rule sets that come with the SDK
//! - `mcp`: names of tools of MCP servers
//! - `path`, `links`, `glob`, `host`: targets of files and of requests
//! - `work`: the limit of work for one call
//! - `warnings`: rules that can never decide

#![deny(missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod arguments;
mod command;
mod file_use;
#[doc(hidden)]
pub mod generated;
mod glob;
mod host;
mod kinds;
mod links;
mod load;
mod mcp;
mod names;
mod own_file;
mod path;
mod path_index;
mod pieces;
mod presets;
mod programs;
mod rule;
mod rules;
mod scripts;
mod tools;
mod verbs;
mod warnings;
mod work;
#[doc(hidden)]
pub use load::toml_file;

use std::path::{Path, PathBuf};

use kimi_agent_protocol::error::{Result, invalid_option};
use kimi_agent_protocol::messages::{ToolCallInfo, ToolKind};
use kimi_agent_protocol::place::PathMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use rule::{Certainty, Rule};
use rules::RuleList;
use tools::{Needs, Part, Target};
use work::{MAX_WORK, Work};

/// The limit of the name of a call, in bytes. Over ACP the name can be the title, with a command.
const MAX_NAME: usize = 64 << 10;

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

kimi_agent_protocol::display_words!(Decision);

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
    /// Why, in a sentence for people. It names the part that decided, and if possible the narrowest rule that would allow it.
    pub reason: String,
    /// The part of the call that decided: a simple command, a path, an address or the name of a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
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
    /// The paths of the agent, if they are not those of the program.
    pub(crate) place: Option<&'a PathMap>,
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
            place: None,
        }
    }
}

/// Rules that decide which tool calls an agent may make.
///
/// The order is deny, ask, allow, default. Each part of a compound command needs a decision of its own, and the strictest one
/// counts. A part that cannot be decided matches no allow rule with a pattern, and gets the stricter of `ask` and the default.
///
/// # Examples
/// ```
/// # use kimi_agent_policy as kimi_agent;
/// use kimi_agent::{Decision, Policy};
/// # fn main() -> kimi_agent_protocol::Result<()> {
/// let policy = Policy::from_toml(r#"allow = ["read", "execute(git status)"]"#)?;
/// let call = serde_json::json!({"name": "Shell", "arguments": {"command": "git status && rm -rf ~"}});
/// assert_eq!(policy.check_json(&call, ".")?.decision, Decision::Ask);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Policy {
    default: Decision,
    deny: RuleList,
    ask: RuleList,
    allow: RuleList,
    warnings: Vec<String>,
    /// The file that it was read from.
    file: Option<PathBuf>,
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

    /// Returns the rules, also those of a preset: the list (`deny`, `ask` or `allow`), the rule, and its place.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_policy as kimi_agent;
    /// let policy = kimi_agent::Policy::preset("read-only").unwrap();
    /// assert!(policy.rules().any(|(list, rule, _)| (list, rule) == ("allow", "read(**)")));
    /// ```
    pub fn rules(&self) -> impl Iterator<Item = (&'static str, &str, &str)> {
        let lists = [("deny", &self.deny), ("ask", &self.ask), ("allow", &self.allow)];
        lists
            .into_iter()
            .flat_map(|(list, rules)| rules.rules.iter().map(move |rule| (list, &*rule.text, &*rule.source)))
    }

    /// Returns which calls each rule of [`Policy::rules`] is about, for people.
    #[doc(hidden)]
    pub fn meanings(&self) -> impl Iterator<Item = String> {
        [&self.deny, &self.ask, &self.allow].into_iter().flat_map(|list| list.rules.iter().map(|rule| rule.meaning()))
    }

    /// Returns the decision about calls that no rule matches.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_policy as kimi_agent;
    /// assert_eq!(kimi_agent::Policy::preset("read-only").unwrap().default_decision().as_str(), "ask");
    /// ```
    pub fn default_decision(&self) -> Decision {
        self.default
    }

    /// Whether a rule can deny a call, so that it is worth looking at calls that need no approval.
    #[doc(hidden)]
    pub fn denies(&self) -> bool {
        !self.deny.is_empty() || self.default == Decision::Deny
    }

    /// Decides about a tool call of an agent that works in `work_dir`.
    ///
    /// # Examples
    /// ```
    /// # mod kimi_agent {
    /// #     pub use kimi_agent_policy::*;
    /// #     pub use kimi_agent_protocol::messages as wire;
    /// # }
    /// use kimi_agent::{Policy, wire::ToolCallInfo};
    /// let policy = Policy::preset("read-only").unwrap();
    /// let call = ToolCallInfo::new("ReadFile", serde_json::json!({"path": "src/main.rs"}));
    /// let verdict = policy.check(&call, ".");
    /// assert_eq!(verdict.decision.as_str(), "allow");
    /// ```
    pub fn check(&self, call: &ToolCallInfo, work_dir: impl AsRef<Path>) -> PolicyVerdict {
        self.check_call(Call::of(call), work_dir.as_ref())
    }

    /// Decides about a call that an agent describes like this. Some agents ask before they send the arguments.
    #[doc(hidden)]
    pub fn check_described(&self, call: &ToolCallInfo, about: &str, work_dir: &Path) -> PolicyVerdict {
        self.check_call(Call { about: Some(about), ..Call::of(call) }, work_dir)
    }

    /// Decides about a call of an agent that runs in another place than the program. All paths of the call are the agent's, and
    /// `work_dir` is the program's.
    #[doc(hidden)]
    pub fn check_placed(&self, call: &ToolCallInfo, about: &str, work_dir: &Path, place: &PathMap) -> PolicyVerdict {
        self.check_call(Call { about: Some(about), place: Some(place), ..Call::of(call) }, work_dir)
    }

    pub(crate) fn check_call(&self, call: Call<'_>, work_dir: &Path) -> PolicyVerdict {
        self.fenced(call, || self.decide(call, work_dir, Self::decide_part))
    }

    /// Decides, and survives a panic of this crate and of its dependencies.
    fn fenced(&self, call: Call<'_>, decide: impl FnOnce() -> PolicyVerdict) -> PolicyVerdict {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(decide)).unwrap_or_else(|_| PolicyVerdict {
            decision: self.undecidable(),
            rule: None,
            source: None,
            reason: "the call cannot be decided, because the policy engine failed; please report it".to_owned(),
            part: Some(call.name.to_owned()),
        })
    }

    /// The decision about what cannot be decided.
    fn undecidable(&self) -> Decision {
        self.default.max(Decision::Ask)
    }

    /// Returns the verdict if a deny rule matches. The default does not deny here.
    #[doc(hidden)]
    pub fn denied(&self, call: &ToolCallInfo, work_dir: &Path) -> Option<PolicyVerdict> {
        let call = Call::of(call);
        Some(self.fenced(call, || self.decide(call, work_dir, Self::deny_part)))
            .filter(|verdict| verdict.decision == Decision::Deny)
    }

    /// Decides about a tool call as JSON: an object with `name`, and optionally `kind`, `arguments`, and lists of paths,
    /// `locations` and `diffs`. The kind `mcp` is that of a tool of the program.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](kimi_agent_protocol::Error::InvalidOption) says what is wrong with the tool call.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_policy as kimi_agent;
    /// let policy = kimi_agent::Policy::from_toml(r#"deny = ["execute(rm *)"]"#).unwrap();
    /// let call = serde_json::json!({"name": "Bash", "arguments": {"command": "rm -rf ."}});
    /// assert_eq!(policy.check_json(&call, ".").unwrap().decision.as_str(), "deny");
    /// ```
    pub fn check_json(&self, call: &Value, work_dir: impl AsRef<Path>) -> Result<PolicyVerdict> {
        let wrong = |reason: String| invalid_option("tool_call", reason);
        let text = |key: &str| match call.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(&**text)),
            Some(other) => Err(wrong(format!("expected text for `{key}` of the tool call, got {other}"))),
        };
        let name = text("name")?.filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| {
            wrong("expected a tool call: an object with `name`, and optionally `kind` and `arguments`".to_owned())
        })?;
        let arguments = match call.get("arguments") {
            None | Some(Value::Null) => None,
            Some(Value::Object(arguments)) => Some(arguments),
            Some(other) => {
                return Err(wrong(format!("expected an object for `arguments` of the tool call, got {other}")));
            }
        };
        let paths = |key: &str| match call.get(key) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(paths) => Vec::<String>::deserialize(paths)
                .map_err(|_| wrong(format!("expected a list of paths for `{key}` of the tool call, got {paths}"))),
        };
        let (locations, diffs) = (paths("locations")?, paths("diffs")?);
        let (kind, locations, diffs) = (text("kind")?, &*locations, &*diffs);
        let call = Call { name, kind, arguments, locations, diffs, ..Call::default() };
        Ok(self.check_call(call, work_dir.as_ref()))
    }

    fn decide<'p>(
        &'p self,
        call: Call<'_>,
        work_dir: &Path,
        decide_part: impl Fn(&'p Self, Tool<'_>, &Part, &mut Work<'p>) -> Option<Verdict<'p>>,
    ) -> PolicyVerdict {
        if call.name.len() > MAX_NAME {
            // Less than `deny` could be weaker than with fewer rules.
            return PolicyVerdict {
                decision: Decision::Deny,
                rule: None,
                source: None,
                reason: format!("the name of the call exceeds {} KiB: {}", MAX_NAME >> 10, shown(call.name)),
                part: Some(shown(call.name)),
            };
        }
        let mut work = Work::new();
        let parts = tools::parts(call, work_dir, self.needs(), &work.budget);
        let Some(strictest) = self.strictest(call.name, &parts, &mut work, decide_part) else {
            // Less than `deny` could be weaker than with fewer rules.
            return PolicyVerdict {
                decision: Decision::Deny,
                rule: None,
                source: None,
                reason: format!("the call {} has too many parts to decide about them", shown(call.name)),
                part: Some(call.name.to_owned()),
            };
        };
        if let Some(part) = self.change_of_file(&parts) {
            return PolicyVerdict {
                decision: Decision::Deny,
                rule: None,
                source: None,
                reason: format!("the policy was read from {}, and no call may change it", shown(&part.text(call.name))),
                part: Some(part.text(call.name)),
            };
        }
        let Some((verdict, part)) = strictest else {
            return PolicyVerdict {
                decision: self.default,
                rule: None,
                source: None,
                reason: format!("no rule decides about {}, so the default applies", shown(call.name)),
                part: Some(call.name.to_owned()),
            };
        };
        PolicyVerdict {
            decision: verdict.decision,
            rule: verdict.rule.map(|rule| rule.text.clone()),
            source: verdict.rule.map(|rule| rule.source.clone()),
            reason: self.reason(&verdict, part, call.name),
            part: Some(part.text(call.name)),
        }
    }

    /// The part with the strictest decision. Nothing, if the decisions take too much work.
    #[allow(clippy::option_option, reason = "no decision, and no part")]
    fn strictest<'p, 'c>(
        &'p self,
        name: &str,
        parts: &'c [Part],
        work: &mut Work<'p>,
        decide_part: impl Fn(&'p Self, Tool<'_>, &Part, &mut Work<'p>) -> Option<Verdict<'p>>,
    ) -> Option<Option<(Verdict<'p>, &'c Part)>> {
        let (lower, plain) = (name.to_lowercase(), mcp::plain_name(name));
        let others = mcp::names_without_server(name);
        let names = mcp::names_of_any_server(name);
        let tool = Tool { name, lower: &lower, plain: &plain, others: &others, names: &names };
        let mut strictest: Option<(Verdict<'_>, &Part)> = None;
        for part in parts {
            let verdict = decide_part(self, tool, part, work)?;
            // Of parts with the same decision, the first one that decides counts: a shadow decides only if it is denied or asked. A rule
            // that asks says more than the default.
            let is_stricter = strictest.as_ref().is_none_or(|(known, known_part)| {
                let says_more = match (verdict.rule.is_some(), known.rule.is_some()) {
                    (true, false) if verdict.decision == Decision::Ask => true,
                    (false, true) if verdict.decision == Decision::Ask => false,
                    _ => known_part.shadow,
                };
                verdict.decision > known.decision || verdict.decision == known.decision && says_more
            });
            if is_stricter {
                strictest = Some((verdict, part));
            }
        }
        // The last comparison can have been cut.
        (work.budget.left() > 0).then_some(strictest)
    }

    fn needs(&self) -> Needs {
        let is_any = |is: fn(&RuleList) -> bool| is(&self.deny) || is(&self.ask);
        Needs { paths: self.file.is_some() || is_any(RuleList::has_paths), hosts: is_any(RuleList::has_hosts) }
    }

    /// The rule that decides about a call, and the decision. Takes the work off the limit.
    pub(crate) fn deciding(&self, call: Call<'_>, work_dir: &Path, left: &mut usize) -> (Option<&Rule>, Decision) {
        if call.name.len() > MAX_NAME {
            return (None, Decision::Deny);
        }
        let mut work = Work::new();
        let parts = tools::parts(call, work_dir, self.needs(), &work.budget);
        let strictest = self.strictest(call.name, &parts, &mut work, Self::decide_part);
        *left = left.saturating_sub(MAX_WORK - work.budget.left());
        match strictest {
            None => (None, Decision::Deny),
            Some(None) => (None, self.default),
            Some(Some((verdict, _))) => (verdict.rule, verdict.decision),
        }
    }

    /// The name of the list that the rule is in.
    pub(crate) fn list_of(&self, rule: &Rule) -> &'static str {
        let is_in = |list: &RuleList| list.rules.as_ptr_range().contains(&std::ptr::from_ref(rule));
        if is_in(&self.deny) {
            "deny"
        } else if is_in(&self.ask) {
            "ask"
        } else {
            "allow"
        }
    }

    fn deny_part<'p>(&'p self, tool: Tool<'_>, part: &Part, work: &mut Work<'p>) -> Option<Verdict<'p>> {
        let mut found = None;
        for at in work.candidates(&self.deny, tool, part)? {
            let rule = work.spend(&self.deny, at, tool)?;
            if rule.matches_liberally(tool, part) == Certainty::Yes {
                found = Some(rule);
                break;
            }
        }
        let decision = if found.is_some() { Decision::Deny } else { Decision::Allow };
        Some(Verdict { decision, rule: found, is_certain: true })
    }

    /// The allow rule that surely matches the part, among those that may speak about it.
    fn allowing<'p>(
        &'p self,
        tool: Tool<'_>,
        part: &Part,
        work: &mut Work<'p>,
        may_speak: impl Fn(&Rule) -> bool,
    ) -> Option<Option<&'p Rule>> {
        for at in work.candidates(&self.allow, tool, part)? {
            let rule = work.spend(&self.allow, at, tool)?;
            if may_speak(rule) && rule.matches_strictly(tool.name, part) {
                return Some(Some(rule));
            }
        }
        Some(None)
    }

    fn decide_part<'p>(&'p self, tool: Tool<'_>, part: &Part, work: &mut Work<'p>) -> Option<Verdict<'p>> {
        // An allow rule can spell the command that hides the part.
        let spells = |rule: &Rule| if part.is_name { rule.spells_all() } else { !rule.is_bare() };
        if let Some(command) = part.spelled.as_ref()
            && self.allowing(tool, command, work, spells)?.is_some()
        {
            return Some(Verdict { decision: Decision::Allow, rule: None, is_certain: true });
        }
        let mut maybe = None;
        let is_never_certain = part.is_never_certain();
        for at in work.candidates(&self.deny, tool, part)? {
            if maybe.is_some() && is_never_certain && !self.deny.rules[at].is_about_any() {
                continue;
            }
            let rule = work.spend(&self.deny, at, tool)?;
            match rule.matches_liberally(tool, part) {
                Certainty::Yes => {
                    return Some(Verdict { decision: Decision::Deny, rule: Some(rule), is_certain: true });
                }
                Certainty::Maybe => maybe = maybe.or(Some(rule)),
                Certainty::No => {}
            }
        }
        if maybe.is_some() {
            return Some(Verdict { decision: self.undecidable(), rule: maybe, is_certain: false });
        }
        let mut asks = None;
        for at in work.candidates(&self.ask, tool, part)? {
            if asks.is_some() && is_never_certain && !self.ask.rules[at].is_about_any() {
                continue;
            }
            let rule = work.spend(&self.ask, at, tool)?;
            // A stricter default is weakened only for what the rule surely matches.
            if rule.matches_strictly(tool.name, part) {
                return Some(Verdict { decision: Decision::Ask, rule: Some(rule), is_certain: true });
            }
            match rule.matches_liberally(tool, part) {
                Certainty::No => {}
                certainty => asks = asks.or(Some((rule, certainty == Certainty::Yes))),
            }
        }
        if let Some((rule, is_certain)) = asks {
            return Some(Verdict { decision: self.undecidable(), rule: Some(rule), is_certain });
        }
        if part.shadow {
            return Some(Verdict { decision: Decision::Allow, rule: None, is_certain: true });
        }
        if let Some(rule) = self.allowing(tool, part, work, |_| true)? {
            return Some(Verdict { decision: Decision::Allow, rule: Some(rule), is_certain: true });
        }
        let is_undecidable = matches!(part.target, Target::Opaque(_));
        let decision = if is_undecidable { self.undecidable() } else { self.default };
        Some(Verdict { decision, rule: None, is_certain: !is_undecidable })
    }

    /// The sentence for people.
    fn reason(&self, verdict: &Verdict<'_>, part: &Part, tool: &str) -> String {
        let text = shown(&part.text(tool));
        let why = part.why().map(|why| format!(": {why}")).unwrap_or_default();
        let rule = verdict.rule.map(|rule| shown(&rule.text)).unwrap_or_default();
        match (verdict.decision, verdict.rule) {
            (Decision::Allow, Some(_)) => format!("the rule {rule} allows {text}"),
            (Decision::Allow, None) => format!("no rule decides about {text}, and the default is `allow`"),
            (Decision::Deny, Some(_)) if verdict.is_certain => format!("the rule {rule} denies {text}"),
            (Decision::Ask, Some(_)) if verdict.is_certain => format!("the rule {rule} asks about {text}"),
            (_, Some(_)) => format!("{text} cannot be decided{why}, and the rule {rule} may be about it"),
            (_, None) if !verdict.is_certain => format!("{text} cannot be decided{why}"),
            (decision, None) => {
                let hint = part
                    .allowing_rule(tool)
                    .map(|rule| format!("; the rule {} would allow it", shown(&rule)))
                    .unwrap_or_default();
                format!("no rule decides about {text}{why}, and the default is `{decision}`{hint}")
            }
        }
    }
}

/// The name of a tool, as it is and as rules compare it.
#[derive(Clone, Copy)]
pub(crate) struct Tool<'a> {
    pub(crate) name: &'a str,
    pub(crate) lower: &'a str,
    pub(crate) plain: &'a str,
    /// Its names without a server.
    pub(crate) others: &'a [String],
    /// The names that it has as a tool of any server.
    pub(crate) names: &'a [mcp::ToolName],
}

/// A text in a sentence. Long texts are in the field `part`.
fn shown(text: &str) -> String {
    const MAX: usize = 200;
    let escaped: String = text
        .chars()
        .take(MAX)
        .flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] })
        .collect();
    let more = text.chars().count().saturating_sub(MAX);
    if more > 0 { format!("`{escaped}…` ({more} more characters)") } else { format!("`{escaped}`") }
}

struct Verdict<'p> {
    decision: Decision,
    rule: Option<&'p Rule>,
    /// The rule surely matches.
    is_certain: bool,
}
