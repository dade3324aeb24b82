//! The traits of message fields: decoding, absence, description and reflection.

use std::borrow::Cow;
use std::fmt;

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::ToolCallInfo;
use crate::json::scan::{NotJson, for_each_member, text_of};
use crate::json::{Json, Key, borrowed};

/// The fields of a message that this SDK does not know. They are kept, and sent unchanged.
/// For a number that 64 bits cannot hold, the nearest `f64`.
///
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// use kimi_agent::wire::StepBegin;
/// let step: StepBegin = serde_json::from_str(r#"{"n":1,"mood":"good"}"#)?;
/// assert_eq!(step.extra.get("mood").unwrap(), "good");
/// assert_eq!(serde_json::to_string(&step)?, r#"{"n":1,"mood":"good"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Extra(Option<Box<Kept>>);

/// The field with the values that could not be read, by the names of their fields, for a host that gets messages as JSON.
pub(crate) const UNREADABLE: &str = "$unreadable";

/// Fields by name, as text.
type RawFields = Vec<(String, Json)>;

#[derive(Clone, Default)]
struct Kept {
    fields: Map<String, Value>,
    /// Fields that a [`Value`] cannot hold, such as `1e999` or half of a surrogate pair, as text.
    raw: RawFields,
    origin: Option<RequestOrigin>,
}

/// Identifies a request among all sessions of this process. It is not part of the wire form, and equality ignores it. A
/// copy that was made through the wire form has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestOrigin {
    /// The number of the session's connection, unique in this process.
    pub session: u64,
    /// The key of the request in the connection.
    pub request: u64,
}

impl Extra {
    /// Returns the value of an unknown field.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.as_ref()?.fields.get(name)
    }

    /// Returns whether there are no fields, as in nearly every message.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|kept| kept.fields.is_empty() && kept.raw.is_empty())
    }

    /// Returns whether a field that could not be read is kept under this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0
            .as_ref()
            .is_some_and(|kept| kept.fields.contains_key(name) || kept.raw.iter().any(|(raw, _)| raw == name))
    }

    /// Returns all fields in the order of the message, except those of [`Extra::raw`].
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.0.iter().flat_map(|kept| kept.fields.iter())
    }

    /// Returns the fields that a [`Value`] cannot hold, such as a number beyond all bounds or half of a surrogate pair.
    pub fn raw(&self) -> impl Iterator<Item = (&String, &Json)> {
        self.0.iter().flat_map(|kept| kept.raw.iter().map(|(name, json)| (name, json)))
    }

    #[doc(hidden)]
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let value = self.0.as_mut()?.fields.shift_remove(name);
        if self.is_empty() && self.origin().is_none() {
            self.0 = None;
        }
        value
    }

    /// Adds a field.
    pub fn insert(&mut self, name: impl Into<String>, value: Value) {
        self.0.get_or_insert_default().fields.insert(name.into(), value);
    }

    /// Writes all fields into an object.
    ///
    /// # Errors
    /// Returns the error of the serializer.
    pub fn serialize_into<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        for (name, value) in self.iter() {
            map.serialize_entry(name, value)?;
        }
        for (name, json) in self.raw() {
            map.serialize_entry(name, json)?;
        }
        Ok(())
    }
}

impl Extra {
    /// Writes all fields for a host, whose messages have no other place for unknown fields. A field with the name of a declared one
    /// was not readable, and goes into the field [`UNREADABLE`].
    pub(crate) fn serialize_for_host<M: SerializeMap>(
        &self,
        map: &mut M,
        declared: &'static [&'static str],
    ) -> Result<(), M::Error> {
        if self.is_empty() {
            return Ok(());
        }
        let is_unreadable = |name: &String| declared.contains(&name.as_str());
        // An agent must not be able to write the field itself.
        let is_other = |name: &String| !is_unreadable(name) && name != UNREADABLE;
        for (name, value) in self.iter().filter(|(name, _)| is_other(name)) {
            map.serialize_entry(name, value)?;
        }
        for (name, json) in self.raw().filter(|(name, _)| is_other(name)) {
            map.serialize_entry(name, json)?;
        }
        let mut unreadable = Extra::default();
        for (name, value) in self.iter().filter(|(name, _)| is_unreadable(name)) {
            unreadable.insert(name, value.clone());
        }
        let raw = self.raw().filter(|(name, _)| is_unreadable(name)).map(|(name, json)| (name.clone(), json.clone()));
        unreadable.0.get_or_insert_default().raw.extend(raw);
        if !unreadable.is_empty() {
            map.serialize_entry(UNREADABLE, &unreadable)?;
        }
        Ok(())
    }
}

impl Serialize for Extra {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.serialize_into(&mut map)?;
        map.end()
    }
}

impl Extra {
    #[doc(hidden)]
    pub fn origin(&self) -> Option<RequestOrigin> {
        self.0.as_ref()?.origin
    }

    #[doc(hidden)]
    pub fn set_origin(&mut self, origin: RequestOrigin) {
        self.0.get_or_insert_default().origin = Some(origin);
    }

    /// The fields that the agent sent.
    fn sent(&self) -> Option<(&Map<String, Value>, &RawFields)> {
        self.0.as_ref().filter(|_| !self.is_empty()).map(|kept| (&kept.fields, &kept.raw))
    }
}

impl PartialEq for Extra {
    fn eq(&self, other: &Self) -> bool {
        self.sent() == other.sent()
    }
}

impl fmt::Debug for Extra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Extra").field(&self.sent()).finish()
    }
}

/// One value in a message, for code that reads messages without their types, such as the bindings.
#[derive(Debug)]
#[non_exhaustive]
pub enum Node<'a> {
    /// Absent or null.
    Null,
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// Text.
    Str(&'a str),
    /// A list.
    List(Vec<Node<'a>>),
    /// A nested message with a type of its own.
    Message(&'a dyn Reflect),
    /// JSON of any shape, as text.
    Json(&'a Json),
    /// An object of any shape.
    Object(&'a Map<String, Value>),
}

/// A message for code that does not know its type: its type name, its fields in order, and its unknown fields.
pub trait Reflect: fmt::Debug {
    /// Returns the name of the type, for example `TextPart`.
    fn type_name(&self) -> &'static str;
    /// Calls `visit` with each field in the order of declaration.
    fn for_each_field<'a>(&'a self, visit: &mut dyn FnMut(&'static str, Node<'a>));
    /// The unknown fields.
    fn extra(&self) -> &Extra;
    /// The tool call that the SDK has added to the message.
    fn tool_call(&self) -> Option<&ToolCallInfo> {
        None
    }
}

/// The type of a field in the catalogue, from which the Python and TypeScript types are made.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "of")]
#[non_exhaustive]
pub enum TypeRef {
    /// Text.
    String,
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// A boolean.
    Bool,
    /// JSON of any shape.
    Json,
    /// A JSON object of any shape.
    Object,
    /// The field may be absent.
    Optional(Box<TypeRef>),
    /// A list. An absent list is empty.
    List(Box<TypeRef>),
    /// A message type or a union of them.
    Ref(&'static str),
    /// One of these values. Other values are kept.
    Words(&'static [&'static str]),
}

/// A type that can be a field of a message.
pub trait Field: Sized {
    /// Returns the value of an absent field. `None` makes the field required.
    fn absent() -> Option<Self> {
        None
    }
    #[doc(hidden)]
    fn is_absent(&self) -> bool {
        false
    }
    #[doc(hidden)]
    fn decode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
    #[doc(hidden)]
    fn node(&self) -> Node<'_>;
    #[doc(hidden)]
    fn type_ref() -> TypeRef;
}

macro_rules! scalar_field {
    ($($ty:ty => $kind:ident, |$v:ident| $node:expr;)*) => {$(
        impl Field for $ty {
            fn decode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <$ty>::deserialize(deserializer)
            }
            fn node(&self) -> Node<'_> {
                let $v = self;
                $node
            }
            fn type_ref() -> TypeRef {
                TypeRef::$kind
            }
        }
    )*};
}

scalar_field! {
    String => String, |v| Node::Str(v);
    bool => Bool, |v| Node::Bool(*v);
    i64 => Int, |v| Node::Int(*v);
    f64 => Float, |v| Node::Float(*v);
    Json => Json, |v| Node::Json(v);
    Map<String, Value> => Object, |v| Node::Object(v);
}

impl<T: Field> Field for Option<T> {
    fn absent() -> Option<Self> {
        Some(None)
    }
    fn is_absent(&self) -> bool {
        self.is_none()
    }
    fn decode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::<Decoded<T>>::deserialize(deserializer).map(|value| value.map(|decoded| decoded.0))
    }
    fn node(&self) -> Node<'_> {
        self.as_ref().map_or(Node::Null, T::node)
    }
    fn type_ref() -> TypeRef {
        TypeRef::Optional(Box::new(T::type_ref()))
    }
}

impl<T: Field> Field for Vec<T> {
    fn absent() -> Option<Self> {
        Some(Vec::new())
    }
    fn decode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let list = Option::<Vec<Decoded<T>>>::deserialize(deserializer)?;
        Ok(list.unwrap_or_default().into_iter().map(|decoded| decoded.0).collect())
    }
    fn node(&self) -> Node<'_> {
        Node::List(self.iter().map(T::node).collect())
    }
    fn type_ref() -> TypeRef {
        TypeRef::List(Box::new(T::type_ref()))
    }
}

impl<T: Field> Field for Box<T> {
    fn decode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::decode(deserializer).map(Box::new)
    }
    fn node(&self) -> Node<'_> {
        T::node(self)
    }
    fn type_ref() -> TypeRef {
        T::type_ref()
    }
}

/// Allows a [`Field`] in serde's own containers.
pub struct Decoded<T>(pub T);

impl<'de, T: Field> Deserialize<'de> for Decoded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::decode(deserializer).map(Decoded)
    }
}

/// Returns the value of a field after the whole object was read: its value, its default, or an error that names it.
///
/// # Errors
/// Returns the error for a missing field.
pub fn required<T: Field, E: serde::de::Error>(value: Option<T>, name: &'static str) -> Result<T, E> {
    value.or_else(T::absent).ok_or_else(|| E::missing_field(name))
}

thread_local! {
    static KEEPS_UNREADABLE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Returns whether optional fields that cannot be read are kept in `extra`, instead of failing their message.
pub fn keeps_unreadable() -> bool {
    KEEPS_UNREADABLE.get()
}

/// Reads messages whose optional fields may be unreadable.
pub fn keeping_unreadable<T>(read: impl FnOnce() -> T) -> T {
    let before = KEEPS_UNREADABLE.replace(true);
    let read = read();
    KEEPS_UNREADABLE.set(before);
    read
}

/// Adds an optional field that cannot be read.
pub fn keep_unreadable(extra: &mut Extra, name: String, raw: Json, reason: &serde_json::Error) {
    tracing::debug!(field = name, %reason, "unreadable optional field kept as it came");
    keep_unknown(extra, name, raw);
}

/// Adds an unknown field.
pub fn keep_unknown(extra: &mut Extra, name: String, raw: Json) {
    match serde_json::from_str(raw.get()) {
        Ok(value) => extra.insert(name, value),
        Err(_) => extra.0.get_or_insert_default().raw.push((name, raw)),
    }
}

/// Returns the value of an object's `type` field, empty if the field is missing, and its other fields.
pub fn kept_object(json: &Json) -> Option<(String, Extra)> {
    struct Fields(String, Extra);
    impl<'de> Deserialize<'de> for Fields {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Visitor;
            impl<'de> serde::de::Visitor<'de> for Visitor {
                type Value = Fields;
                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("an object")
                }
                fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                    let (mut kind, mut extra) = (String::new(), Extra::default());
                    while let Some(name) = map.next_key::<Key<'de>>()? {
                        let value = map.next_value::<Json>()?;
                        let word = if &*name.0 == "type" { serde_json::from_str(value.get()).ok() } else { None };
                        match word {
                            Some(word) => kind = word,
                            None => keep_unknown(&mut extra, name.0.into_owned(), value),
                        }
                    }
                    Ok(Fields(kind, extra))
                }
            }
            deserializer.deserialize_map(Visitor)
        }
    }
    serde_json::from_str(json.get()).ok().map(|Fields(kind, extra)| (kind, extra))
}

/// Returns the value of an object's `type` field.
///
/// # Errors
/// Returns the problem of the text if it is not an object with a `type`.
pub fn tag_of(json: &str) -> serde_json::Result<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Tagged<'a> {
        #[serde(borrow, rename = "type")]
        tag: Key<'a>,
    }
    let mut found = None;
    let read = for_each_member(json, |name, value| {
        if name.has_escapes || (name.written() == "type" && found.is_some()) {
            return Err(NotJson);
        }
        if name.written() == "type" {
            found = Some(value);
        }
        Ok(())
    });
    match found.and_then(text_of) {
        Some(tag) if read.is_ok() => Ok(tag),
        // An unusual or invalid form. serde reads it, or describes the problem.
        _ => borrowed::<Tagged<'_>>(json).map(|tagged| tagged.tag.0),
    }
}

#[doc(hidden)]
pub const NO_EXTRA: &Extra = &Extra(None);
