//! The key of a job, by which a batch finds a job's results again.

use kimi_agent_protocol::budget::parse_budget;
use kimi_agent_protocol::options::{Kind, OPTIONS, PROMPT_OPTIONS, find};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{Hash, Job};

impl Job {
    /// Returns the hash that identifies the job, and whether the job itself has named its key.
    pub(in super::super) fn hash(&self) -> (Hash, bool) {
        match &self.key {
            Some(key) => (hash_of_key(key), true),
            None => {
                let problem = self.problem.as_ref().map(ToString::to_string);
                let work_dir = self.work_dir.as_ref().map(|path| match path.to_str() {
                    Some(text) => json!(text),
                    None => json!(path.as_os_str().as_encoded_bytes()),
                });
                let identity = json!({
                    "prompt": self.prompt, "work_dir": work_dir, "options": self.neutral_options(), "problem": problem,
                });
                (digest(normal(identity).to_string().as_bytes()), false)
            }
        }
    }

    /// Returns the options in the names and units of all languages, because a batch can go on in another language.
    fn neutral_options(&self) -> Map<String, Value> {
        let neutral = |given: &String, value: &Value| {
            let option = find(OPTIONS, given, self.naming).or_else(|| find(PROMPT_OPTIONS, given, self.naming));
            let Some(option) = option else { return (given.clone(), value.clone()) };
            let found = match (option.kind, value) {
                (Kind::Duration, Value::Number(number)) => number.as_f64().map(|number| {
                    // Nanoseconds, because a factor such as 0.001 is not exact.
                    json!((number * self.naming.unit().1 * 1e9).round() / 1e9)
                }),
                (Kind::Budget, Value::Object(limits)) => {
                    parse_budget(limits.clone(), self.naming).ok().map(|budget| json!(budget))
                }
                _ => None,
            };
            (option.name.to_owned(), found.unwrap_or_else(|| value.clone()))
        };
        self.options.iter().map(|(given, value)| neutral(given, value)).collect()
    }
}

/// Returns the hash of a key that a job has set.
pub(in super::super) fn hash_of_key(key: &str) -> Hash {
    digest(format!("key:{key}").as_bytes())
}

/// Returns the hash as text: 32 hexadecimal digits.
pub(in super::super) fn hex(hash: &Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a hash from its text.
pub(in super::super) fn parse_hex(text: &str) -> Option<Hash> {
    let number = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32)?;
    Some(number.to_be_bytes())
}

fn digest(bytes: &[u8]) -> Hash {
    let mut hash = Hash::default();
    hash.copy_from_slice(&Sha256::digest(bytes)[..16]);
    hash
}

/// Returns the value with the fields of its objects in order, and without the fraction of whole numbers, because equal jobs
/// must have equal hashes.
fn normal(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<_> = map.into_iter().map(|(name, value)| (name, normal(value))).collect();
            fields.sort_by(|one, other| one.0.cmp(&other.0));
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(normal).collect()),
        Value::Number(number) => match number.as_f64() {
            // From here on not every whole number is a float.
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 2f64.powi(53) => {
                json!(float as i64)
            }
            _ => Value::Number(number),
        },
        other => other,
    }
}
