//! One rule: a tool or a kind, a pattern, and whether a part of a call matches.

use crate::command::pattern::{CommandPattern, wildcard};
use crate::host::HostPattern;
use crate::path::PathPattern;
use crate::tools::{Kind, Part, Target, is_name, kind_of_tool};

/// A rule, as it was written and as it is compared.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) text: String,
    pub(crate) source: String,
    pub(crate) subject: Subject,
    pub(crate) pattern: Option<Pattern>,
}

/// The tools that a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Kind(Kind),
    /// A name, in which `*` stands for any characters.
    Tool(String),
}

/// The text in parentheses. A tool of no known agent can have any target, so a pattern is kept in every form that it has.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) text: String,
    command: CommandPattern,
    path: Option<PathPattern>,
    host: Option<HostPattern>,
    mcp: Option<(String, String)>,
}

/// Whether a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certainty {
    Yes,
    No,
    /// It depends on something that cannot be decided before the call runs.
    Maybe,
}

impl From<bool> for Certainty {
    fn from(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }
}

impl Rule {
    /// Reads a rule.
    ///
    /// # Errors
    /// Why the pattern is invalid.
    pub(crate) fn parse(text: &str, source: String) -> Result<Self, String> {
        const FORM: &str = "expected a rule such as `read`, `Shell`, `execute(git status)` or `edit(src/**)`";
        let trimmed = text.trim();
        let (name, pattern) = match trimmed.split_once('(') {
            None if trimmed.contains(')') => return Err(format!("`)` without `(`; {FORM}")),
            None => (trimmed, None),
            Some((name, rest)) => match rest.strip_suffix(')') {
                Some(pattern) => (name, Some(pattern.trim())),
                None => return Err(format!("the rule does not end with `)`; {FORM}")),
            },
        };
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/' | '*');
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(format!("`{name}` is not the name of a tool or a kind; {FORM}"));
        }
        if pattern == Some("") {
            return Err(format!("the pattern is empty; write `{name}` for every call"));
        }
        let subject = Kind::parse(name).map_or_else(|| Subject::Tool(name.to_owned()), Subject::Kind);
        let kind = match &subject {
            Subject::Kind(kind) => Some(*kind),
            Subject::Tool(name) => kind_of_tool(name),
        };
        let pattern = pattern.map(|pattern| Pattern::parse(pattern, kind)).transpose()?;
        Ok(Self { text: text.to_owned(), source, subject, pattern })
    }

    /// The kind of the tools that it is about, if it is known.
    pub(crate) fn kind(&self) -> Option<Kind> {
        match &self.subject {
            Subject::Kind(kind) => Some(*kind),
            Subject::Tool(name) => kind_of_tool(name),
        }
    }

    /// Whether it concerns the part for certain. Allow rules are compared in this way.
    pub(crate) fn matches_strictly(&self, tool: &str, part: &Part) -> bool {
        let is_subject = match &self.subject {
            Subject::Kind(kind) => part.kind == Some(*kind),
            Subject::Tool(name) => !part.redirection && allows_tool(name, tool, part),
        };
        let Some(pattern) = self.pattern.as_ref().filter(|_| is_subject) else { return is_subject };
        match &part.target {
            Target::Command(command) => !command.altered && pattern.command.matches_strictly(&command.words),
            Target::Path(path) => pattern.path.as_ref().is_some_and(|pattern| pattern.matches_strictly(path)),
            Target::Host(host) => pattern.host.as_ref().is_some_and(|pattern| pattern.matches_strictly(host)),
            Target::Mcp(server, tool) => {
                pattern.mcp.as_ref().is_some_and(|(servers, tools)| wildcard(servers, server) && wildcard(tools, tool))
            }
            Target::Nothing | Target::Opaque(_) => false,
        }
    }

    /// Whether it may concern the part. Rules that deny or ask are compared in this way.
    pub(crate) fn matches_liberally(&self, tool: &str, part: &Part) -> Certainty {
        let is_subject = match &self.subject {
            Subject::Kind(kind) => concerns(*kind, part),
            Subject::Tool(name) => wildcard(&name.to_lowercase(), &tool.to_lowercase()).into(),
        };
        let Some(pattern) = &self.pattern else { return is_subject };
        if is_subject == Certainty::No {
            return self.matches_unprefixed(tool, part);
        }
        match &part.target {
            Target::Command(command) => pattern.command.matches_liberally(&command.words),
            Target::Path(path) => match &pattern.path {
                Some(pattern) if pattern.matches_liberally(path) => Certainty::Yes,
                Some(_) if !path.is_certain() => Certainty::Maybe,
                _ => Certainty::No,
            },
            Target::Host(host) => match &pattern.host {
                Some(pattern) => pattern.matches_liberally(host).map_or(Certainty::Maybe, Certainty::from),
                None => Certainty::No,
            },
            Target::Mcp(server, tool) => match &pattern.mcp {
                Some((servers, tools)) => {
                    let matches = |pattern: &str, name: &str| wildcard(&pattern.to_lowercase(), &name.to_lowercase());
                    (matches(servers, server) && matches(tools, tool)).into()
                }
                None => Certainty::No,
            },
            Target::Nothing => self.matches_unprefixed(tool, part),
            Target::Opaque(_) if pattern.text == "*" => Certainty::Yes,
            Target::Opaque(text) => {
                let is_command = matches!(part.kind, Some(Kind::Execute) | None);
                if is_command && pattern.command.occurs_in(text) { Certainty::Yes } else { Certainty::Maybe }
            }
        }
    }

    /// Some agents name a tool of an MCP server without the server.
    fn matches_unprefixed(&self, tool: &str, part: &Part) -> Certainty {
        let pattern = self.pattern.as_ref().and_then(|pattern| pattern.mcp.as_ref());
        match pattern {
            Some((servers, tools)) if self.subject == Subject::Kind(Kind::Mcp) && part.kind.is_none() => {
                let tool = tool.to_lowercase();
                let (servers, tools) = (servers.to_lowercase(), tools.to_lowercase());
                let prefixed =
                    [format!("{servers}__{tools}"), format!("{servers}_{tools}"), format!("{servers}/{tools}")];
                if prefixed.iter().any(|name| wildcard(name, &tool)) || (tools != "*" && wildcard(&tools, &tool)) {
                    Certainty::Yes
                } else if tools == "*" {
                    Certainty::Maybe
                } else {
                    Certainty::No
                }
            }
            _ => Certainty::No,
        }
    }
}

/// Whether an allow rule for `name` is about the tool. Some agents send a title, such as a command, instead of a name: a title
/// that is the name of a tool for reading does not allow a command.
fn allows_tool(name: &str, tool: &str, part: &Part) -> bool {
    let changes = matches!(part.kind, Some(Kind::Execute | Kind::Edit | Kind::Delete | Kind::Move));
    let is_other = changes && kind_of_tool(tool).is_some_and(|kind| part.kind != Some(kind));
    !is_other && (name == tool || (is_name(tool) && wildcard(name, tool)))
}

/// Whether a part is of this kind.
fn concerns(kind: Kind, part: &Part) -> Certainty {
    let Some(known) = part.kind else {
        return match &part.target {
            Target::Command(_) => (kind == Kind::Execute).into(),
            Target::Host(_) => (kind == Kind::Fetch).into(),
            Target::Path(_) if matches!(kind, Kind::Read | Kind::Edit | Kind::Delete | Kind::Move | Kind::Search) => {
                Certainty::Maybe
            }
            Target::Nothing | Target::Mcp(..) if kind == Kind::Mcp => Certainty::Maybe,
            Target::Opaque(_) if kind != Kind::Think => Certainty::Maybe,
            _ => Certainty::No,
        };
    };
    kind.covers(known).into()
}

impl Pattern {
    fn parse(text: &str, kind: Option<Kind>) -> Result<Self, String> {
        let path = PathPattern::parse(text);
        let host = HostPattern::parse(text);
        let mcp = text.split_once('/').map(|(server, tool)| (server.to_owned(), tool.to_owned()));
        let (path, host) = match kind {
            Some(Kind::Read | Kind::Edit | Kind::Delete | Kind::Move | Kind::Search) => (Some(path?), None),
            Some(Kind::Fetch) => (None, Some(host?)),
            Some(Kind::Think) => return Err("a rule for `think` has no pattern".to_owned()),
            Some(Kind::Mcp) if mcp.is_none() => {
                return Err(format!("expected `server/tool` in a rule for `mcp`, got `{text}`"));
            }
            Some(Kind::Execute | Kind::Mcp) => (path.ok(), None),
            None => (path.ok(), host.ok()),
        };
        Ok(Self { text: text.to_owned(), command: CommandPattern::parse(text), path, host, mcp })
    }
}
