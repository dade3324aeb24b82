//! The arguments of a tool call by meaning: paths, globs, commands, addresses, and those whose meaning is not known.

mod names;
mod ways;

use serde_json::{Map, Value};

use names::{
    ARGUMENT_KEYS, CHANGE_KEYS, COMMAND_KEYS, DIRECTORY_KEYS, ENVIRONMENT_KEYS, EXECUTE_KEYS, FOLLOW_KEYS, GLOB_KEYS,
    NAME_KEYS, NEUTRAL_KEYS, OPTION_KEYS, PATCH_KEYS, PATH_ENDS, PATH_KEYS, SECOND_PATHS, STRUCTURED_KEYS, TEXT_KEYS,
    URL_KEYS, WRITE_KEYS, WRITTEN_PATHS,
};
use ways::{DELETE_SWITCHES, NEW_TEXT_KEYS, WAY_KEYS, WAYS_OF_READING, WAYS_OF_WRITING, WRITE_SWITCHES};

/// How many paths and addresses a call may have.
const MAX_TARGETS: usize = 400;
/// Arguments that are a command for a shell.
pub(crate) const COMMAND_NAMES: &[&str] = &["command", "cmd", "commandline", "script", "commands"];
/// How many values are looked at.
const MAX_VALUES: usize = 20_000;

/// The arguments of a call by meaning.
#[derive(Debug, Default)]
pub(crate) struct Arguments<'a> {
    pub(crate) commands: Vec<&'a Value>,
    /// Whether a list of commands is named as several commands, each of which is a text for a shell.
    pub(crate) has_lines: bool,
    pub(crate) more: Vec<&'a Value>,
    pub(crate) directories: Vec<&'a Value>,
    pub(crate) paths: Vec<&'a str>,
    /// The paths that are no directories for the command.
    pub(crate) globs: Vec<&'a str>,
    pub(crate) urls: Vec<&'a str>,
    pub(crate) patches: Vec<&'a str>,
    /// Texts in arguments whose meaning is not known.
    pub(crate) unknown: Vec<&'a str>,
    /// Lists in these arguments, which can be the words of a command.
    pub(crate) lists: Vec<&'a Value>,
    /// Texts in arguments that change what a command does: only rules that deny or ask look at them.
    pub(crate) beside: Vec<&'a str>,
    /// The names and values of variables for a command.
    pub(crate) variables: Vec<(&'a str, &'a str)>,
    /// The name of the first argument with further words, which only commands take, and of a command inside of another argument.
    pub(crate) words_name: Option<&'a str>,
    /// The name of the first argument that is a path and no address.
    pub(crate) path_name: Option<&'a str>,
    /// The name of the first argument that is an address and no path.
    pub(crate) url_name: Option<&'a str>,
    /// The name of the first argument that is no part of a command: a file, an address or a text.
    pub(crate) beside_command: Option<&'a str>,
    /// The name of the first argument with a patch or with changes, and of one with a glob.
    pub(crate) patch_name: Option<&'a str>,
    pub(crate) glob_name: Option<&'a str>,
    /// The name of an argument whose meaning is not known, or of one that changes how a command runs.
    pub(crate) doubt: Option<String>,
    pub(crate) environment: bool,
    /// The name of an argument that says that links are followed.
    pub(crate) follows: Option<&'a str>,
    /// The name of an argument that says how a file is changed, and of one that can be a new text.
    pub(crate) change: Option<&'a str>,
    pub(crate) text: Option<&'a str>,
    /// The name of an argument that says that a file is deleted.
    pub(crate) deletion: Option<&'a str>,
    /// Whether arguments say that a file is written or deleted, whatever the kind of the call is.
    pub(crate) writes: bool,
    pub(crate) deletes: bool,
    /// The paths that a call writes although it reads others.
    pub(crate) written: Vec<&'a str>,
    /// The files that changes delete.
    pub(crate) deleted: Vec<&'a str>,
    /// There are more targets than are looked at.
    pub(crate) is_cut: bool,
}

impl Arguments<'_> {
    fn targets(&self) -> usize {
        let further = self.unknown.len() + self.beside.len() + self.variables.len();
        self.paths.len() + self.globs.len() + self.urls.len() + further
    }
}

/// Returns the name of an argument for comparisons: only letters, in lower case, and digits that do not count the argument.
pub(crate) fn key(name: &str) -> String {
    if name.len() > 64 {
        return String::new();
    }
    let key: String = name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    key.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned()
}

/// Returns the name of a tool without case, `_` and `-`, for comparisons.
pub(crate) fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}

/// Whether the value says nothing.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Reads the arguments of a call. Nothing recurses.
pub(crate) fn read(arguments: &Map<String, Value>) -> Arguments<'_> {
    let mut found = Arguments::default();
    let mut open: Vec<(&Map<String, Value>, bool)> = vec![(arguments, true)];
    let mut seen = 0;
    let mut second = SecondPaths::default();
    while let Some((fields, is_top)) = open.pop() {
        for (name, value) in fields {
            seen += 1;
            if seen > MAX_VALUES || found.targets() > MAX_TARGETS {
                found.is_cut = true;
                return found;
            }
            let key = key(name);
            let is = |keys: &[&str]| keys.contains(&&*key);
            let mut is_known = is(NEUTRAL_KEYS) && !is_target(&key, value);
            if is_top && !value.is_null() {
                if is(COMMAND_KEYS) {
                    found.commands.push(value);
                    found.has_lines |= key == "commands";
                }
                if is(ARGUMENT_KEYS) {
                    found.more.push(value);
                }
                if is(DIRECTORY_KEYS) {
                    found.directories.push(value);
                }
            }
            if is(ENVIRONMENT_KEYS) && !is_empty(value) {
                found.environment = true;
                variables(value, &mut found.variables);
                texts(value, &mut found.unknown);
                found.doubt = found.doubt.or_else(|| Some(name.chars().take(64).collect()));
            }
            if !matches!(value, Value::Null | Value::Bool(false)) {
                let is_change = is(WRITE_KEYS) || (is(WAY_KEYS) && !is_way_of_reading(value));
                let is_deletion = is_top && (key == "delete" || (is(WAY_KEYS) && is_delete(value)));
                found.change = found.change.or(Some(&**name).filter(|_| is_change));
                found.text = found.text.or(Some(&**name).filter(|_| is(TEXT_KEYS)));
                let is_new_text = is(NEW_TEXT_KEYS) && !matches!(value, Value::Bool(_) | Value::Number(_));
                found.writes |=
                    is_new_text || is_switched_on(value) && is(WRITE_SWITCHES) || is(WAY_KEYS) && is_write(value);
                found.deletes |= is_switched_on(value) && is(DELETE_SWITCHES) || is(WAY_KEYS) && is_delete(value);
                found.follows = found.follows.or(Some(&**name).filter(|_| is(FOLLOW_KEYS) && !is_empty(value)));
                found.deletion = found.deletion.or(Some(&**name).filter(|_| is_deletion));
            }
            let is_inner_command = !is_top && COMMAND_NAMES.contains(&&*key);
            if (is(ARGUMENT_KEYS) || is_inner_command) && !is_empty(value) {
                found.words_name = found.words_name.or(Some(name));
                texts(value, &mut found.beside);
                found.lists.push(value);
            }
            if is_top && is(EXECUTE_KEYS) {
                texts(value, &mut found.beside);
            }
            is_known |= is(COMMAND_KEYS) || (is(ARGUMENT_KEYS) && is_top) || is(ENVIRONMENT_KEYS) || is(CHANGE_KEYS);
            let is_text = matches!(value, Value::String(_) | Value::Array(_));
            let is_path = is(PATH_KEYS) || (!is_known && is_text && PATH_ENDS.iter().any(|end| key.ends_with(end)));
            if is_path {
                is_known = true;
                texts(value, &mut found.paths);
                if !is_empty(value) {
                    second.add(&key, value, &mut found.written);
                    // What an object says about such a path is not known.
                    let is_unclear = starts_with(&key, WRITTEN_PATHS) && !is_text;
                    found.change = found.change.or(Some(&**name).filter(|_| is_unclear));
                }
                found.path_name = found.path_name.or(Some(&**name).filter(|_| !is(URL_KEYS) && !is_empty(value)));
            }
            found.url_name = found.url_name.or(Some(&**name).filter(|_| is(URL_KEYS) && !is_path && !is_empty(value)));
            if is_top && (is(URL_KEYS) || is(EXECUTE_KEYS) || (is_path && !is(DIRECTORY_KEYS))) && !is_empty(value) {
                found.beside_command = found.beside_command.or(Some(name));
            }
            for (keys, list) in
                [(GLOB_KEYS, &mut found.globs), (URL_KEYS, &mut found.urls), (PATCH_KEYS, &mut found.patches)]
            {
                if is(keys) {
                    is_known = true;
                    texts(value, list);
                }
            }
            if !is_empty(value) {
                found.patch_name = found.patch_name.or(Some(&**name).filter(|_| is(PATCH_KEYS) || is(CHANGE_KEYS)));
                found.glob_name = found.glob_name.or(Some(&**name).filter(|_| is(GLOB_KEYS)));
            }
            if is(CHANGE_KEYS)
                && let Value::Object(files) = value
            {
                found.paths.extend(files.keys().map(|key| &**key));
                let deleted = files.iter().filter(|(_, change)| {
                    let says = |(name, value): (&String, &Value)| match self::key(name).as_str() {
                        "delete" => !matches!(value, Value::Null | Value::Bool(false)),
                        key => ["type", "kind"].contains(&key) && is_delete(value),
                    };
                    change.as_object().is_some_and(|change| change.iter().any(says))
                });
                found.deleted.extend(deleted.map(|(path, _)| &**path));
                open.extend(files.values().filter_map(|file| file.as_object()).map(|file| (file, false)));
                continue;
            }
            // `sandbox: false` says something.
            let is_off = *value == Value::Bool(false) && key.starts_with("sandbox");
            if !is_known && (!is_empty(value) || is_off) {
                found.doubt = found.doubt.or_else(|| Some(name.chars().take(64).collect()));
                texts(value, &mut found.unknown);
                found.lists.push(value);
            }
            // The name can be that of a file, too.
            found.unknown.extend(Some(&**name).filter(|name| !is_top && name.contains(['/', '.'])));
            let mut inner = vec![value];
            while let Some(value) = inner.pop() {
                match value {
                    Value::Object(fields) => open.push((fields, false)),
                    Value::Array(items) => inner.extend(items),
                    _ => {}
                }
            }
        }
    }
    found.is_cut |= found.targets() > MAX_TARGETS;
    second.finish(&mut found.written);
    found
}

/// Paths that are written, unless they are the only ones of a call.
#[derive(Default)]
struct SecondPaths<'a> {
    paths: Vec<&'a str>,
    /// How many arguments are paths.
    count: usize,
}

impl<'a> SecondPaths<'a> {
    fn add(&mut self, key: &str, value: &'a Value, written: &mut Vec<&'a str>) {
        self.count += 1;
        if starts_with(key, WRITTEN_PATHS) {
            texts(value, written);
        } else if starts_with(key, SECOND_PATHS) {
            texts(value, &mut self.paths);
        }
    }

    fn finish(self, written: &mut Vec<&'a str>) {
        if self.count > 1 {
            written.extend(self.paths);
        }
    }
}

fn starts_with(key: &str, starts: &[&str]) -> bool {
    starts.iter().any(|start| key.starts_with(start))
}

/// Whether the value of an argument such as `mode` says that a file is only read.
fn is_way_of_reading(value: &Value) -> bool {
    value.as_str().is_some_and(|way| WAYS_OF_READING.contains(&&*way.to_lowercase()))
}

/// Whether the value of a switch says yes.
fn is_switched_on(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !["", "0", "false", "no", "off"].contains(&&*text.to_lowercase()),
        value => !is_empty(value),
    }
}

fn is_write(value: &Value) -> bool {
    value.as_str().is_some_and(|way| WAYS_OF_WRITING.contains(&&*way.to_lowercase()))
}

fn is_delete(value: &Value) -> bool {
    value.as_str().is_some_and(|way| ["delete", "remove", "unlink"].contains(&&*way.to_lowercase()))
}

/// The variables in an object, or in a list of texts or of objects with a name and a value.
fn variables<'a>(value: &'a Value, found: &mut Vec<(&'a str, &'a str)>) {
    let text = |value: &'a Value| value.as_str();
    match value {
        Value::String(lines) => found.extend(lines.lines().take(MAX_TARGETS).filter_map(|line| line.split_once('='))),
        Value::Array(items) => {
            for item in items.iter().take(MAX_TARGETS + 1) {
                match (item, item.get("name").and_then(text), item.get("value").and_then(text)) {
                    (_, Some(name), value) => found.push((name, value.unwrap_or_default())),
                    (Value::String(item), ..) => found.extend(item.split_once('=')),
                    _ => {}
                }
            }
        }
        Value::Object(fields) => {
            let fields = fields.iter().take(MAX_TARGETS + 1);
            found.extend(fields.map(|(name, value)| (&**name, text(value).unwrap_or_default())));
        }
        _ => {}
    }
}

/// Whether a value can name a target, although the argument usually does not.
fn is_target(key: &str, value: &Value) -> bool {
    // A name is harmless for texts, numbers and switches. Only some have lists or objects.
    let text = match value {
        Value::String(text) => text,
        Value::Array(_) | Value::Object(_) => return !is_empty(value) && !STRUCTURED_KEYS.contains(&key),
        _ => return false,
    };
    // The options of searches have one letter, and are no texts.
    key.len() == 1
        || (OPTION_KEYS.contains(&key) && text.starts_with('-'))
        || (NAME_KEYS.contains(&key) && (text.contains(['/', '\\']) || text.starts_with('~') || text == ".."))
}

/// The texts of a value and of its lists.
pub(crate) fn texts<'a>(value: &'a Value, list: &mut Vec<&'a str>) {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => list.push(text),
            Value::Array(items) => open.extend(items.iter().take(MAX_TARGETS + 1)),
            _ => {}
        }
        if list.len() > MAX_TARGETS + 1 {
            break;
        }
    }
}

/// All texts of the arguments, up to a number of values, and whether there are more.
pub(crate) fn all_texts(arguments: &Map<String, Value>) -> (Vec<&str>, bool) {
    let mut found = Vec::new();
    let mut open: Vec<&Value> = arguments.values().collect();
    let mut seen = 0;
    while let Some(value) = open.pop() {
        seen += 1;
        if seen > MAX_VALUES {
            return (found, true);
        }
        match value {
            Value::String(text) => found.push(&**text),
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => open.extend(fields.values()),
            _ => {}
        }
    }
    (found, false)
}
