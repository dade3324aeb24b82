//! One rule: a tool or a kind, a pattern, and whether a part of a call matches.

use crate::Tool;
use crate::command::pattern::{CommandPattern, open_quote, wildcard};
use crate::host::HostPattern;
use crate::kinds::{Kind, is_name, kind_of_tool, mcp_names, misspelt_kind};
use crate::mcp::{McpPattern, NamePattern};
use crate::path::PathPattern;
use crate::tools::{Part, Target};

/// A rule, as it was written and as it is compared.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) text: String,
    pub(crate) source: String,
    pub(crate) subject: Subject,
    pub(crate) pattern: Option<Pattern>,
    /// The name of the tool in lower case.
    lower: String,
    /// The name of the tool, for a rule that names no server.
    named: Option<NamePattern>,
    /// The tool of an MCP server that the rule names without a pattern.
    named_mcp: Option<McpPattern>,
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
    pub(crate) command: CommandPattern,
    pub(crate) path: Option<PathPattern>,
    pub(crate) host: Option<HostPattern>,
    pub(crate) mcp: Option<McpPattern>,
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
        /// Longer rules are refused.
        const MAX_RULE: usize = 8192;
        const FORM: &str = "expected a rule such as `read`, `Shell`, `execute(git status)` or `edit(src/**)`";
        let trimmed = text.trim();
        if trimmed.len() > MAX_RULE {
            return Err(format!("the rule is longer than {MAX_RULE} bytes"));
        }
        if trimmed.contains(|c: char| {
            c.is_control()
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
        }) {
            return Err("the rule has control or invisible characters".to_owned());
        }
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
        if let Some(meant) = misspelt_kind(name) {
            return Err(format!("`{name}` is not a kind; write `{meant}` (or, for a tool with this name, `{name}*`)"));
        }
        let pattern = pattern.map(|pattern| Pattern::parse(pattern, kind)).transpose()?;
        let lower = name.to_lowercase();
        let named_mcp = lower.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"));
        // Without a pattern, a rule for the kind is about each server.
        let named_mcp = named_mcp.or((subject == Subject::Kind(Kind::Mcp)).then_some(("*", "*")));
        let named_mcp = named_mcp.filter(|_| pattern.is_none()).map(|(server, tool)| McpPattern::new(server, tool));
        let named = matches!(&subject, Subject::Tool(_)).then(|| NamePattern::new(name));
        let named = named.filter(|_| !lower.starts_with("mcp__"));
        Ok(Self { text: text.to_owned(), source, subject, pattern, lower, named, named_mcp })
    }

    /// Returns which calls the rule is about, for people.
    pub(crate) fn meaning(&self) -> String {
        let text = self.pattern.as_ref().map(|pattern| &*pattern.text).filter(|text| *text != "*");
        let tools = match &self.subject {
            Subject::Kind(_) => String::new(),
            Subject::Tool(name) if name.contains('*') => format!(", by tools whose names match `{name}`"),
            Subject::Tool(name) => format!(", by the tool `{name}`"),
        };
        let (any, some) = match self.kind() {
            Some(Kind::Read) => ("reads any file", "reads files that match"),
            Some(Kind::Edit) => ("changes any file", "changes files that match"),
            Some(Kind::Delete) => ("deletes any file", "deletes files that match"),
            Some(Kind::Move) => ("moves any file", "moves files that match"),
            Some(Kind::Search) => ("searches in any file", "searches in files that match"),
            Some(Kind::Execute) if self.spells_all() => {
                ("runs any command", "runs the command with exactly these words:")
            }
            Some(Kind::Execute) => ("runs any command", "runs commands that match"),
            Some(Kind::Fetch) => ("fetches from any host", "fetches from hosts that match"),
            Some(Kind::Think) => ("thinks", "thinks about"),
            Some(Kind::Mcp) => ("calls any tool of an MCP server", "calls tools of MCP servers that match"),
            None => ("does anything", "has a command, a path or a host that matches"),
        };
        text.map_or_else(|| format!("{any}{tools}"), |text| format!("{some} `{text}`{tools}"))
    }

    /// Whether it names a tool of an MCP server.
    pub(crate) fn names_mcp(&self) -> bool {
        self.named_mcp.is_some()
    }

    /// The tool of an MCP server that it is about.
    pub(crate) fn mcp(&self) -> Option<&McpPattern> {
        self.named_mcp.as_ref().or_else(|| self.pattern.as_ref()?.mcp.as_ref())
    }

    /// The name of the tool in plain form, for a rule that names no server.
    pub(crate) fn plain_name(&self) -> Option<&str> {
        self.named.as_ref().map(NamePattern::plain).filter(|plain| !plain.is_empty())
    }

    /// The name of the tool in lower case.
    pub(crate) fn lower(&self) -> &str {
        &self.lower
    }

    /// Whether it is about any target of its kind.
    pub(crate) fn is_bare(&self) -> bool {
        self.pattern.is_none()
    }

    /// Whether it spells each word of a command.
    pub(crate) fn spells_all(&self) -> bool {
        self.pattern.as_ref().is_some_and(|pattern| pattern.command.spells_all())
    }

    /// Whether it is about any target of its kind, also about one that cannot be decided.
    pub(crate) fn is_about_any(&self) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| pattern.text == "*")
    }

    /// Whether its pattern has more than wildcards and signs.
    fn names_something(&self) -> bool {
        self.pattern.as_ref().is_some_and(|pattern| pattern.text.contains(char::is_alphanumeric))
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
        if part.is_text && !self.names_something() {
            return false;
        }
        let is_subject = match &self.subject {
            Subject::Kind(kind) => part.kind == Some(*kind),
            Subject::Tool(name) => !part.redirection && allows_tool(name, tool, part),
        };
        let Some(pattern) = self.pattern.as_ref().filter(|_| is_subject) else { return is_subject && !part.is_word() };
        if part.doubt.is_some() || part.vague {
            return false;
        }
        match &part.target {
            Target::Command(command) => pattern.command.matches_strictly(command),
            Target::Path(path) => pattern.path.as_ref().is_some_and(|pattern| pattern.matches_strictly(path)),
            Target::Host(host) => pattern.host.as_ref().is_some_and(|pattern| pattern.matches_strictly(host)),
            Target::Mcp(names) => pattern.mcp.as_ref().is_some_and(|pattern| pattern.matches_strictly(names)),
            Target::Nothing | Target::Opaque(_) => false,
        }
    }

    /// Whether it may concern the part. Rules that deny or ask are compared in this way.
    pub(crate) fn matches_liberally(&self, tool: Tool<'_>, part: &Part) -> Certainty {
        if part.is_text && !self.names_something() {
            return Certainty::No;
        }
        let certainty = self.matches_target(tool, part);
        // A file of a tool of which no kind is known, and a rule about each file of a kind.
        let is_any_file = self.is_bare() && !part.is_word() && matches!(part.target, Target::Path(_));
        match certainty {
            Certainty::Yes if part.vague => Certainty::Maybe,
            Certainty::Maybe if part.shadow && !part.hides && !part.vague && !part.is_any_path() && !is_any_file => {
                Certainty::No
            }
            certainty => certainty,
        }
    }

    fn matches_target(&self, tool: Tool<'_>, part: &Part) -> Certainty {
        let is_subject = match &self.subject {
            Subject::Kind(kind) => concerns_file(*kind, part),
            Subject::Tool(name) => {
                let is_named = |tool: &str| {
                    if name.contains('*') { wildcard(&self.lower, tool) } else { self.lower == tool }
                };
                if is_named(tool.lower) || tool.others.iter().any(|other| is_named(other)) {
                    Certainty::Yes
                } else {
                    self.named.as_ref().map_or(Certainty::No, |named| matches_name(named, tool, part))
                }
            }
        };
        let Some(pattern) = &self.pattern else {
            // A word that may mean no file needs a rule that names it.
            if part.is_word() {
                return Certainty::No;
            }
            return match &self.named_mcp {
                Some(named) if is_subject == Certainty::No => matches_mcp(named, tool, part),
                _ => is_subject,
            };
        };
        if self.subject == Subject::Kind(Kind::Mcp) {
            let certainty = pattern.mcp.as_ref().map_or(Certainty::No, |pattern| matches_mcp(pattern, tool, part));
            let may_be = is_subject != Certainty::No && matches!(part.target, Target::Opaque(_));
            return if certainty == Certainty::No && may_be { Certainty::Maybe } else { certainty };
        }
        if is_subject == Certainty::No {
            return Certainty::No;
        }
        match &part.target {
            Target::Command(command) => pattern.command.matches_liberally(command),
            Target::Path(path) => {
                pattern.path.as_ref().map_or(Certainty::No, |pattern| pattern.matches_liberally(path))
            }
            Target::Host(host) => match &pattern.host {
                Some(pattern) => match pattern.matches_liberally(host) {
                    Some(is_meant) => is_meant.into(),
                    // A text that may be no host at all.
                    None if part.vague => Certainty::No,
                    None => Certainty::Maybe,
                },
                None => Certainty::No,
            },
            Target::Mcp(names) => pattern.mcp.as_ref().is_some_and(|pattern| pattern.matches_split(names)).into(),
            Target::Nothing => Certainty::No,
            Target::Opaque(_) if pattern.text == "*" && is_subject == Certainty::Yes => Certainty::Yes,
            Target::Opaque(text) => {
                let is_command = matches!(part.kind, Some(Kind::Execute) | None)
                    && self.kind().is_none_or(|kind| kind == Kind::Execute);
                if is_command && pattern.command.occurs_in(&text.words) { Certainty::Yes } else { Certainty::Maybe }
            }
        }
    }
}

/// Whether a tool of any server has the name.
fn matches_name(named: &NamePattern, tool: Tool<'_>, part: &Part) -> Certainty {
    if matches!(&part.target, Target::Mcp(names) if named.matches_split(names)) {
        return Certainty::Yes;
    }
    let mut certainties = tool.names.iter().map(|name| named.matches(name)).filter(|found| *found != Certainty::No);
    let first = certainties.next().unwrap_or(Certainty::No);
    if certainties.any(|found| found == Certainty::Yes) { Certainty::Yes } else { first }
}

/// Words before the name of a tool of any server.
const OF_ANY_SERVER: [&str; 6] = ["tools", "tool", "functions", "function", "mcp", "defaultapi"];

/// Whether a tool of an MCP server may be meant. Some agents name it in other ways, or without the server.
fn matches_mcp(pattern: &McpPattern, tool: Tool<'_>, part: &Part) -> Certainty {
    if let Target::Mcp(names) = &part.target {
        if pattern.matches_split(names) {
            return Certainty::Yes;
        }
        if pattern.may_match_split(names) {
            return Certainty::Maybe;
        }
    }
    // A tool of a server can have the name of one of an agent.
    let is_stated = part.kind == Some(Kind::Mcp) && !part.shadow;
    if part.redirection || (!is_stated && kind_of_tool(tool.name).is_some_and(|kind| kind != Kind::Mcp)) {
        return Certainty::No;
    }
    let is_unknown = part.kind.is_none();
    match pattern.matches_other(tool.name, tool.plain) {
        Certainty::Maybe if is_unknown && !is_name(tool.name) => return Certainty::Yes,
        // Without a server in its name, a tool can be the program's or that of any server.
        Certainty::No if matches!(part.target, Target::Mcp(_)) => {
            let mut named = std::iter::once(tool.plain)
                .chain(OF_ANY_SERVER.iter().filter_map(|start| tool.plain.strip_prefix(start)));
            if !part.shadow && mcp_names(tool.name).is_empty() && named.any(|plain| pattern.is_named(plain)) {
                return Certainty::Maybe;
            }
        }
        Certainty::No => {
            let is_alone = pattern.is_named(tool.plain);
            if is_alone && is_unknown {
                return Certainty::Yes;
            }
            if is_alone || (pattern.is_any_tool() && is_unknown && !part.shadow) {
                return Certainty::Maybe;
            }
        }
        certainty => return certainty,
    }
    Certainty::No
}

/// Whether an allow rule for `name` is about the tool. Some agents send a title, such as a command, instead of a name: a title
/// that is the name of a tool for reading does not allow a command.
fn allows_tool(name: &str, tool: &str, part: &Part) -> bool {
    let changes = matches!(part.kind, Some(Kind::Execute | Kind::Edit | Kind::Delete | Kind::Move));
    let is_other = changes && kind_of_tool(tool).is_some_and(|kind| part.kind != Some(kind));
    !is_other && (name == tool || (is_name(tool) && wildcard(name, tool)))
}

/// Whether a part is of this kind.
pub(crate) fn concerns(kind: Kind, part: &Part) -> Certainty {
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
    let is_file = matches!(kind, Kind::Read | Kind::Edit | Kind::Delete | Kind::Move | Kind::Search);
    if is_file && known == Kind::Execute && matches!(part.target, Target::Opaque(_)) {
        // A command that cannot be read may open any file.
        return Certainty::Maybe;
    }
    kind.covers(known).into()
}

/// Whether a rule is about a part of this kind: the content of a file that is moved gets another name, and one that
/// must not be read must not be deleted.
pub(crate) fn concerns_file(kind: Kind, part: &Part) -> Certainty {
    let takes = matches!(part.kind, Some(Kind::Delete | Kind::Move))
        && matches!(part.target, Target::Path(_) | Target::Opaque(_));
    if kind == Kind::Read && takes { Certainty::Yes } else { concerns(kind, part) }
}

impl Pattern {
    fn parse(text: &str, kind: Option<Kind>) -> Result<Self, String> {
        if let Some(quote) = open_quote(text).filter(|_| kind == Some(Kind::Execute)) {
            return Err(format!("a quote `{quote}` in the pattern is not closed"));
        }
        let path = PathPattern::parse(text);
        let host = HostPattern::parse(text);
        // `mcp(*)` is about each tool of each server, as `*` is for other kinds.
        let any = Some(("*", "*")).filter(|_| kind == Some(Kind::Mcp) && text == "*");
        let mcp = text.split_once('/').or(any).map(|(server, tool)| McpPattern::new(server, tool));
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
