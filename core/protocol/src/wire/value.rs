//! What the fields of messages have in common: how one is decoded, left out, described and looked at.

use std::borrow::Cow;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::ToolCallInfo;
use super::scan::{NotJson, for_each_member, text_of};

/// JSON of any shape, kept as the text that came over the pipe.
///
/// It is parsed only when somebody asks: large payloads of unknown types cost a copy, nothing more, and
/// spellings that [`serde_json::Value`] cannot hold (lone surrogates, huge numbers) survive.
///
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// use kimi_agent::wire::Json;
/// let json = Json::from(serde_json::json!({"a": [1, 2]}));
/// assert_eq!(json.get(), r#"{"a":[1,2]}"#);
/// assert_eq!(json.to_value()["a"][1], 2);
/// ```
#[derive(Clone)]
pub struct Json(Box<RawValue>);

impl Json {
    /// The JSON text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// The parsed value; `Value::Null` if the text holds something that a [`Value`] cannot.
    pub fn to_value(&self) -> Value {
        serde_json::from_str(self.get()).unwrap_or(Value::Null)
    }

    /// Decodes into a type of your own.
    ///
    /// # Errors
    /// What serde says when the shape differs.
    pub fn decode<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.get())
    }

    #[doc(hidden)]
    pub fn from_raw(raw: &RawValue) -> Self {
        Self(raw.to_owned())
    }

    /// JSON from its text; `null` if it is not JSON.
    pub(crate) fn from_text(text: &str) -> Self {
        serde_json::from_str::<&RawValue>(text).map_or_else(|_| Self::null(), Self::from_raw)
    }

    /// The JSON `null`.
    pub fn null() -> Self {
        Self::from(Value::Null)
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        Self(serde_json::value::to_raw_value(&value).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }
}

impl Default for Json {
    fn default() -> Self {
        Self::null()
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        let value = |json: &Self| serde_json::from_str::<Value>(json.get()).ok();
        // What no value can hold is equal only to the very same text.
        self.get() == other.get() || value(self).is_some_and(|mine| value(other) == Some(mine))
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self)
    }
}

/// The fields of a message that this SDK has no name for: kept, and sent on as they came.
/// Of a number that 64 bits do not hold, the nearest that a `f64` does.
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

/// Fields by name, as text.
type RawFields = Vec<(String, Json)>;

#[derive(Clone, Default)]
struct Kept {
    fields: Map<String, Value>,
    /// Fields that no [`Value`] can hold, such as `1e999` or half of a surrogate pair, as text.
    raw: RawFields,
    origin: Option<RequestOrigin>,
}

/// Says which request of which session of this process a message is. It is not part of the wire form, and equality does not
/// look at it. A copy that was made by way of the wire form has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestOrigin {
    /// The session's connection. No other one of this process has this number.
    pub session: u64,
    /// The request among those of the connection.
    pub request: u64,
}

impl Extra {
    /// The value of one unknown field.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.as_ref()?.fields.get(name)
    }

    /// Whether there is none, as in nearly every message.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|kept| kept.fields.is_empty() && kept.raw.is_empty())
    }

    /// All of them, in the order they came, but for those of [`Extra::raw`].
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.0.iter().flat_map(|kept| kept.fields.iter())
    }

    /// The fields that a [`Value`] cannot hold, such as a number beyond all bounds or half of a surrogate pair.
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

    /// Writes all of them into an object.
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

    /// What of it the agent sent.
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

/// One value inside a message, for code that walks messages without knowing their types: the bindings.
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

/// A message seen from outside: its type name, its fields in order, and what came besides.
pub trait Reflect: fmt::Debug {
    /// The name of the type, as `TextPart`.
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

/// How the type of a field reads in the catalogue from which the Python and TypeScript types are made.
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
    /// May be absent.
    Optional(Box<TypeRef>),
    /// A list; absent reads as empty.
    List(Box<TypeRef>),
    /// A message type or a union of them.
    Ref(&'static str),
    /// One of these words; others are kept as they are.
    Words(&'static [&'static str]),
}

/// What a type must do to be a field of a message.
pub trait Field: Sized {
    /// The value where the field is absent; `None` makes it required.
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

/// Lets serde's own containers hold a [`Field`].
pub struct Decoded<T>(pub T);

impl<'de, T: Field> Deserialize<'de> for Decoded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::decode(deserializer).map(Decoded)
    }
}

/// The value of a field after all of an object was read: what came, its default, or an error naming it.
pub fn required<T: Field, E: serde::de::Error>(value: Option<T>, name: &'static str) -> Result<T, E> {
    value.or_else(T::absent).ok_or_else(|| E::missing_field(name))
}

/// Collects the fields of an object that nobody knows, or nobody can read.
pub fn keep_unknown(extra: &mut Extra, name: String, raw: Json) {
    match serde_json::from_str(raw.get()) {
        Ok(value) => extra.insert(name, value),
        Err(_) => extra.0.get_or_insert_default().raw.push((name, raw)),
    }
}

/// An object whose type can't be read: the word in its `type` field, empty if there is none, and its other fields.
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

/// Text borrowed from the line where it holds no escapes (serde's own `Cow` always copies).
pub struct Key<'de>(pub Cow<'de, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
            fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(text)))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

/// Reads a struct from an object: serde would take a list of its fields, too, which is no message.
pub fn object<'de, T: Deserialize<'de>>(json: &'de str) -> serde_json::Result<T> {
    if json.trim_start().starts_with('[') {
        return Err(serde::de::Error::custom("a list, not an object"));
    }
    serde_json::from_str(json)
}

/// The word in an object's `type` field.
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
        // Unusual, or wrong: serde says what is wrong.
        _ => object::<Tagged<'_>>(json).map(|tagged| tagged.tag.0),
    }
}

#[doc(hidden)]
pub const NO_EXTRA: &Extra = &Extra(None);
