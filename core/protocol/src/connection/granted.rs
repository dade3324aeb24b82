//! Approvals that cover a request for a file or a terminal: the agent has asked for a permission, and then does exactly that
//! through the program. The program is not asked again.

use std::collections::VecDeque;
use std::path::Path;

use serde_json::{Map, Value};

use super::Connection;
use super::held::command_line;
use crate::messages::{ApprovalRequest, DisplayBlock, Event, TerminalRequest, ToolCallInfo};

/// The limit of approvals that are remembered, and of files.
const MAX_GRANTED: usize = 64;
/// The limit of the text of an approval or a file, in bytes. A request for a larger one is asked about again.
const MAX_TEXT: usize = 1 << 20;
/// The limit of places of one change that are tried.
const MAX_PLACES: usize = 64;

const COMMANDS: [&str; 3] = ["command", "cmd", "script"];
const FOLDERS: [&str; 5] = ["cwd", "workdir", "working_dir", "working_directory", "directory"];
const PATHS: [&str; 7] = ["path", "file_path", "filePath", "abs_path", "absolute_path", "file", "filename"];
const CONTENTS: [&str; 6] = ["content", "contents", "text", "file_text", "newText", "new_content"];

/// What an approval is about.
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
        while self.subjects.len() > MAX_GRANTED {
            self.subjects.pop_front();
        }
    }

    pub(super) fn note_file(&mut self, path: &str, text: &str) {
        self.files.retain(|(known, _)| known != path);
        if text.len() <= MAX_TEXT {
            self.files.push_back((path.to_owned(), text.to_owned()));
        }
        let size = |files: &VecDeque<(String, String)>| files.iter().map(|(_, text)| text.len()).sum::<usize>();
        while self.files.len() > MAX_GRANTED || size(&self.files) > 4 * MAX_TEXT {
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
                        let is_shown = matches!(&changes[..], [(_, after)] if *after == request.content);
                        *path == request.path
                            && (is_shown || file.is_some_and(|file| results_in(file, changes, &request.content)))
                    }
                    Subject::Command { .. } => false,
                };
                self.subjects.iter().position(is_same)
            }
            _ => None,
        };
        covered.and_then(|at| self.subjects.remove(at)).is_some()
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

/// Returns what a request for a permission is about.
fn subjects(request: &ApprovalRequest, work_dir: &Path) -> Vec<Subject> {
    let arguments = request.tool_call.get().and_then(|call: &ToolCallInfo| call.arguments.as_ref());
    let text = |names: &[&str]| names.iter().find_map(|name| arguments?.get(*name)?.as_str());
    let folder = text(&FOLDERS).unwrap_or_default();
    let folder = work_dir.join(folder).to_string_lossy().into_owned();
    let said = COMMANDS.iter().filter_map(|name| command_of(arguments?.get(*name)?));
    let shown = request.display.iter().filter_map(|block| match block {
        DisplayBlock::Shell(shell) => Some(Command::Text(shell.command.clone())),
        _ => None,
    });
    let mut subjects: Vec<Subject> = Vec::new();
    for command in said.chain(shown) {
        let subject = Subject::Command { command, folder: folder.clone() };
        if !subjects.contains(&subject) {
            subjects.push(subject);
        }
    }
    let whole = |path: &str| work_dir.join(path).to_string_lossy().into_owned();
    let mut files: Vec<(String, Vec<(String, String)>)> = Vec::new();
    for block in &request.display {
        let DisplayBlock::Diff(diff) = block else { continue };
        let (path, change) = (whole(&diff.path), (diff.old_text.clone(), diff.new_text.clone()));
        match files.iter_mut().find(|(known, _)| *known == path) {
            Some((_, changes)) => changes.push(change),
            None => files.push((path, vec![change])),
        }
    }
    if let (true, Some(path), Some(content)) = (files.is_empty(), text(&PATHS), text(&CONTENTS)) {
        files.push((whole(path), vec![(String::new(), content.to_owned())]));
    }
    let size =
        |changes: &[(String, String)]| changes.iter().map(|(before, after)| before.len() + after.len()).sum::<usize>();
    let files = files.into_iter().filter(|(_, changes)| size(changes) <= 2 * MAX_TEXT);
    subjects.extend(files.map(|(path, changes)| Subject::Changes { path, changes }));
    subjects
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

/// Whether a file has this new text after these changes, in their order.
fn results_in(mut file: &str, changes: &[(String, String)], mut new: &str) -> bool {
    for (before, after) in changes {
        let same = file.bytes().zip(new.bytes()).take_while(|(one, other)| one == other).count();
        let places = file.match_indices(&**before).map(|(at, _)| at).take_while(|at| *at <= same).take(MAX_PLACES);
        let fits = |at: &usize| new.get(*at..).is_some_and(|rest| rest.starts_with(&**after));
        let Some(at) = places.filter(fits).last() else { return false };
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
            (vec![change("b\n", "x\n"), change("b\n", "y\n")], "a\nx\nc\ny\n", true),
            (vec![change("b\n", "x\n")], "a\nx\nc\nx\n", false),
            (vec![change("z\n", "x\n")], "a\nx\nc\nb\n", false),
            (vec![change("c", "ä")], "a\nb\nä\nb\n", true),
            (vec![], file, true),
        ] {
            assert_eq!(results_in(file, &changes, new), expected, "{changes:?} {new:?}");
        }
    }
}
