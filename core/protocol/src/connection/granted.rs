//! Approvals that cover a request for a file or a terminal: the agent has asked for a permission, and then does exactly that
//! through the program. The program is not asked again.

use std::collections::VecDeque;
use std::path::Path;

use serde_json::{Map, Value};

use super::Connection;
use super::held::command_line;
use crate::messages::{ApprovalRequest, DisplayBlock, Event, TerminalRequest, ToolKind};

/// The limit of approvals that are remembered, and of files.
const MAX_GRANTED: usize = 64;
/// The limit of the texts of an approval, and of a file, in bytes. A request about a larger text is asked about again.
const MAX_TEXT: usize = 1 << 20;
/// The limit of all texts of approvals, and of all files, in bytes.
const MAX_TEXTS: usize = 4 * MAX_TEXT;

pub(super) const COMMANDS: [&str; 3] = ["command", "cmd", "script"];
const FOLDERS: [&str; 9] =
    ["cwd", "workdir", "working_dir", "working_directory", "directory", "dir", "dir_path", "chdir", "folder"];
pub(super) const PATHS: [&str; 7] = ["path", "file_path", "filePath", "abs_path", "absolute_path", "file", "filename"];
pub(super) const CONTENTS: [&str; 6] = ["content", "contents", "text", "file_text", "newText", "new_content"];
/// The texts before and after a change of a part of a file.
const BEFORE: [&str; 4] = ["old_string", "old_str", "oldText", "old_text"];
pub(super) const AFTER: [&str; 4] = ["new_string", "new_str", "new_text", "replacement"];

/// Arguments that change nothing about what runs or is written.
const ABOUT: [&str; 6] = ["description", "explanation", "reason", "timeout", "timeout_ms", "title"];

/// A command or changes of a file that an approval is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Command {
        command: Command,
        folder: String,
    },
    /// The changes of a file, as the text before and after each.
    Changes {
        path: String,
        changes: Vec<(String, String)>,
    },
}

impl Subject {
    /// Returns the size of the texts, in bytes.
    fn size(&self) -> usize {
        match self {
            Self::Command { command: Command::Text(text), folder } => text.len() + folder.len(),
            Self::Command { command: Command::Words(words), folder } => {
                words.iter().map(String::len).sum::<usize>() + folder.len()
            }
            Self::Changes { changes, .. } => changes.iter().map(|(before, after)| before.len() + after.len()).sum(),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    Text(String),
    Words(Vec<String>),
}

/// The approvals of a turn that no request has used.
#[derive(Debug, Default)]
pub(super) struct Granted {
    subjects: VecDeque<Subject>,
    /// The files that the agent has read through the program.
    files: VecDeque<(String, String)>,
}

impl Granted {
    pub(super) fn add(&mut self, subjects: Vec<Subject>) {
        self.subjects.extend(subjects);
        let size = |subjects: &VecDeque<Subject>| subjects.iter().map(Subject::size).sum::<usize>();
        while self.subjects.len() > MAX_GRANTED || size(&self.subjects) > MAX_TEXTS {
            self.subjects.pop_front();
        }
    }

    /// Removes earlier approvals of what the program has now rejected.
    pub(super) fn remove(&mut self, rejected: &[Subject]) {
        self.subjects.retain(|subject| !rejected.contains(subject));
    }

    pub(super) fn note_file(&mut self, path: &str, text: &str) {
        self.files.retain(|(known, _)| known != path);
        if text.len() <= MAX_TEXT {
            self.files.push_back((path.to_owned(), text.to_owned()));
        }
        let size = |files: &VecDeque<(String, String)>| files.iter().map(|(_, text)| text.len()).sum::<usize>();
        while self.files.len() > MAX_GRANTED || size(&self.files) > MAX_TEXTS {
            self.files.pop_front();
        }
    }

    pub(super) fn clear(&mut self) {
        self.subjects.clear();
        self.files.clear();
    }

    /// Whether an approval covers this request. The approval is used up.
    pub(super) fn take(&mut self, request: &Event) -> bool {
        let covered = match request {
            Event::TerminalRequest(request) if has_plain_environment(&request.env) => {
                let forms = forms(request);
                let is_same = |subject: &Subject| matches!(subject, Subject::Command { command, folder } if forms.contains(command) && is_same_folder(folder, &request.cwd));
                self.subjects.iter().position(is_same)
            }
            Event::WriteFileRequest(request) => {
                let file = self.files.iter().find(|(path, _)| *path == request.path).map(|(_, text)| text);
                let is_same = |subject: &Subject| match subject {
                    Subject::Changes { path, changes } => {
                        // The approval has shown the whole text.
                        let is_whole =
                            matches!(&changes[..], [(before, after)] if before.is_empty() && *after == request.content);
                        let is_result = || file.is_some_and(|file| results_in(file, changes, &request.content));
                        *path == request.path && (is_whole || is_result())
                    }
                    Subject::Command { .. } => false,
                };
                self.subjects.iter().position(is_same)
            }
            _ => None,
        };
        let is_covered = covered.and_then(|at| self.subjects.remove(at)).is_some();
        if let (true, Event::WriteFileRequest(request)) = (is_covered, request) {
            self.note_file(&request.path, &request.content);
        }
        is_covered
    }
}

impl Connection {
    /// Returns what an approval of this request covers, if the agent can do it through the program.
    pub(super) fn subjects_of(&self, request: &ApprovalRequest) -> Vec<Subject> {
        let services = self.sources.services;
        let is_possible = self.sources.rules.is_some() && (services.terminal || services.write_file);
        let work_dir = self.dialect.work_dir().filter(|_| is_possible);
        work_dir.map(|work_dir| subjects(request, work_dir)).unwrap_or_default()
    }

    /// Notes that the agent may do what it has asked about.
    pub(super) fn grant(&mut self, subjects: Vec<Subject>) {
        if !subjects.is_empty() {
            self.approved_calls().granted.add(subjects);
        }
    }

    /// Notes that the agent may no longer do what it has asked about.
    pub(super) fn withdraw(&mut self, subjects: &[Subject]) {
        if !subjects.is_empty() {
            self.approved_calls().granted.remove(subjects);
        }
    }

    /// Notes the text of a file that the agent has read through the program.
    pub(super) fn note_read(&mut self, path: &str, text: &str) {
        if self.sources.rules.is_some() && self.sources.services.write_file {
            self.approved_calls().granted.note_file(path, text);
        }
    }
}

/// Whether a request runs something or changes a file.
pub(super) fn is_effect(request: &Event) -> bool {
    matches!(request, Event::WriteFileRequest(_) | Event::TerminalRequest(_))
}

/// Returns what a request for a permission is about: a command that it shows and nothing else, or changes of files.
fn subjects(request: &ApprovalRequest, work_dir: &Path) -> Vec<Subject> {
    let Some(call) = request.tool_call.get() else { return Vec::new() };
    let none = Map::new();
    let arguments = call.arguments.as_ref().unwrap_or(&none);
    let is_small = |subject: &Subject| subject.size() <= MAX_TEXT;
    let whole = |path: &str| work_dir.join(path).to_string_lossy().into_owned();
    // A subagent can have another directory.
    if request.agent_id.as_ref().is_some_and(|agent| !agent.is_empty()) {
        return Vec::new();
    }
    let found = match call.kind {
        Some(ToolKind::Execute) => {
            let Some(command) = only_command(request, arguments) else { return Vec::new() };
            let folders: Option<Vec<_>> = given(arguments, &FOLDERS).map(Value::as_str).collect();
            match folders.as_deref() {
                Some([]) => vec![Subject::Command { command, folder: whole("") }],
                Some([folder]) => vec![Subject::Command { command, folder: whole(folder) }],
                _ => Vec::new(),
            }
        }
        Some(ToolKind::Edit) => changes(request, arguments, whole),
        _ => Vec::new(),
    };
    found.into_iter().filter(is_small).collect()
}

/// Returns the command of a request that says one, and describes itself with it.
fn only_command(request: &ApprovalRequest, arguments: &Map<String, Value>) -> Option<Command> {
    let is_other =
        |name: &String| !COMMANDS.contains(&&**name) && !FOLDERS.contains(&&**name) && !ABOUT.contains(&&**name);
    let shown = request.display.iter().filter_map(|block| match block {
        DisplayBlock::Shell(shell) => Some(shell.command.as_str()),
        _ => None,
    });
    let said: Vec<_> = given(arguments, &COMMANDS).collect();
    let command = match &said[..] {
        [said] => command_of(said)?,
        [] => Command::Text(shown.clone().next()?.to_owned()),
        _ => return None,
    };
    let text = match &command {
        Command::Text(text) => text.clone(),
        Command::Words(words) => words.join(" "),
    };
    let is_plain = !arguments.keys().any(is_other) && shown.clone().all(|shown| shown == text);
    (is_plain && request.description.contains(&text)).then_some(command)
}

/// Whether the arguments say nothing else than the changes that the request shows.
fn agree(
    arguments: &Map<String, Value>,
    files: &[(String, Vec<(String, String)>)],
    whole: impl Fn(&str) -> String,
) -> bool {
    let changes = files.iter().flat_map(|(_, changes)| changes);
    arguments.iter().all(|(name, value)| {
        let name = &**name;
        let text = value.as_str();
        let among = |names: &[&str]| names.contains(&name);
        if among(&PATHS) {
            text.is_some_and(|path| files.iter().all(|(known, _)| *known == whole(path)))
        } else if among(&CONTENTS) || among(&AFTER) {
            text.is_some_and(|text| changes.clone().any(|(_, after)| after == text))
        } else if among(&BEFORE) {
            text.is_some_and(|text| changes.clone().any(|(before, _)| before == text))
        } else {
            among(&ABOUT)
        }
    })
}

/// Returns the changes of files that a request shows.
fn changes(request: &ApprovalRequest, arguments: &Map<String, Value>, whole: impl Fn(&str) -> String) -> Vec<Subject> {
    let mut files: Vec<(String, Vec<(String, String)>)> = Vec::new();
    for block in &request.display {
        let DisplayBlock::Diff(diff) = block else { continue };
        let (path, change) = (whole(&diff.path), (diff.old_text.clone(), diff.new_text.clone()));
        match files.iter_mut().find(|(known, _)| *known == path) {
            Some((_, changes)) => changes.push(change),
            None => files.push((path, vec![change])),
        }
    }
    if !files.is_empty() && !agree(arguments, &files, &whole) {
        return Vec::new();
    }
    if files.is_empty() {
        // With other arguments, such as a mode or a line, the text is not the whole file.
        let is_other =
            |name: &String| !PATHS.contains(&&**name) && !CONTENTS.contains(&&**name) && !ABOUT.contains(&&**name);
        let paths: Vec<_> = given(arguments, &PATHS).map(Value::as_str).collect();
        let texts: Vec<_> = given(arguments, &CONTENTS).map(Value::as_str).collect();
        if let (false, [Some(path)], [Some(content)]) = (arguments.keys().any(is_other), &paths[..], &texts[..]) {
            files.push((whole(path), vec![(String::new(), (*content).to_owned())]));
        }
    }
    files.into_iter().map(|(path, changes)| Subject::Changes { path, changes }).collect()
}

/// Returns the arguments with these names.
fn given<'a>(arguments: &'a Map<String, Value>, names: &'a [&str]) -> impl Iterator<Item = &'a Value> {
    names.iter().filter_map(|name| arguments.get(*name))
}

fn command_of(value: &Value) -> Option<Command> {
    match value {
        Value::String(text) => Some(Command::Text(text.clone())),
        Value::Array(words) => {
            words.iter().map(|word| word.as_str().map(str::to_owned)).collect::<Option<_>>().map(Command::Words)
        }
        _ => None,
    }
}

/// The forms in which a request for a permission may have named the command of a terminal.
fn forms(request: &TerminalRequest) -> Vec<Command> {
    const SHELLS: [&str; 4] = ["sh", "bash", "zsh", "dash"];
    let TerminalRequest { command, args, .. } = request;
    if args.is_empty() {
        return vec![Command::Text(command.clone())];
    }
    let words = std::iter::once(command).chain(args).cloned().collect();
    let mut forms = vec![Command::Text(command_line(request)), Command::Words(words)];
    let name = command.strip_prefix("/usr").unwrap_or(command);
    if SHELLS.contains(&name.strip_prefix("/bin/").unwrap_or(name)) {
        match &args[..] {
            [flag, text] if flag == "-c" || flag == "-lc" => forms.push(Command::Text(text.clone())),
            [login, flag, text] if login == "-l" && flag == "-c" => forms.push(Command::Text(text.clone())),
            _ => {}
        }
    }
    forms
}

/// Whether the variables of a terminal only say which program runs it, or how its output is shown.
fn has_plain_environment(env: &Map<String, Value>) -> bool {
    const NAMES: [&str; 8] =
        ["CLAUDECODE", "GEMINI_CLI", "QWEN_CODE", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "CI"];
    env.iter()
        .all(|(name, value)| NAMES.contains(&&**name) || (["PAGER", "GIT_PAGER"].contains(&&**name) && value == "cat"))
}

fn is_same_folder(folder: &str, other: &str) -> bool {
    let trimmed = |folder: &str| folder.trim_end_matches('/').to_owned();
    trimmed(folder) == trimmed(other)
}

/// Whether a file has this new text after these changes, in their order. The place of each must be the only one.
fn results_in(mut file: &str, changes: &[(String, String)], mut new: &str) -> bool {
    if let ("", [(before, after)]) = (file, changes) {
        return before.is_empty() && after == new;
    }
    for (before, after) in changes {
        let mut places = file.match_indices(&**before).map(|(at, _)| at);
        let (Some(at), None, false) = (places.next(), places.next(), before.is_empty()) else { return false };
        let is_same = new.get(..at) == Some(&file[..at]) && new[at..].starts_with(&**after);
        if !is_same {
            return false;
        }
        (file, new) = (&file[at + before.len()..], &new[at + after.len()..]);
    }
    file == new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shown_changes_result_in_the_new_file() {
        let file = "a\nb\nc\nb\n";
        let change = |before: &str, after: &str| (before.to_owned(), after.to_owned());
        for (changes, new, expected) in [
            (vec![change("c\n", "d\n")], "a\nb\nd\nb\n", true),
            (vec![change("c\n", "d\n")], "a\nb\nd\nb\ne\n", false),
            (vec![change("c\n", "d\n")], "d\n", false),
            (vec![change("c\n", "")], "", false),
            (vec![change("a\n", "x\n"), change("c\n", "y\n")], "x\nb\ny\nb\n", true),
            // The agent would choose the place.
            (vec![change("b\n", "x\n")], "a\nx\nc\nb\n", false),
            (vec![change("", "x\n")], "x\na\nb\nc\nb\n", false),
            (vec![change("z\n", "x\n")], "a\nx\nc\nb\n", false),
            (vec![change("c", "ä")], "a\nb\nä\nb\n", true),
            (vec![], file, true),
        ] {
            assert_eq!(results_in(file, &changes, new), expected, "{changes:?} {new:?}");
        }
    }
}
