//! The operations on spans and metrics that a host applies with its own OpenTelemetry, in the order in which it gets them.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

/// The value of an attribute or of a metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// Text.
    Text(String),
    /// A whole number.
    Int(i64),
    /// A number.
    Double(f64),
    /// A list of text.
    Texts(Vec<String>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Double(number)
    }
}

/// Attributes, in order. As JSON they are an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes(Vec<(&'static str, Value)>);

impl Attributes {
    /// Adds an attribute.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.0.push((name, value.into()));
        self
    }

    /// Adds an attribute if it has a value.
    #[must_use]
    pub fn maybe(self, name: &'static str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Returns the attributes.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(name, value)| (*name, value))
    }

    /// Returns the value of an attribute.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

impl FromIterator<(&'static str, Value)> for Attributes {
    fn from_iter<T: IntoIterator<Item = (&'static str, Value)>>(attributes: T) -> Self {
        Self(attributes.into_iter().collect())
    }
}

impl IntoIterator for Attributes {
    type Item = (&'static str, Value);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Serialize for Attributes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// The kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanKind {
    /// A call of another service.
    Client,
    /// Work within the agent.
    Internal,
}

/// The error of a span.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SpanError {
    /// The value of `error.type`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The description of the status of the span.
    pub message: String,
}

/// The start of a span.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpanStart {
    /// The number of the span, unique in this process.
    pub span: u64,
    /// The number of its parent. `None` for a turn, whose parent is the current context of the host.
    pub parent: Option<u64>,
    /// The name.
    pub name: String,
    /// The kind.
    pub kind: SpanKind,
    /// The time, in nanoseconds since 1970-01-01 UTC.
    pub time: u64,
    /// The attributes that a sampler can read.
    pub attributes: Attributes,
}

/// An operation. Times are nanoseconds since 1970-01-01 UTC.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// Starts a span.
    Start(SpanStart),
    /// Adds an event to a span.
    Event {
        /// The number of the span.
        span: u64,
        /// The name of the event.
        name: &'static str,
        /// The time.
        time: u64,
        /// The attributes of the event.
        attributes: Attributes,
    },
    /// Sets the name and attributes of a span.
    Set {
        /// The number of the span.
        span: u64,
        /// The new name.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The attributes.
        attributes: Attributes,
    },
    /// Ends a span. With an error, the host also sets the status and the attribute `error.type`.
    End {
        /// The number of the span.
        span: u64,
        /// The time.
        time: u64,
        /// The error, if there was one.
        error: Option<SpanError>,
    },
    /// Adds a value to a metric.
    Record {
        /// The name of the metric.
        metric: &'static str,
        /// The value, or the number to add to a counter.
        value: Value,
        /// The attributes of the value.
        attributes: Attributes,
    },
}
