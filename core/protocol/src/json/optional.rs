//! Reads foreign messages. What is optional and cannot be read is left out, so that it cannot fail the rest.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use super::lenient;

/// The limit of parts that are left out of a message. Each one costs a further attempt to read the message.
const MAX_LEFT_OUT: usize = 32;
/// The number of items that are left out of a list one by one. With more, the whole list is left out.
const MAX_ITEMS: usize = 8;

/// Reads a struct from an object. An optional member that cannot be read is left out, with a debug record.
///
/// # Errors
/// Returns the problem if the text is not an object, or if a required member is missing or cannot be read.
pub fn object<T: DeserializeOwned>(json: &str) -> serde_json::Result<T> {
    super::borrowed(json).or_else(|error| without_unreadable(json).ok_or(error))
}

/// Reads a struct from an object, with all of its members. It is for requests, whose meaning an omission would change.
///
/// # Errors
/// Returns the problem of the first member that cannot be read, and its place.
pub fn exact<T: DeserializeOwned>(json: &str) -> Result<T, String> {
    super::borrowed(json).or_else(|error| {
        // Numbers of any length, and members that occur twice.
        let rewritten = lenient::rewrite(json.as_bytes(), lenient::Huge::Text).filter(|_| !is_list(json));
        let read = rewritten.and_then(|rewritten| serde_json::from_str(&rewritten.text).ok());
        read.ok_or_else(|| placed::<T>(json, &error))
    })
}

/// Reads any type. Optional members that cannot be read are left out, with a debug record.
///
/// # Errors
/// Returns the problem and its place if a required part is missing or cannot be read.
pub fn read<T: for<'de> Deserialize<'de>>(json: &str) -> Result<T, String> {
    serde_json::from_str(json).or_else(|error| without_unreadable(json).ok_or_else(|| placed::<T>(json, &error)))
}

/// Returns the problem of a text, and its place.
fn placed<T: DeserializeOwned>(json: &str, error: &serde_json::Error) -> String {
    match attempt::<T>(json) {
        Err(found) if found.path().iter().next().is_some() => format!("{}: {}", found.path(), found.inner()),
        _ => error.to_string(),
    }
}

fn is_list(json: &str) -> bool {
    json.trim_start().starts_with('[')
}

fn attempt<T: DeserializeOwned>(json: &str) -> Result<T, serde_path_to_error::Error<serde_json::Error>> {
    serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(json))
}

/// Leaves out what cannot be read, from the inside to the outside, until the rest can be read.
fn without_unreadable<T: DeserializeOwned>(json: &str) -> Option<T> {
    // A list of fields, which serde would accept, is not a message.
    let mut value = lenient::value(json).filter(|value| !value.is_array())?;
    let mut text = value.to_string();
    let mut left_out: Vec<(Vec<Step>, String, String)> = Vec::new();
    for _ in 0..MAX_LEFT_OUT {
        let error = match attempt::<T>(&text) {
            Ok(read) => {
                for (_, field, reason) in left_out {
                    tracing::debug!(field, reason, "unreadable optional field left out");
                }
                return Some(read);
            }
            Err(error) => error,
        };
        let mut place = steps(error.path());
        if let [list @ .., Step::Item(_)] = &*place
            && left_out.iter().filter(|(other, ..)| other.starts_with(list) && other.len() > list.len()).count()
                >= MAX_ITEMS
        {
            place.pop();
        }
        while !remove(&mut value, &place) {
            place.pop()?;
        }
        left_out.push((place, error.path().to_string(), error.inner().to_string()));
        text = value.to_string();
    }
    None
}

/// A part of the place of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Member(String),
    Item(usize),
}

fn steps(path: &Path) -> Vec<Step> {
    let step = |segment: &Segment| match segment {
        Segment::Map { key } => Some(Step::Member(key.clone())),
        Segment::Seq { index } => Some(Step::Item(*index)),
        _ => None,
    };
    path.iter().map_while(step).collect()
}

/// Removes the value at a place. Returns whether there was one.
fn remove(value: &mut Value, place: &[Step]) -> bool {
    let Some((last, parents)) = place.split_last() else { return false };
    let parent = parents.iter().try_fold(value, |value, step| match step {
        Step::Member(name) => value.get_mut(name),
        Step::Item(index) => value.get_mut(index),
    });
    match (parent, last) {
        (Some(Value::Object(members)), Step::Member(name)) => members.shift_remove(name).is_some(),
        (Some(Value::Array(items)), Step::Item(index)) if *index < items.len() => {
            items.remove(*index);
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Message {
        id: String,
        #[serde(default)]
        count: Option<u64>,
        #[serde(default)]
        items: Vec<Item>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Item {
        name: String,
        #[serde(default)]
        size: Option<u64>,
    }

    fn item(name: &str) -> Item {
        Item { name: name.to_owned(), size: None }
    }

    #[test]
    fn unreadable_optional_parts_are_left_out() {
        let message = |count, items| Message { id: "a".to_owned(), count, items };
        for (json, read) in [
            (json!({"id": "a", "count": "x", "items": [{"name": "b"}]}), message(None, vec![item("b")])),
            (json!({"id": "a", "count": 1, "items": {}}), message(Some(1), vec![])),
            (
                json!({"id": "a", "items": [{"name": "b", "size": -1}, {}, 3, {"name": "c"}]}),
                message(None, vec![item("b"), item("c")]),
            ),
            (json!({"id": "a", "count": 2, "items": vec![0; 100]}), message(Some(2), vec![])),
        ] {
            assert_eq!(object::<Message>(&json.to_string()).unwrap(), read, "{json}");
        }
        assert_eq!(
            object::<Message>(r#"{"id":"a","count":1,"count":1e999,"x":1e999}"#).unwrap(),
            message(None, vec![])
        );
    }

    #[test]
    fn required_parts_are_required() {
        for json in ["{}", r#"{"id":1}"#, r#"["a"]"#, "[]", "null", "{"] {
            assert!(object::<Message>(json).is_err(), "{json}");
        }
        assert_eq!(read::<Message>(r#"{"id":1}"#).unwrap_err().split(':').next(), Some("id"));
        assert!(exact::<Message>(r#"{"id":"a","count":"x"}"#).is_err());
        assert!(exact::<Message>(r#"{"id":"b","id":"a","x":1e999}"#).is_ok());
    }
}
