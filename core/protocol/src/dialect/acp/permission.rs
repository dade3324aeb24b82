//! Permission requests. They are approvals if the options are known kinds, and questions if they offer a choice.

use std::collections::HashMap;

use agent_client_protocol_schema::v1::{
    self as acp, PermissionOptionKind as Kind, RequestPermissionOutcome, RequestPermissionResponse,
};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::tools::AskedQuestion;
use super::unreadable::{Of, unread_parts};
use super::{Acp, Asks, OpenRequest, content, meta, request_id, unknown};
use crate::answers::Approval;
use crate::dialect::ends::in_snake_case;
use crate::dialect::{Answer, Incoming, OfferedOptions};
use crate::json::exact;
use crate::jsonrpc::relayed::has_repeated_names;
use crate::jsonrpc::{Params, is_too_deep};
use crate::messages::{ApprovalRequest, Event, Question, QuestionOption, QuestionRequest};
use crate::printable::printable;

/// An open permission request.
#[derive(Debug)]
pub(super) struct Permission {
    options: Vec<Choice>,
    /// For each option: whether its id means only this option.
    plain: Vec<bool>,
    /// The text of the question, which the answer names.
    question: String,
}

/// The agent's request. The type of the ACP crate cannot be read if an option has an unknown kind.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    session_id: acp::SessionId,
    tool_call: acp::ToolCallUpdate,
    #[serde(deserialize_with = "choices")]
    options: (Vec<Choice>, Value),
}

/// One of its options.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Choice {
    option_id: acp::PermissionOptionId,
    name: String,
    /// `None` if the kind is unknown.
    #[serde(default, deserialize_with = "known")]
    kind: Option<Kind>,
}

fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Kind>, D::Error> {
    let kind = Value::deserialize(deserializer)?;
    // Some agents write `allowOnce` or `ALLOW_ONCE`.
    let word = kind.as_str().map(in_snake_case);
    Ok(word.and_then(|word| Kind::deserialize(Value::String(word)).ok()))
}

/// The options, and their ids at the agent.
fn choices<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(Vec<Choice>, Value), D::Error> {
    let spelled = Value::deserialize(deserializer)?;
    let read = Vec::deserialize(&spelled).map_err(serde::de::Error::custom)?;
    Ok((read, spelled))
}

/// The answer if the turn was cancelled before the decision.
pub(super) fn cancelled() -> RequestPermissionResponse {
    RequestPermissionResponse::new(RequestPermissionOutcome::Cancelled)
}

/// Returns whether an option only skips a question, by the name that Kimi Code uses.
fn is_skip(option: &Choice) -> bool {
    let id = &*option.option_id.0;
    let number = id.strip_prefix('q').and_then(|rest| rest.strip_suffix("_skip"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// How much an option allows. A larger value allows more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Power {
    Nothing,
    Once,
    Always,
    /// The kind is unknown.
    Unknown,
}

impl Choice {
    fn power(&self) -> Power {
        match self.kind {
            Some(Kind::RejectOnce | Kind::RejectAlways) => Power::Nothing,
            Some(Kind::AllowOnce) => Power::Once,
            Some(Kind::AllowAlways) => Power::Always,
            _ => Power::Unknown,
        }
    }

    /// Returns whether the label or the id says that the permission lasts, or that it is about more than this call.
    fn lasts(&self) -> bool {
        const WORDS: [&str; 11] = [
            "always",
            "forever",
            "permanent",
            "permanently",
            "session",
            "bypass",
            "yolo",
            "trust",
            "all",
            "everything",
            "project",
        ];
        let id = self.option_id.0.to_lowercase();
        let mut words = id.split(|c: char| !c.is_alphanumeric());
        reads_as_lasting(&self.name) || words.any(|word| WORDS.contains(&word))
    }

    /// Returns whether the label says the opposite of the kind, for example "No" on an option that allows. Kimi Code's
    /// answers to a question always have the kind `allow_once`, so they are not checked.
    fn contradicts_itself(&self) -> bool {
        match self.power() {
            Power::Nothing => reads_as_permission(&self.name),
            Power::Once => (reads_as_refusal(&self.name) || self.lasts()) && !is_answer(self),
            Power::Always => reads_as_refusal(&self.name) && !is_answer(self),
            Power::Unknown => false,
        }
    }
}

fn words(label: &str) -> Vec<String> {
    let letters = |c: char| !c.is_alphanumeric() && !matches!(c, '\'' | '’');
    let words = label.split(letters).filter(|word| !word.is_empty()).take(3);
    words.map(|word| word.to_lowercase().replace('’', "'")).collect()
}

fn reads_as_refusal(label: &str) -> bool {
    let words = words(label);
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["don't" | "dont" | "never", "allow" | "approve" | "run", ..]
        | ["do", "not", "allow" | "approve" | "run"]
        | ["never"]
        | ["not", "now", ..] => true,
        [first, ..] => matches!(
            first,
            "no" | "nope"
                | "reject"
                | "deny"
                | "decline"
                | "refuse"
                | "disallow"
                | "forbid"
                | "block"
                | "cancel"
                | "abort"
        ),
        [] => false,
    }
}

/// Returns whether the label says that the permission lasts.
fn reads_as_lasting(label: &str) -> bool {
    const LASTING: &[&str] = &[
        "always",
        "forever",
        "permanently",
        "bypass",
        "don't ask",
        "do not ask",
        "never ask",
        "this session",
        "for session",
        "the session",
        "this project",
        "this workspace",
        "this conversation",
        "for all",
        "allow all",
        "approve all",
        "accept all",
        "yes to all",
        "allow everything",
        "every time",
        "from now on",
        "until restart",
        "auto-accept",
        "auto-approve",
        "auto-edit",
        "auto accept",
        "auto approve",
        "auto-run",
        "auto run",
        "auto mode",
        "approve everything",
        "accept everything",
        "yes to everything",
        "yolo",
        "trust",
        "full access",
        "allowlist",
        "whitelist",
        "remember",
        "from here on",
        "going forward",
        "in the future",
        "stop asking",
        "without asking",
        "skip permission",
        "this folder",
        "this directory",
        "this repository",
        "all commands",
        "all tools",
        "all edits",
        "all requests",
        "any command",
        "similar commands",
        "commands like this",
    ];
    let label = label.to_lowercase().replace('’', "'");
    // "Yes for git commands" is about others, too.
    let is_of_several = label.split_once(" for ").is_some_and(|(_, rest)| rest.trim_end().ends_with(" commands"));
    is_of_several || LASTING.iter().any(|text| label.contains(text))
}

fn reads_as_permission(label: &str) -> bool {
    let words = words(label);
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["always", "allow" | "approve" | "accept", ..] => true,
        [first, ..] => matches!(first, "yes" | "allow" | "approve" | "accept" | "ok" | "okay"),
        [] => false,
    }
}

/// Returns whether the label ends with the session, for example "Allow for this session".
fn names_session(label: &str) -> bool {
    let end = label.trim_end_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    ["this session", "the session"].iter().any(|session| end.ends_with(session))
}

/// Returns whether the option is an answer to a question, by the id that Kimi Code uses: `q0_opt_1`.
fn is_answer(option: &Choice) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = option.option_id.0.strip_prefix('q').and_then(|rest| rest.split_once("_opt_"));
    parts.is_some_and(|(question, answer)| digits(question) && digits(answer))
}

/// Returns whether the options are those of an approval: one option allows the action once, and one rejects it once.
/// The number of options that allow it always does not matter if one allows it once. Options of unknown kinds are never chosen.
fn is_approval(options: &[Choice]) -> bool {
    let count = |kind: Kind| options.iter().filter(|option| option.kind == Some(kind)).count();
    let (once, always) = (count(Kind::AllowOnce), count(Kind::AllowAlways));
    let (reject_once, reject_always) = (count(Kind::RejectOnce), count(Kind::RejectAlways));
    let is_complete = once == 1 && reject_once.max(reject_always) >= 1;
    let are_known = is_complete || options.iter().all(|option| option.kind.is_some());
    let has_skip = options.iter().any(is_skip);
    are_known && !has_skip && once <= 1 && reject_once <= 1 && (always <= 1 || once == 1)
}

/// Returns for each option whether its id means only this option. Options that reject may share an id. An option whose
/// label contradicts its kind is never chosen.
fn plain(options: &[Choice]) -> Vec<bool> {
    let same = |first: &Choice, other: &Choice| {
        let equal = other.power() == first.power();
        equal && (first.power() == Power::Nothing || (other.kind == first.kind && other.name == first.name))
    };
    // By id: the first option, and whether all are like it.
    let mut twins: HashMap<&str, (&Choice, bool)> = HashMap::new();
    for option in options {
        let (first, are_plain) = twins.entry(&*option.option_id.0).or_insert((option, true));
        *are_plain &= same(first, option) && !option.contradicts_itself();
    }
    options.iter().map(|option| twins.get(&*option.option_id.0).is_some_and(|(_, are_plain)| *are_plain)).collect()
}

impl Permission {
    fn new(options: Vec<Choice>, question: String) -> Self {
        Self { plain: plain(&options), options, question }
    }

    /// The options, and whether the id of each means only this option.
    fn all(&self) -> impl Iterator<Item = (&Choice, bool)> {
        self.options.iter().zip(self.plain.iter().copied())
    }

    fn plain(&self, kind: Kind) -> impl Iterator<Item = &Choice> {
        let is_meant = move |(option, is_plain): &(&Choice, bool)| *is_plain && option.kind == Some(kind);
        self.all().filter(is_meant).map(|(option, _)| option)
    }

    /// Returns the only option of that kind. `None` if there are several, because the scope of each is unknown.
    fn only(&self, kind: Kind) -> Option<&Choice> {
        let several = self.options.iter().filter(|option| option.kind == Some(kind)).count() > 1;
        self.plain(kind).next().filter(|_| !several)
    }

    /// Returns the option that allows until the end of the session: the only one that always allows, or the only one of
    /// them whose label ends with the session.
    fn for_session(&self) -> Option<&Choice> {
        let is_of_session = |option: &&Choice| option.kind == Some(Kind::AllowAlways) && names_session(&option.name);
        let several = self.options.iter().filter(is_of_session).count() > 1;
        self.only(Kind::AllowAlways)
            .or_else(|| self.plain(Kind::AllowAlways).find(|option| names_session(&option.name)).filter(|_| !several))
    }

    /// Returns the option that rejects. `None` without such an option; then no option is chosen.
    fn rejection(&self) -> Option<&Choice> {
        self.plain(Kind::RejectOnce).next().or_else(|| self.plain(Kind::RejectAlways).next())
    }

    /// Returns the option with this label. If several options have it, returns the one that allows least, unless that
    /// is ambiguous.
    fn labelled(&self, label: &str) -> Option<&Choice> {
        let least = self.options.iter().filter(|option| option.name == label).map(Choice::power).min()?;
        let mut all = self.all().filter(|(option, _)| option.name == label && option.power() == least);
        let (first, _) = all.next().filter(|(_, is_plain)| *is_plain)?;
        let clear = least == Power::Nothing || all.all(|(other, _)| other.option_id == first.option_id);
        clear.then_some(first)
    }

    /// Returns the options, for a program that passes the request on.
    pub(super) fn offered(&self) -> OfferedOptions {
        let options =
            self.options.iter().map(|option| (option.option_id.0.to_string(), option.power() != Power::Nothing));
        OfferedOptions { options: options.collect(), are_clear: self.plain.iter().all(|is_plain| *is_plain) }
    }

    pub(super) fn outcome(&self, answer: &Answer) -> RequestPermissionResponse {
        let chosen = match answer {
            // An approval for once must not become a permanent one.
            Answer::Approval(Approval::Approve) => self.plain(Kind::AllowOnce).next(),
            Answer::Approval(Approval::ApproveForSession) => {
                self.for_session().or_else(|| self.plain(Kind::AllowOnce).next())
            }
            Answer::Question(Some(answers)) => {
                let label = answers.get(&self.question);
                let chosen = label.and_then(|label| self.labelled(label));
                if chosen.is_none() {
                    let label = label.map(printable);
                    tracing::warn!(
                        label = label.as_deref(),
                        "question dismissed: the answer names no option unambiguously"
                    );
                }
                chosen.or_else(|| self.rejection())
            }
            _ => self.rejection(),
        };
        match chosen {
            Some(option) => RequestPermissionResponse::new(RequestPermissionOutcome::Selected(
                acp::SelectedPermissionOutcome::new(option.option_id.clone()),
            )),
            None => {
                if matches!(answer, Answer::Approval(Approval::Approve | Approval::ApproveForSession)) {
                    tracing::warn!(
                        "an approval is answered as cancelled: the agent offers no option that surely allows this call once"
                    );
                }
                cancelled()
            }
        }
    }
}

/// Reads a request whose session or tool call has a number as its id.
fn with_text_id(params: &str) -> Option<Asked> {
    let mut params: Value = serde_json::from_str(params).ok()?;
    for place in ["/sessionId", "/toolCall/toolCallId"] {
        if let Some(id) = params.pointer_mut(place).filter(|id| id.is_number()) {
            *id = id.to_string().into();
        }
    }
    exact(&params.to_string()).ok()
}

impl Acp {
    pub(super) fn read_permission(&mut self, rpc_id: &str, params: &Params<'_>) -> Incoming {
        let refused = |error: String| Incoming::Request {
            rpc_id: rpc_id.to_owned(),
            request: Box::new(unknown("session/request_permission", params.to_json().get(), Some(error))),
        };
        if is_too_deep(params.get()) {
            return refused("nested too deep, and left out".to_owned());
        }
        let asked: Asked = match exact(params.get()).or_else(|error| with_text_id(params.get()).ok_or(error)) {
            Ok(asked) => asked,
            Err(error) => return refused(error),
        };
        if !self.is_ours(&asked.session_id.0) {
            return refused(format!("sessionId: no session `{}` here", asked.session_id.0));
        }
        let mut all = Vec::new();
        self.begin_step(&mut all);
        let call_id = asked.tool_call.tool_call_id.0.to_string();
        let fields = &asked.tool_call.fields;
        self.restate(&call_id, asked.tool_call.meta.as_ref(), fields, &mut all);
        let described = params.member("toolCall").ok().flatten().unwrap_or_default();
        self.note_unreadable(&call_id, described, Of::Request);
        if has_repeated_names(params.get()) {
            self.tools.set_incomplete(&call_id);
        }
        let unread = unread_parts(described);
        let order = self.next_order();
        let is_own = unread.is_empty() && self.is_own_call(&call_id, fields, &asked.options.0);
        let approval = self.approval(rpc_id, &call_id, &asked, &unread);
        let (mut request, question, choice): (Event, _, _) = if is_approval(&asked.options.0) {
            (approval.into(), String::new(), None)
        } else {
            let mut question = self.question(&call_id, &asked, &unread);
            let text = question.question.clone();
            let choice = (!self.only_asks(&call_id, &asked)).then(|| Box::new(approval));
            if let Some(approval) = choice.as_ref().filter(|_| self.does_something(&call_id)) {
                question.body = Some(self.shown(&call_id, &approval.description)).filter(|body| !body.is_empty());
            }
            let (id, tool_call_id) = (request_id(rpc_id), call_id);
            let request = QuestionRequest { id, tool_call_id, questions: vec![question], extra: Default::default() };
            (request.into(), text, choice)
        };
        self.tools.count(&asked.tool_call.tool_call_id.0);
        let of_message = meta::read(params.member("_meta").unwrap_or_default());
        meta::put_into(&mut request, meta::of_both(of_message, asked.tool_call.meta.as_ref()));
        let asks = Asks::Permission(Permission::new(asked.options.0, question));
        self.open.insert(rpc_id.to_owned(), OpenRequest { order, of_turn: self.prompting, asks });
        let (rpc_id, request) = (rpc_id.to_owned(), Box::new(request));
        all.push(match choice {
            Some(approval) => Incoming::Choice { rpc_id, question: request, approval },
            None if is_own => Incoming::OwnToolRequest { rpc_id, request },
            None => Incoming::Request { rpc_id, request },
        });
        Incoming::batch(all)
    }

    /// Returns whether a permission request is surely about a tool of the program, which needs no approval: the tool's
    /// function decides. Agents of Wire do not ask about them. A model may choose a title, so the name is not enough: the
    /// arguments must be those of the tool, and nothing may say that the call does something else.
    fn is_own_call(&self, call_id: &str, fields: &acp::ToolCallUpdateFields, options: &[Choice]) -> bool {
        let Some(name) = self.tools.name(call_id) else { return false };
        let title = fields.title.as_deref().or_else(|| self.tools.updated_title(call_id));
        let is_title_of_tool = title.is_none_or(|title| title == name || self.own_tool(title).is_some());
        let details = self.tools.details(call_id);
        let is_plainly_described = !self.tools.may_change_something(call_id)
            && !details.is_changed()
            && !details.is_incomplete
            && !self.tools.is_restated(call_id)
            && details.locations.is_empty()
            && details.diffs.is_empty();
        // Parsed last: the agent can ask often about a call with many arguments.
        let has_own_arguments =
            || self.tools.arguments(call_id).is_some_and(|arguments| self.is_own_arguments(name, &arguments));
        self.own_tool(name).is_some()
            && is_title_of_tool
            && is_plainly_described
            && has_own_arguments()
            // The program decides about an ambiguous request.
            && options.iter().zip(plain(options)).any(|(option, is_plain)| is_plain && option.kind == Some(Kind::AllowOnce))
            && is_approval(options)
            && self.cancelling.is_none()
    }

    /// Returns whether a request is a question that a tool asks the user, as Kimi Code does, and not about what the tool does.
    fn only_asks(&self, call_id: &str, asked: &Asked) -> bool {
        let details = self.tools.details(call_id);
        asked.options.0.iter().all(|option| is_answer(option) || is_skip(option))
            && !self.tools.questions(call_id).is_empty()
            && !self.tools.may_change_something(call_id)
            && !details.is_changed()
            && details.locations.is_empty()
            && details.diffs.is_empty()
    }

    /// Returns whether a call does more than to ask, or may do so.
    fn does_something(&self, call_id: &str) -> bool {
        let details = self.tools.details(call_id);
        let has_command = || self.tools.arguments(call_id).is_some_and(|arguments| arguments.contains_key("command"));
        self.tools.may_change_something(call_id)
            || details.is_incomplete
            || !details.locations.is_empty()
            || !details.diffs.is_empty()
            || has_command()
    }

    /// Returns a description with the arguments of the call that it does not have.
    fn shown(&self, call_id: &str, description: &str) -> String {
        let arguments = self.tools.arguments(call_id).unwrap_or_default();
        let texts = arguments.values().filter_map(Value::as_str).filter(|text| !text.is_empty());
        let missing: Vec<_> = texts.filter(|text| !description.contains(text)).collect();
        std::iter::once(description).chain(missing).collect::<Vec<_>>().join("\n\n")
    }

    /// Makes a question from options that are not those of an approval. Each option is offered by its name.
    fn question(&self, call_id: &str, asked: &Asked, unread: &[String]) -> Question {
        let content = asked.tool_call.fields.content.as_deref().unwrap_or_default();
        let title = self.tools.title_of(call_id, &asked.tool_call.fields);
        // The texts before the question are its subject, for example a plan.
        let mut texts = content::texts(content);
        let question = texts.pop().filter(|text| !text.is_empty()).unwrap_or(title).to_owned();
        texts.extend(unread.iter().map(String::as_str));
        let body = Some(texts.join("\n\n")).filter(|body| !body.is_empty());
        // The arguments of the tool have more details than the request.
        let known = self.tools.questions(call_id).into_iter().find(|asked| asked.question == question);
        let descriptions = known.as_ref().map(AskedQuestion::descriptions).unwrap_or_default();
        let options = asked
            .options
            .0
            .iter()
            .filter(|option| !is_skip(option))
            .map(|option| QuestionOption {
                label: option.name.clone(),
                description: descriptions.get(&*option.name).map(|text| (*text).to_owned()),
                extra: Default::default(),
            })
            .collect();
        Question {
            question,
            header: known.as_ref().and_then(|known| known.header.clone()),
            options,
            multi_select: Some(false),
            body,
            other_label: None,
            other_description: None,
            extra: Default::default(),
        }
    }

    fn approval(&self, rpc_id: &str, call_id: &str, asked: &Asked, unread: &[String]) -> ApprovalRequest {
        let fields = &asked.tool_call.fields;
        let content = fields.content.as_deref().unwrap_or_default();
        let title = self.tools.title_of(call_id, fields).to_owned();
        let texts: Vec<&str> = content::texts(content).into_iter().chain(unread.iter().map(String::as_str)).collect();
        let mut request = ApprovalRequest {
            id: request_id(rpc_id),
            tool_call_id: call_id.to_owned(),
            sender: self.tools.name(call_id).map_or(&*title, |name| self.own_tool(name).unwrap_or(name)).to_owned(),
            description: self.tools.described(call_id, &title, texts.join("\n\n")),
            action: title,
            source_kind: None,
            source_id: None,
            agent_id: None,
            subagent_type: None,
            source_description: None,
            display: content.iter().filter_map(content::display).collect(),
            extra: Default::default(),
            tool_call: Default::default(),
        };
        request.extra.insert("options", asked.options.1.clone());
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_plain_if_all_with_their_id_agree() {
        let option = |id: &str, name: &str, kind| Choice {
            option_id: id.to_owned().into(),
            name: name.to_owned(),
            kind: Some(kind),
        };
        let options = [
            option("a", "Allow", Kind::AllowOnce),
            option("b", "Allow", Kind::AllowOnce),
            option("a", "Allow", Kind::AllowOnce),
            option("b", "Allow all", Kind::AllowOnce),
            option("r", "No", Kind::RejectOnce),
            option("r", "Never", Kind::RejectAlways),
            option("n", "No", Kind::AllowOnce),
        ];
        assert_eq!(plain(&options), [true, false, true, false, true, true, false]);
        for (name, is_plain) in [
            ("Allow once", true),
            ("Always allow", false),
            ("Yes, and don’t ask again", false),
            ("Yes, and bypass permissions", false),
            ("Allow for this session", false),
            ("Approve for session", false),
            ("Yes, and auto-accept edits", false),
            ("Allow all edits in this workspace", false),
            ("Never ask again", false),
            ("Yes, and manually approve edits", true),
            ("Never", false),
            ("Not now", false),
            ("Approve everything", false),
            ("Enable YOLO", false),
            ("Yes for git commands", false),
            ("Trust this folder", false),
            ("Yes, allow once", true),
            ("Yes, run this command", true),
            ("Allow edits to this file", true),
        ] {
            assert_eq!(plain(&[option("o", name, Kind::AllowOnce)]), [is_plain], "{name}");
        }
        for (id, is_plain) in
            [("proceed_always", false), ("allow-for-session", false), ("yolo", false), ("proceed_once", true)]
        {
            assert_eq!(plain(&[option(id, "Yes", Kind::AllowOnce)]), [is_plain], "{id}");
        }
        assert_eq!(plain(&[option("o", "Always allow", Kind::AllowAlways)]), [true]);
    }
}
