//! The parts of a call that runs a command: simple commands, and the files that the shell opens.

use std::path::Path;

use serde_json::Value;

use super::hosts::takes_code;
use super::operands::Place;
use super::{OTHER_LANGUAGES, OTHER_SHELLS, Part, Taker, Target};
use crate::arguments::{self, key, plain};
use crate::command::{self, Command, Item, Word, base_name};
use crate::file_use::is_reading;
use crate::kinds::{Kind, is_name, kind_of_tool};
use crate::path::resolve;

/// Programs that read settings from the folder in which they run, and from those above it. The settings name programs.
const OF_REPOSITORY: [&str; 4] = ["git", "hg", "jj", "sl"];
const OWN_REPOSITORY: &str =
    "it runs in a repository of its own below the working directory, whose settings can name programs";

fn reads_settings(command: &Command) -> bool {
    command.words().first().and_then(Word::literal).is_some_and(|name| OF_REPOSITORY.contains(&&*base_name(name)))
}

impl Taker<'_> {
    pub(super) fn take_command(&mut self, kind: Option<Kind>) {
        let name = plain(self.call.name);
        let mut base = resolve(".", self.work_dir, self.work_dir);
        for directory in self.known.directories.clone() {
            match directory {
                Value::Null => {}
                Value::String(text) if text.is_empty() => {}
                Value::String(text) => {
                    // A rule for the files of a folder is also about a command in it.
                    base = resolve(text, self.work_dir, self.work_dir);
                    if self.needs.paths {
                        let mut part = Part::new(Some(Kind::Read), self.path_target(text, self.work_dir));
                        (part.shadow, part.vague) = (true, true);
                        self.parts.push(part);
                    }
                }
                _ => return self.opaque(kind, "the working directory is no text"),
            }
        }
        let mut altered = if self.known.environment {
            Some("the call sets its environment")
        } else if base.is_outside() {
            Some("it runs outside of the working directory, or the directory is a link")
        } else {
            None
        };
        let other_shell = self.is_for_other_shell(&name) || (cfg!(windows) && name != "bash");
        let mut items = Vec::new();
        let words_of =
            |words: &'_ [Value]| words.iter().map(|word| word.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
        match (&*self.known.commands, &*self.known.more) {
            ([Value::String(text)], []) if other_shell => {
                items.push(Item::Opaque {
                    text: text.clone(),
                    reason: format!("text for `{}` is not read", self.call.name),
                    shadow: false,
                    of_command: false,
                });
                items.extend(command::maybe_files(text));
            }
            ([Value::String(text)], []) => command::take_text(text, &mut items),
            ([Value::Array(words)], []) => match words_of(words) {
                Some(words) if !other_shell && !words.is_empty() => {
                    let words = words.iter().map(|word| &**word).collect::<Vec<_>>();
                    if self.known.has_lines {
                        words.iter().for_each(|line| command::take_text(line, &mut items));
                        // They may be the words of one command: rules that deny or ask look at it, too.
                        let mut whole = Vec::new();
                        command::take_words(&words, &mut whole);
                        items.extend(whole.into_iter().map(Item::into_shadow));
                    } else if self.is_wrapped() {
                        command::take_wrapped(&words, &mut items);
                    } else {
                        command::take_words(&words, &mut items);
                    }
                }
                _ => return self.opaque(kind, "the words of the command are no texts"),
            },
            ([Value::String(program)], [Value::Array(words)])
                if !program.contains(char::is_whitespace) && !other_shell =>
            {
                match words_of(words) {
                    Some(words) => {
                        let words: Vec<&str> =
                            std::iter::once(&**program).chain(words.iter().map(|word| &**word)).collect();
                        if self.is_wrapped() {
                            command::take_wrapped(&words, &mut items);
                        } else {
                            command::take_words(&words, &mut items);
                        }
                        // Some tools join them for a shell.
                        if words
                            .iter()
                            .any(|word| word.contains(|c: char| c.is_control() || ";&|<>()$`'\"\\#".contains(c)))
                        {
                            command::take_text(&words.join(" "), &mut items);
                        }
                    }
                    None => return self.opaque(kind, "the words of the command are no texts"),
                }
            }
            ([], []) => return self.opaque(kind, "the arguments name no command"),
            _ => return self.opaque(kind, "the arguments have several commands"),
        }
        if items.is_empty() {
            return self.opaque(kind, "the arguments name no command");
        }
        self.add_title(kind);
        self.add_proxies();
        // The environment is judged as assignments before the command.
        if let Some((name, value)) = self.known.variables.iter().find(|(name, _)| command::is_program_variable(name)) {
            items.push(Item::Opaque {
                text: format!("{name}={value}"),
                reason: "a variable is set that can name another command".to_owned(),
                shadow: true,
                of_command: false,
            });
        }
        let is_code = |item: &Item| matches!(item, Item::Command { command, shadow: false, .. } if takes_code(command));
        if self.needs.hosts && items.iter().any(is_code) {
            // The code can also come from a document or from another command.
            let mut texts = Vec::new();
            self.known.commands.iter().for_each(|command| arguments::texts(command, &mut texts));
            texts.into_iter().for_each(|text| self.add_hosts_of_code(text));
        }
        let place = Place::of(&items, base, self.work_dir);
        if place.leaves() {
            altered = altered.or(Some("it runs outside of the working directory, or in a folder that is not known"));
        }
        let moves = place.moves;
        let has_folder = !self.known.directories.iter().all(|directory| directory.is_null());
        let mut in_folder = Vec::new();
        for item in items {
            match item {
                Item::Command { command, may_run: true, .. } => self.add_word_that_may_run(kind, command),
                Item::Command { mut command, shadow, may_run: false } => {
                    let is_move = command::changes_directory(command.words());
                    command.altered = command.altered.or(altered.filter(|_| !is_move || !moves));
                    if command.altered.is_none() && reads_settings(&command) && place.has_own_repository(self.work_dir)
                    {
                        command.altered = Some(OWN_REPOSITORY);
                    }
                    self.add_operands(&mut command, shadow, &place);
                    if !shadow && !is_move && (moves || has_folder) {
                        self.add_folder(&command, &place, &mut in_folder);
                    }
                    self.add(kind, Target::Command(command));
                    if let Some(part) = self.parts.last_mut() {
                        part.shadow = shadow;
                    }
                }
                Item::Opaque { text, reason, shadow, of_command } => {
                    let command =
                        self.parts.iter().rev().find(|part| !part.shadow && matches!(part.target, Target::Command(_)));
                    let spelled = command.filter(|_| of_command).map(Part::of_command);
                    if self.needs.hosts && !shadow && !of_command {
                        // A text that cannot be read may reach any host.
                        self.add(Some(Kind::Fetch), Target::opaque(text.clone(), reason.clone()));
                        self.parts.last_mut().into_iter().for_each(|part| (part.shadow, part.hides) = (true, true));
                    }
                    self.add(kind, Target::opaque(text, reason));
                    if let Some(part) = self.parts.last_mut() {
                        (part.shadow, part.hides, part.spelled) = (shadow, shadow, spelled);
                    }
                }
                Item::MaybeFile { text, kind, sign } => {
                    let use_of_file = if kind == Kind::Edit { "write" } else { "read" };
                    let reason = format!("behind its `{sign}` may be a file that it {use_of_file}s");
                    let mut part = Part::new(Some(kind), Target::opaque(text, reason));
                    (part.vague, part.redirection) = (true, true);
                    self.parts.push(part);
                }
                Item::Write(word) => self.add_redirection(Kind::Edit, &word, moves, place.base_dir(), false),
                Item::Read(word) => {
                    // Reading a file of the project needs no rule of its own.
                    let is_inside = matches!(&word, Word::Literal(text) if !resolve(text, place.base_dir(), self.work_dir).is_outside());
                    self.add_redirection(Kind::Read, &word, moves, place.base_dir(), is_inside && !moves);
                }
            }
        }
    }

    /// Takes the command of a call that its name and its agent call something else, such as a read: it runs, too.
    pub(super) fn take_commands_of_others(&mut self, by_name: Option<Kind>, by_agent: Option<Kind>) {
        let kinds = [by_name, by_agent].into_iter().flatten();
        let mut others = kinds.filter(|kind| !matches!(kind, Kind::Think | Kind::Mcp)).peekable();
        let is_other = others.peek().is_some() && others.all(|kind| kind != Kind::Execute);
        let Some(name) = self.command_name().filter(|_| is_other && self.has_target_of(Kind::Execute)) else { return };
        if self.is_editor() {
            return;
        }
        // As a command, the argument has a known meaning.
        let doubt = self.known.doubt.clone().filter(|doubt| *doubt == name);
        let before = doubt.as_ref().and_then(|_| self.known.doubt.take());
        self.take_command(Some(Kind::Execute));
        self.known.doubt = self.known.doubt.take().or(before);
    }

    /// Whether the agent itself may have put the command into a shell: in its request for a terminal, and if it has taken the command
    /// apart.
    fn is_wrapped(&self) -> bool {
        let is_taken_apart = |name: &String| key(name) == "parsedcmd";
        self.call.name == "terminal" || self.call.arguments.is_some_and(|fields| fields.keys().any(is_taken_apart))
    }

    /// Whether the text of the tool is for another language than that of POSIX shells.
    fn is_for_other_shell(&self, plain_name: &str) -> bool {
        if OTHER_SHELLS.contains(&plain_name) {
            return true;
        }
        // A title can be the command itself.
        if kind_of_tool(self.call.name).is_some() || !is_name(self.call.name) {
            return false;
        }
        let has_code = || self.call.arguments.is_some_and(|arguments| arguments.keys().any(|name| key(name) == "code"));
        OTHER_LANGUAGES.iter().any(|name| plain_name.contains(name)) || has_code()
    }

    /// Adds the commands of a title that is a command line, for a call without arguments that the agent calls something else.
    pub(super) fn add_title_command(&mut self, by_agent: Option<Kind>) {
        let title = self.call.name.trim().trim_matches('`');
        let has_arguments = self.call.arguments.is_some_and(|arguments| !arguments.is_empty());
        let Some((name, _)) = title.split_once(char::is_whitespace) else { return };
        // The words of a sentence begin with a capital letter.
        let is_program = !name.contains(|c: char| c.is_uppercase() || c == '/') && command::is_program(name);
        if has_arguments || !is_program || matches!(by_agent, None | Some(Kind::Execute | Kind::Mcp)) {
            return;
        }
        let mut items = Vec::new();
        command::take_text(title, &mut items);
        for item in items {
            let Item::Command { command, shadow: false, .. } = item else { continue };
            let reads = command.words().first().and_then(Word::literal).is_some_and(is_reading);
            let mut part = Part::new(Some(Kind::Execute), Target::Command(command));
            (part.shadow, part.hides, part.vague) = (reads, reads, reads);
            part.doubt = Some("the title is a command, and the agent did not send the arguments".to_owned());
            self.parts.push(part);
        }
    }

    /// Adds the commands of a title that says something else than the arguments, for rules that deny or ask.
    fn add_title(&mut self, kind: Option<Kind>) {
        let title = self.call.name.trim().trim_matches('`');
        let is_command = |value: &&Value| value.as_str().is_some_and(|text| text.trim() == title);
        if is_name(title) || self.known.commands.iter().any(is_command) {
            return;
        }
        let mut items = Vec::new();
        command::take_text(title, &mut items);
        for item in items {
            if let Item::Command { command, .. } = item {
                let mut part = Part::new(kind, Target::Command(command));
                (part.shadow, part.hides, part.vague) = (true, true, true);
                self.parts.push(part);
            }
        }
    }

    /// Adds a command that can begin in the words of a program of which nothing is known. A rule that spells the words of the program
    /// allows it.
    fn add_word_that_may_run(&mut self, kind: Option<Kind>, command: command::Command) {
        let is_program = |part: &&Part| !part.shadow && matches!(part.target, Target::Command(_));
        let program = self.parts.iter().rev().find(is_program).map(Part::of_command);
        let mut part = Part::new(kind, Target::Command(command));
        (part.shadow, part.hides, part.vague) = (true, true, true);
        (part.spelled, part.is_name) = (program, true);
        self.parts.push(part);
    }

    fn add_redirection(&mut self, kind: Kind, word: &Word, moves: bool, base: &Path, shadow: bool) {
        let target = match word {
            Word::Literal(text) => {
                let mut path = resolve(text, base, self.work_dir);
                if moves && !Path::new(text).is_absolute() {
                    path = path.into_doubt();
                }
                Target::Path(path)
            }
            Word::Dynamic(text) => {
                Target::opaque(text.clone(), "only the shell knows the file of the redirection".to_owned())
            }
        };
        let mut part = Part::new(Some(kind), target);
        (part.shadow, part.hides, part.redirection) = (shadow, shadow, true);
        self.parts.push(part);
    }
}
