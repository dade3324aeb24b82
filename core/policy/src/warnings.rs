//! Rules that can never decide: no call matches them, or another rule decides first. The engine itself says so, about calls that
//! are made for each rule.

use std::collections::HashSet;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::kinds::{Kind, kind_of_tool};
use crate::rule::{Rule, Subject};
use crate::{Call, Decision, Policy};

/// The work of all comparisons of a policy with calls that are made for its rules, in the units of a decision. A few hundred rules
/// never take as much.
const MAX_WORK: usize = 30_000_000;

/// Returns the warnings of a policy.
pub(crate) fn find(policy: &Policy) -> Vec<String> {
    // No file of this directory exists, so no path is a link.
    let work_dir = Path::new(if cfg!(windows) { r"C:\no-such-directory\work" } else { "/no-such-directory/work" });
    let lists = [("deny", &policy.deny), ("ask", &policy.ask), ("allow", &policy.allow)];
    let current_dir = std::env::current_dir().ok();
    let mut warnings = Vec::new();
    let mut seen = HashSet::new();
    let (mut left, mut unchecked) = (MAX_WORK, 0);
    for (list, rules) in lists {
        for rule in rules.rules.iter().filter(|rule| !rule.source.starts_with("preset ")) {
            let reason = if seen.insert((list, rule.text.trim())) {
                let reason = problem(policy, list, rule, current_dir.as_deref());
                unchecked += usize::from(reason.is_none() && left == 0);
                reason.or_else(|| if left > 0 { hidden(policy, list, rule, work_dir, &mut left) } else { None })
            } else {
                Some(format!("it has no effect, because {list} {:?} decides first", rule.text.trim()))
            };
            warnings.extend(reason.map(|reason| format!("{}: {list} {:?}: {reason}", rule.source, rule.text)));
        }
    }
    if unchecked > 0 {
        warnings.push(format!(
            "the last {unchecked} rules were not compared with the others, because too many rules are about the same calls"
        ));
    }
    warnings
}

fn problem(policy: &Policy, list: &str, rule: &Rule, current_dir: Option<&Path>) -> Option<String> {
    let reason = never_matches(rule).or_else(|| foreign_form(list, rule)).or_else(|| never_simple(list, rule));
    if reason.is_some() {
        return reason;
    }
    if list == "allow" {
        let is_outside = |work_dir: &Path| {
            rule.pattern
                .as_ref()
                .and_then(|pattern| pattern.path.as_ref())
                .is_some_and(|path| path.is_outside(work_dir))
        };
        let is_about_files = rule.kind().is_some_and(|kind| !matches!(kind, Kind::Execute | Kind::Mcp));
        if is_about_files && current_dir.is_some_and(is_outside) {
            return Some("it allows paths outside of the working directory".to_owned());
        }
        if policy.default == Decision::Allow && policy.ask.is_empty() && policy.deny.is_empty() {
            return Some("it has no effect, because the default is `allow`".to_owned());
        }
    }
    None
}

/// Why the rule decides about none of the calls that are made for it.
fn hidden(policy: &Policy, list: &str, rule: &Rule, work_dir: &Path, left: &mut usize) -> Option<String> {
    let witnesses = witnesses(rule);
    if witnesses.is_empty() {
        return None;
    }
    let mut first = None;
    for witness in &witnesses {
        let call =
            Call { name: &witness.name, kind: witness.kind, arguments: Some(&witness.arguments), ..Call::default() };
        match policy.deciding(call, work_dir, left) {
            (Some(by), _) if by.text == rule.text && policy.list_of(by) == list => return None,
            (Some(by), _) => first = first.or(Some(by)),
            // The rule may decide about other calls than this one.
            (None, decision) if decision != Decision::Allow => {}
            (None, _) => return None,
        }
    }
    if let Some(by) = first {
        return Some(format!("it has no effect, because {} {:?} decides first", policy.list_of(by), by.text));
    }
    Some(if list == "allow" {
        "it never allows a call that can be decided; spell the command, the path or the options that it is about"
            .to_owned()
    } else {
        "it decides about no call that is known here".to_owned()
    })
}

/// A call that a rule is about.
struct Witness {
    name: String,
    kind: Option<&'static str>,
    arguments: Map<String, Value>,
}

fn witnesses(rule: &Rule) -> Vec<Witness> {
    let mut found = Vec::new();
    let mut add = |name: &str, kind: Option<&'static str>, arguments: Value| {
        if let Value::Object(arguments) = arguments {
            found.push(Witness { name: name.to_owned(), kind, arguments });
        }
    };
    let (name, kind) = match &rule.subject {
        Subject::Kind(kind) => ("tool".to_owned(), *kind),
        Subject::Tool(name) => match kind_of_tool(name) {
            Some(kind) => (name.clone(), kind),
            None => {
                if rule.pattern.is_none() {
                    let name = name.replace('*', "x");
                    add(&name, None, json!({}));
                    // A tool of the program.
                    add(&name, Some("mcp"), json!({}));
                }
                return found;
            }
        },
    };
    let sent = match &rule.subject {
        Subject::Kind(kind) => Kind::ALL.iter().find(|(_, known)| known == kind).map(|(name, _)| *name),
        Subject::Tool(_) => None,
    };
    let pattern = rule.pattern.as_ref();
    match kind {
        Kind::Execute => {
            let text = pattern.map_or_else(|| "some-program".to_owned(), |pattern| pattern.command.witness());
            add(&name, sent, json!({ "command": text }));
            add(&name, sent, json!({ "command": format!("{text} file") }));
        }
        Kind::Fetch => {
            let address = pattern.and_then(|pattern| pattern.host.as_ref()).map(|host| host.witness());
            add(&name, sent, json!({ "url": address.unwrap_or_else(|| "https://some.example/".to_owned()) }));
        }
        Kind::Think => add(&name, sent, json!({})),
        Kind::Mcp => {
            let tool = match pattern.and_then(|pattern| pattern.mcp.as_ref()) {
                Some(mcp) => format!("mcp__{}__{}", mcp.server.replace('*', "x"), mcp.tool.replace('*', "x")),
                None if matches!(rule.subject, Subject::Tool(_)) => name.replace('*', "x"),
                None => "mcp__some__tool".to_owned(),
            };
            add(&tool, None, json!({}));
        }
        Kind::Read | Kind::Edit | Kind::Delete | Kind::Move | Kind::Search => {
            let path = match pattern.and_then(|pattern| pattern.path.as_ref()) {
                Some(path) => path.witness(),
                None => Some("some-file".to_owned()),
            };
            if let Some(path) = path {
                add(&name, sent, json!({ "path": path }));
            }
        }
    }
    found
}

fn never_matches(rule: &Rule) -> Option<String> {
    let Subject::Tool(name) = &rule.subject else {
        let mcp = rule.pattern.as_ref()?.mcp.as_ref().filter(|_| rule.kind() == Some(Kind::Mcp))?;
        let is_ambiguous = mcp.server.trim_matches('*').contains("__");
        return is_ambiguous.then(|| {
            "the name of a server with `__` can be read in two ways, so it allows nothing; name the tool, for example `mcp__my__srv__get`"
                .to_owned()
        });
    };
    let kinds = Kind::ALL.iter().map(|(kind, _)| *kind);
    let meant = kinds.clone().find(|kind| kind.eq_ignore_ascii_case(name)).or_else(|| {
        let kind = kind_of_tool(name)?;
        Kind::ALL.iter().find(|(_, known)| *known == kind).map(|(name, _)| *name)
    });
    match meant {
        Some(kind)
            if rule.pattern.is_some() && !name.starts_with(char::is_uppercase) && !name.contains(['_', '-'])
                || kinds.clone().any(|kind| kind.eq_ignore_ascii_case(name)) && rule.pattern.is_some() =>
        {
            Some(format!(
                "`{name}` is the name of a tool here; for tools of every agent write `{}`",
                meant.unwrap_or(kind)
            ))
        }
        _ => None,
    }
}

/// Why a rule in the form of another program, or with a variable, does not mean what it seems to, and the form that does.
fn foreign_form(list: &str, rule: &Rule) -> Option<String> {
    let text = rule.text.trim();
    let Some(pattern) = &rule.pattern else {
        let server = text.strip_prefix("mcp__").filter(|server| !server.contains("__") && !server.contains('*'));
        if let Some(server) = server {
            return Some(format!(
                "`{text}` is the name of a tool here; for all tools of the server write `mcp({server}/*)`"
            ));
        }
        let (head, rest) = text.split_once(':')?;
        let meant = match Kind::parse(head) {
            Some(_) => format!("{head}({rest})"),
            None if matches!(head, "kind" | "tool") && Kind::parse(rest).is_some() => rest.to_owned(),
            None => return None,
        };
        return Some(format!("`{text}` is the name of a tool here; for the kind write `{meant}`"));
    };
    let name = text.split('(').next()?;
    let meant = match rule.kind()? {
        Kind::Execute => {
            let words = pattern.text.strip_suffix(":*")?;
            // A script of a project can have such a name, and a rule that allows it allows no more.
            if list == "allow" && words.contains(char::is_whitespace) {
                return None;
            }
            format!("{name}({words} *)")
        }
        Kind::Mcp | Kind::Fetch | Kind::Think => return None,
        _ => match (pattern.text.split_once("://"), pattern.text.strip_prefix('$')) {
            (Some((_, path)), _) => format!("{name}({path})"),
            _ if has_separators_of_windows(&pattern.text) => format!("{name}({})", pattern.text.replace('\\', "/")),
            _ if pattern.text.starts_with(['"', '\'']) => {
                format!("{name}({})", pattern.text.trim_matches(['"', '\'']))
            }
            (_, Some(rest)) => match ["HOME/", "{HOME}/"].iter().find_map(|variable| rest.strip_prefix(variable)) {
                Some(path) => format!("{name}(~/{path})"),
                None if rest.starts_with('{') || rest.starts_with(|c: char| c.is_ascii_uppercase()) => {
                    return Some("variables have no value in a pattern; write the path".to_owned());
                }
                None => return None,
            },
            _ => return None,
        },
    };
    Some(format!("`{}` stands for these characters; you may mean `{meant}`", pattern.text))
}

/// Whether a `\\` cannot be meant to take the next sign as it is.
fn has_separators_of_windows(text: &str) -> bool {
    text.match_indices('\\').any(|(at, _)| text[at + 1..].starts_with(char::is_alphanumeric))
}

/// A command is compared word by word, after the shell text was taken apart.
fn never_simple(list: &str, rule: &Rule) -> Option<String> {
    let pattern = rule.pattern.as_ref().filter(|_| rule.kind() == Some(Kind::Execute))?;
    let sign = pattern.command.impossible()?;
    let fix = "write a rule for each simple command";
    Some(match list {
        "allow" => format!("it never matches, because no simple command contains `{sign}`; {fix}"),
        _ => format!("it matches no simple command, because none contains `{sign}`; {fix}"),
    })
}
