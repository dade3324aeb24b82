//! Reading rule sets: TOML, JSON, and mappings of the program.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use kimi_agent_protocol::error::{Error, Result, invalid_option};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};

use crate::rule::Rule;
use crate::rules::RuleList;
use crate::{Decision, Policy, presets, warnings};

const KEYS: [&str; 5] = ["default", "deny", "ask", "allow", "extends"];
/// Larger files are refused.
const MAX_FILE: u64 = 1 << 20;
/// How many rules a policy may have.
const MAX_RULES: usize = 20_000;

/// Makes the error of a rule set that cannot be read. The text names the file, the line and the rule.
fn wrong(text: String) -> Error {
    invalid_option("policy", text)
}

/// The source of a rule set.
struct Origin<'a> {
    file: Option<&'a str>,
    text: Option<&'a str>,
    /// The beginnings of the lines of the text.
    lines: Vec<usize>,
}

impl<'a> Origin<'a> {
    fn new(file: Option<&'a str>, text: Option<&'a str>) -> Self {
        let ends = text.into_iter().flat_map(|text| text.match_indices('\n').map(|(at, _)| at + 1));
        Self { file, text, lines: std::iter::once(0).chain(ends).collect() }
    }

    /// The place of a byte of the text, and the same for errors.
    fn place(&self, at: Option<usize>, fallback: &str) -> String {
        let line = at.filter(|_| self.text.is_some()).map(|at| self.lines.partition_point(|start| *start <= at));
        match (self.file, line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            (Some(file), None) => format!("{file}: {fallback}"),
            (None, Some(line)) => format!("line {line}"),
            (None, None) => fallback.to_owned(),
        }
    }
}

/// The strings of a text in JSON, with their quotes, and the first place of each.
fn strings(text: &str) -> HashMap<&str, usize> {
    let mut found = HashMap::new();
    let mut start = None;
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match start {
            _ if is_escaped => is_escaped = false,
            Some(_) if byte == b'\\' => is_escaped = true,
            Some(from) if byte == b'"' => {
                found.entry(&text[from..=at]).or_insert(from);
                start = None;
            }
            None if byte == b'"' => start = Some(at),
            _ => {}
        }
    }
    found
}

/// A value of a rule set, with its place in the text.
struct Entry {
    at: Option<usize>,
    value: String,
    /// The place, if the policy comes from a host.
    source: Option<String>,
}

/// A rule set before its rules are read.
#[derive(Default)]
struct Raw {
    default: Option<Entry>,
    extends: Option<Entry>,
    lists: [Vec<Entry>; 3],
}

impl Policy {
    /// Reads a rule set in TOML.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] names the line and the rule.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_policy as kimi_agent;
    /// let policy = kimi_agent::Policy::from_toml(r#"deny = ["execute(rm *)"]"#)?;
    /// # Ok::<(), kimi_agent_protocol::Error>(())
    /// ```
    pub fn from_toml(text: &str) -> Result<Self> {
        from_toml(&Origin::new(None, Some(text)), text)
    }

    /// Reads a rule set in JSON.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] names the line and the rule.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_policy as kimi_agent;
    /// let policy = kimi_agent::Policy::from_json(r#"{"deny": ["execute(rm *)"]}"#)?;
    /// # Ok::<(), kimi_agent_protocol::Error>(())
    /// ```
    pub fn from_json(text: &str) -> Result<Self> {
        from_json(&Origin::new(None, Some(text)), text)
    }

    /// Returns a rule set that comes with the SDK: `read-only` or `edit-files`.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if there is no such preset.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_policy as kimi_agent;
    /// let policy = kimi_agent::Policy::preset("read-only")?;
    /// let call = serde_json::json!({"name": "Shell", "arguments": {"command": "git log --oneline"}});
    /// assert_eq!(policy.check_json(&call, ".").unwrap().decision.as_str(), "allow");
    /// # Ok::<(), kimi_agent_protocol::Error>(())
    /// ```
    pub fn preset(name: &str) -> Result<Self> {
        if presets::rules(name).is_none() {
            return Err(wrong(format!("expected the name of a preset: \"read-only\" or \"edit-files\", got {name:?}")));
        }
        Self::from_value(&json!({ "extends": name }))
    }

    /// Returns a preset if the text is the name of one, else reads the file with this name.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] names the file, the line and the rule.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_policy as kimi_agent;
    /// let policy = kimi_agent::Policy::named("edit-files")?;
    /// # Ok::<(), kimi_agent_protocol::Error>(())
    /// ```
    pub fn named(text: &str) -> Result<Self> {
        if presets::NAMES.contains(&text) { Self::preset(text) } else { Self::load_named(Path::new(text)) }
    }

    /// Returns a preset if the path is the name of one, else reads the file.
    #[doc(hidden)]
    pub fn named_os(path: &Path) -> Result<Self> {
        match path.to_str().filter(|name| presets::NAMES.contains(name)) {
            Some(name) => Self::preset(name),
            None => Self::load_named(path),
        }
    }

    /// Reads a file that could also be meant as a preset.
    fn load_named(path: &Path) -> Result<Self> {
        if path.extension().is_none() && path.components().count() == 1 && !path.exists() {
            let [first, second] = presets::NAMES;
            let name = path.display();
            return Err(wrong(format!("\"{name}\" is neither a preset (\"{first}\", \"{second}\") nor a file")));
        }
        Self::load(path)
    }

    /// Reads a rule set from a mapping with the keys `default`, `deny`, `ask` and `allow`, and `extends` for a preset.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] names the rule.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_policy as kimi_agent;
    /// let policy = kimi_agent::Policy::from_value(&serde_json::json!({"allow": ["read"]}))?;
    /// # Ok::<(), kimi_agent_protocol::Error>(())
    /// ```
    pub fn from_value(value: &Value) -> Result<Self> {
        from_value(&Origin::new(None, None), value)
    }

    /// Reads the file of a rule set: JSON if its name ends with `.json`, else TOML.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] names the file, the line and the rule.
    ///
    /// # Examples
    /// ```no_run
    /// # use kimi_agent_policy as kimi_agent;
    /// let policy = kimi_agent::Policy::load("policy.toml")?;
    /// # Ok::<(), kimi_agent_protocol::Error>(())
    /// ```
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let failed = |reason: String| wrong(format!("the policy {name} cannot be read: {reason}"));
        let text = file_text(path).map_err(failed)?;
        let origin = Origin::new(Some(&name), Some(&text));
        let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
        let mut policy = if is_json { from_json(&origin, &text) } else { from_toml(&origin, &text) }?;
        policy.file = std::path::absolute(path).ok();
        policy.warnings.extend(policy.warning_about_file(&name));
        Ok(policy)
    }
}

/// Reads a file of TOML, for options that are such a file. The error is the problem.
///
/// # Errors
/// Returns the problem of the file.
#[doc(hidden)]
pub fn toml_file(path: &Path) -> std::result::Result<Map<String, Value>, String> {
    let text = file_text(path)?;
    toml::from_str(&text).map_err(|error| error.message().to_owned())
}

/// Returns the text of a file.
fn file_text(path: &Path) -> std::result::Result<String, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    match metadata.is_file() {
        true if metadata.len() <= MAX_FILE => {}
        true => return Err("expected at most 1 MiB, got a larger file".to_owned()),
        false if metadata.is_dir() => return Err("expected a file, got a folder".to_owned()),
        false => return Err("expected a regular file, got a pipe or a device".to_owned()),
    }
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let text = decoded(bytes)?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned())
}

/// The text of a file.
fn decoded(bytes: Vec<u8>) -> std::result::Result<String, String> {
    // Text in UTF-16 and UTF-32 begins with a mark, or has a zero beside each letter of ASCII.
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") || bytes.contains(&0) {
        return Err("expected text in UTF-8, and the file is in UTF-16 or UTF-32, or is no text".to_owned());
    }
    String::from_utf8(bytes).map_err(|error| {
        let (valid, _) = error.as_bytes().split_at(error.utf8_error().valid_up_to());
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        format!("expected text in UTF-8, and line {line} is in another encoding")
    })
}

/// The key under which a policy of a file carries the places of its rules to a host.
const SOURCES: &str = "$sources";
/// The key beside these places for the file itself.
const FILE: &str = "file";

impl Policy {
    /// Returns the mapping that the policy can be made from again, with the places of its rules.
    #[doc(hidden)]
    pub fn to_value(&self) -> Value {
        let lists = [("deny", &self.deny), ("ask", &self.ask), ("allow", &self.allow)];
        let mut map = Map::from_iter([("default".to_owned(), json!(self.default))]);
        let mut sources = Map::new();
        for (key, rules) in lists {
            let texts: Vec<&str> = rules.rules.iter().map(|rule| &*rule.text).collect();
            let places: Vec<&str> = rules.rules.iter().map(|rule| &*rule.source).collect();
            map.insert(key.to_owned(), json!(texts));
            sources.insert(key.to_owned(), json!(places));
        }
        if let Some(file) = self.file.as_ref().and_then(|file| file.to_str()) {
            sources.insert(FILE.to_owned(), json!(file));
        }
        map.insert(SOURCES.to_owned(), Value::Object(sources));
        Value::Object(map)
    }
}

fn error(origin: &Origin<'_>, at: Option<usize>, what: &str, reason: &str) -> Error {
    let place = origin.place(at, what);
    wrong(if place.ends_with(what) { format!("{place}: {reason}") } else { format!("{place}: {what}: {reason}") })
}

fn unknown_key(origin: &Origin<'_>, at: Option<usize>, key: &str) -> Error {
    error(
        origin,
        at,
        &format!("`{key}`"),
        "the key is unknown; expected `default`, `deny`, `ask`, `allow` or `extends`",
    )
}

fn from_toml(origin: &Origin<'_>, text: &str) -> Result<Policy> {
    use toml::de::{DeTable, DeValue};
    let table = DeTable::parse(text).map_err(|problem| {
        let at = problem.span().map(|span| span.start);
        wrong(format!("{}: not valid TOML: {}", origin.place(at.or(Some(0)), ""), problem.message()))
    })?;
    let mut raw = Raw::default();
    for (key, value) in table.get_ref() {
        let at = Some(key.span().start);
        let key: &str = key.get_ref();
        let list = match KEYS.iter().position(|known| *known == key) {
            None => return Err(unknown_key(origin, at, key)),
            Some(0) => {
                let DeValue::String(word) = value.get_ref() else { return Err(wrong_default(origin, at, None)) };
                raw.default = Some(Entry { at, value: word.to_string(), source: None });
                continue;
            }
            Some(4) => {
                let DeValue::String(word) = value.get_ref() else { return Err(wrong_preset(origin, at)) };
                raw.extends = Some(Entry { at, value: word.to_string(), source: None });
                continue;
            }
            Some(place) => &mut raw.lists[place - 1],
        };
        let DeValue::Array(items) = value.get_ref() else { return Err(no_list(origin, at, key)) };
        for (n, item) in items.iter().enumerate() {
            let at = Some(item.span().start);
            let DeValue::String(rule) = item.get_ref() else { return Err(no_rule(origin, at, key, n)) };
            list.push(Entry { at, value: rule.to_string(), source: None });
        }
    }
    build(origin, raw)
}

fn from_json(origin: &Origin<'_>, text: &str) -> Result<Policy> {
    let value = serde_json::from_str::<UniqueKeys>(text).and_then(|_| serde_json::from_str::<Value>(text));
    match value {
        Ok(Value::Null) => Err(error(origin, Some(0), "the policy", "expected an object, got `null`")),
        Ok(value) => from_value(origin, &value),
        Err(problem) => {
            let start = text.split_inclusive('\n').take(problem.line().saturating_sub(1)).map(str::len).sum();
            Err(wrong(format!("{}: not valid JSON: {problem}", origin.place(Some(start), ""))))
        }
    }
}

/// A value of JSON without a key that occurs twice in an object: the parser takes the last one.
struct UniqueKeys;

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for UniqueKeys {
    type Value = Self;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_unit<E>(self) -> std::result::Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> std::result::Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> std::result::Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> std::result::Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> std::result::Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> std::result::Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> std::result::Result<Self, A::Error> {
        let mut keys = HashSet::new();
        while let Some(key) = fields.next_key::<String>()? {
            if keys.contains(&key) {
                return Err(serde::de::Error::custom(format!("the key `{key}` occurs twice")));
            }
            keys.insert(key);
            fields.next_value::<Self>()?;
        }
        Ok(self)
    }
}

fn from_value(origin: &Origin<'_>, value: &Value) -> Result<Policy> {
    let empty = Map::new();
    let map = match value {
        Value::Object(map) => map,
        Value::Null => &empty,
        _ => {
            return Err(error(
                origin,
                None,
                "the policy",
                "expected an object with `default`, `deny`, `ask` and `allow`",
            ));
        }
    };
    // The first place at which the text has the same string: JSON values carry no places.
    let places = origin.text.map(strings).unwrap_or_default();
    let find = |value: &str| places.get(&*serde_json::to_string(value).ok()?).copied();
    let mut raw = Raw::default();
    let sources = map.get(SOURCES);
    for (key, value) in map.iter().filter(|(key, _)| *key != SOURCES) {
        let at = find(key);
        let list = match KEYS.iter().position(|known| known == key) {
            None => return Err(unknown_key(origin, at, key)),
            Some(_) if value.is_null() => continue,
            Some(0) => {
                let Value::String(word) = value else { return Err(wrong_default(origin, at, None)) };
                raw.default = Some(Entry { at, value: word.clone(), source: None });
                continue;
            }
            Some(4) => {
                let Value::String(word) = value else { return Err(wrong_preset(origin, at)) };
                raw.extends = Some(Entry { at, value: word.clone(), source: None });
                continue;
            }
            Some(place) => &mut raw.lists[place - 1],
        };
        let Value::Array(items) = value else { return Err(no_list(origin, at, key)) };
        for (n, item) in items.iter().enumerate() {
            let Value::String(rule) = item else { return Err(no_rule(origin, at, key, n)) };
            let source = sources.and_then(|sources| sources.get(key)?.get(n)?.as_str()).map(str::to_owned);
            list.push(Entry { at: find(rule), value: rule.clone(), source });
        }
    }
    let mut policy = build(origin, raw)?;
    policy.file = sources.and_then(|sources| sources.get(FILE)?.as_str()).map(PathBuf::from);
    Ok(policy)
}

fn wrong_default(origin: &Origin<'_>, at: Option<usize>, word: Option<&str>) -> Error {
    let got = word.map_or_else(String::new, |word| format!(", got {word:?}"));
    error(origin, at, "`default`", &format!("expected \"ask\", \"deny\" or \"allow\"{got}"))
}

fn wrong_preset(origin: &Origin<'_>, at: Option<usize>) -> Error {
    error(origin, at, "`extends`", "expected the name of a preset: \"read-only\" or \"edit-files\"")
}

fn unknown_preset(origin: &Origin<'_>, at: Option<usize>, name: &str) -> Error {
    let reason = format!("expected the name of a preset: \"read-only\" or \"edit-files\", got {name:?}");
    error(origin, at, "`extends`", &reason)
}

fn no_list(origin: &Origin<'_>, at: Option<usize>, key: &str) -> Error {
    error(origin, at, &format!("`{key}`"), "expected a list of rules, such as [\"read(**)\"]")
}

fn no_rule(origin: &Origin<'_>, at: Option<usize>, key: &str, n: usize) -> Error {
    error(origin, at, &format!("{key}[{n}]"), "expected text")
}

fn build(origin: &Origin<'_>, raw: Raw) -> Result<Policy> {
    let default = match raw.default {
        None => Decision::Ask,
        Some(entry) => {
            Decision::parse(&entry.value).ok_or_else(|| wrong_default(origin, entry.at, Some(&entry.value)))?
        }
    };
    if raw.lists.iter().map(Vec::len).sum::<usize>() > MAX_RULES {
        return Err(error(origin, None, "the policy", &format!("expected at most {MAX_RULES} rules")));
    }
    let mut preset = [Vec::new(), Vec::new(), Vec::new()];
    if let Some(entry) = raw.extends {
        let rules = presets::rules(&entry.value).ok_or_else(|| unknown_preset(origin, entry.at, &entry.value))?;
        for (list, texts) in preset.iter_mut().zip(rules) {
            for text in texts {
                let rule = Rule::parse(&text, format!("preset {}", entry.value));
                list.push(rule.map_err(|reason| error(origin, entry.at, &format!("{text:?}"), &reason))?);
            }
        }
    }
    let mut lists = Vec::new();
    for ((key, entries), preset) in KEYS[1..].iter().zip(raw.lists).zip(preset) {
        let mut rules = preset;
        for (n, entry) in entries.into_iter().enumerate() {
            let name = format!("{key}[{n}]");
            let source = entry.source.unwrap_or_else(|| origin.place(entry.at, &name));
            let rule = Rule::parse(&entry.value, source)
                .map_err(|reason| error(origin, entry.at, &format!("{name} {:?}", entry.value), &reason))?;
            rules.push(rule);
        }
        lists.push(rules);
    }
    let (allow, ask, deny) = (lists.pop(), lists.pop(), lists.pop());
    let (allow, ask, deny) = (allow.unwrap_or_default(), ask.unwrap_or_default(), deny.unwrap_or_default());
    let (deny, ask, allow) = (RuleList::new(deny), RuleList::new(ask), RuleList::new(allow));
    let mut policy = Policy { default, deny, ask, allow, warnings: Vec::new(), file: None };
    policy.warnings = warnings::find(&policy);
    Ok(policy)
}
