//! The macros `message!`, `string_enum!` and `tagged_union!`, which declare all types of messages: the struct, its
//! serde (which keeps unknown fields and buffers nothing twice), its reflection, and its entry in the catalogue.

/// Declares the message types of a file. A field whose type is an `Option` or a list may be absent; other fields are
/// required. An absent field whose value cannot be read leaves its value in `extra`: a field with `or raw` always, others if
/// the message cannot be read without that. `or json`, `or number` and `or others` read further forms ([`lenient`](super::lenient)).
/// `since "x.y"`
/// names the Wire version that added a type or a field; `since ""` is for a type that Wire does not have.
macro_rules! message {
    ($(
        $(#[doc = $doc:expr])*
        $name:ident $(tagged $tag:literal)? since $since:tt $(derive $derive:ident)? $(adds $added:ident)? {
            $(
                $(#[doc = $fdoc:expr])*
                $field:ident $(as $wire:literal)? $(or $keep:ident)? : $ty:ty $(= $fsince:literal)?
            ),* $(,)?
        }
    )*) => {$(
        $(#[doc = $doc])*
        #[doc = message!(@origin $since)]
        #[derive(Clone, Debug, PartialEq $(, $derive)?)]
        pub struct $name {
            $(
                $(#[doc = $fdoc])*
                $(#[doc = concat!(" Since Wire ", $fsince, ".")])?
                pub $field: $ty,
            )*
            /// Fields that this SDK does not know, unchanged.
            pub extra: $crate::messages::Extra,
            $(
                /// The tool call that this is about, with its complete arguments; empty if the agent never named the call.
                /// The SDK adds it: it is not part of the wire form, and equality does not look at it.
                pub $added: $crate::messages::Added,
            )?
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor;
                impl<'de> serde::de::Visitor<'de> for Visitor {
                    type Value = $name;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!("an object (", stringify!($name), ")"))
                    }
                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<$name, A::Error> {
                        $(let mut $field: Option<$ty> = None;)*
                        let mut extra = $crate::messages::Extra::default();
                        while let Some(key) = map.next_key::<$crate::json::Key<'de>>()? {
                            match &*key.0 {
                                $("type" => {
                                    message!(@skip $tag);
                                    map.next_value::<serde::de::IgnoredAny>()?;
                                })?
                                $(message!(@wire $field $($wire)?) => {
                                    message!(@take map, key, extra, $field: $ty $(, $keep)?);
                                })*
                                _ => {
                                    let raw = map.next_value::<$crate::messages::Json>()?;
                                    $crate::messages::value::keep_unknown(&mut extra, key.0.into_owned(), raw);
                                }
                            }
                        }
                        Ok($name {
                            $($field: $crate::messages::value::required($field, message!(@wire $field $($wire)?))?,)*
                            extra,
                            $($added: Default::default(),)?
                        })
                    }
                }
                deserializer.deserialize_map(Visitor)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                #[allow(unused_imports, reason = "messages without fields do not need it")]
                use $crate::messages::value::Field as _;
                let mut map = serializer.serialize_map(None)?;
                $(map.serialize_entry("type", $tag)?;)?
                let for_host = $crate::messages::added::for_host();
                $(if !self.$field.is_absent() && (for_host || !self.extra.has(message!(@wire $field $($wire)?))) {
                    map.serialize_entry(message!(@wire $field $($wire)?), &self.$field)?;
                })*
                if for_host {
                    self.extra.serialize_for_host(&mut map, &[$(message!(@wire $field $($wire)?)),*])?;
                } else {
                    self.extra.serialize_into(&mut map)?;
                }
                $(if for_host {
                    // Written after the unknown fields, so that it replaces an agent's field of the same name.
                    map.serialize_entry($crate::messages::added::KEY, &self.$added.get())?;
                })?
                map.end()
            }
        }

        impl $crate::messages::Reflect for $name {
            fn type_name(&self) -> &'static str {
                stringify!($name)
            }
            #[allow(unused_variables, reason = "messages without fields visit nothing")]
            fn for_each_field<'a>(&'a self, visit: &mut dyn FnMut(&'static str, $crate::messages::Node<'a>)) {
                #[allow(unused_imports, reason = "messages without fields do not need it")]
                use $crate::messages::value::Field as _;
                $(visit(message!(@wire $field $($wire)?), self.$field.node());)*
            }
            fn extra(&self) -> &$crate::messages::Extra {
                &self.extra
            }
            $(fn $added(&self) -> Option<&$crate::messages::ToolCallInfo> {
                self.$added.get()
            })?
        }

        impl $crate::messages::value::Field for $name {
            fn decode<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                serde::Deserialize::deserialize(deserializer)
            }
            fn node(&self) -> $crate::messages::Node<'_> {
                $crate::messages::Node::Message(self)
            }
            fn type_ref() -> $crate::messages::TypeRef {
                $crate::messages::TypeRef::Ref(stringify!($name))
            }
        }

        impl $crate::messages::description::Describe for $name {
            fn describe() -> $crate::messages::description::MessageType {
                #[allow(unused_imports, reason = "messages without fields do not need it")]
                use $crate::messages::value::Field as _;
                $crate::messages::description::MessageType {
                    name: stringify!($name),
                    doc: $crate::messages::description::join_doc(&[$($doc),*]),
                    since: $since,
                    tag: message!(@tag $($tag)?),
                    adds: message!(@adds $($added)?),
                    fields: vec![$($crate::messages::description::FieldType {
                        name: message!(@wire $field $($wire)?),
                        doc: $crate::messages::description::join_doc(&[$($fdoc),*]),
                        since: message!(@since $since $($fsince)?),
                        ty: <$ty>::type_ref(),
                        required: <$ty as $crate::messages::value::Field>::absent().is_none(),
                    }),*],
                }
            }
        }
    )*

        /// The declarations of the file, for the catalogue.
        pub(super) fn described() -> Vec<$crate::messages::description::MessageType> {
            vec![$(<$name as $crate::messages::description::Describe>::describe()),*]
        }
    };
    (@skip $tag:literal) => {};
    (@take $map:ident, $key:ident, $extra:ident, $field:ident: $ty:ty) => {
        if $crate::messages::value::keeps_unreadable() && <$ty as $crate::messages::value::Field>::absent().is_some() {
            message!(@take $map, $key, $extra, $field: $ty, raw)
        } else {
            $field = Some($map.next_value::<$crate::messages::value::Decoded<$ty>>()?.0)
        }
    };
    (@take $map:ident, $key:ident, $extra:ident, $field:ident: $ty:ty, json) => {
        $field = Some($map.next_value::<$crate::messages::lenient::JsonText>()?.0)
    };
    (@take $map:ident, $key:ident, $extra:ident, $field:ident: $ty:ty, number) => {
        if $crate::messages::value::keeps_unreadable() && <$ty as $crate::messages::value::Field>::absent().is_some() {
            let raw = $map.next_value::<$crate::messages::Json>()?;
            match serde_json::from_str::<$crate::messages::lenient::Number<$ty>>(raw.get()) {
                Ok(id) => $field = Some(id.0),
                Err(error) => $crate::messages::value::keep_unreadable(&mut $extra, $key.0.into_owned(), raw, &error),
            }
        } else {
            $field = Some($map.next_value::<$crate::messages::lenient::Number<$ty>>()?.0)
        }
    };
    (@take $map:ident, $key:ident, $extra:ident, $field:ident: $ty:ty, others) => {{
        let raw = $map.next_value::<$crate::messages::Json>()?;
        let items = $crate::messages::lenient::items(&raw, &$key.0, &mut $extra);
        $field = Some(items.map_err(serde::de::Error::custom)?);
    }};
    (@take $map:ident, $key:ident, $extra:ident, $field:ident: $ty:ty, raw) => {{
        let raw = $map.next_value::<$crate::messages::Json>()?;
        match serde_json::from_str::<$crate::messages::value::Decoded<$ty>>(raw.get()) {
            Ok(value) => $field = Some(value.0),
            Err(error) => $crate::messages::value::keep_unreadable(&mut $extra, $key.0.into_owned(), raw, &error),
        }
    }};
    (@adds $added:ident) => { Some(stringify!($added)) };
    (@adds) => { None };
    (@tag $tag:literal) => { Some($tag) };
    (@tag) => { None };
    (@wire $field:ident $wire:literal) => { $wire };
    (@wire $field:ident) => { stringify!($field) };
    (@origin "") => { "" };
    (@origin $since:tt) => { concat!("\n\nSince Wire ", $since, ".") };
    (@since $since:literal $fsince:literal) => { $fsince };
    (@since $since:literal) => { $since };
}

/// Declares the values of a field. An unknown value is kept, not refused.
macro_rules! string_enum {
    ($(
        $(#[doc = $doc:expr])*
        $name:ident { $($(#[doc = $vdoc:expr])* $variant:ident = $word:literal),* $(,)? }
    )*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[doc = $vdoc])* $variant,)*
            /// A value that this SDK does not know.
            Other(String),
        }

        impl $name {
            /// The known values.
            pub const WORDS: &'static [&'static str] = &[$($word),*];

            /// Returns the value in its wire form.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)*
                    Self::Other(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)*
                    other => Self::Other(other.to_owned()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <$crate::json::Key<'de> as serde::Deserialize>::deserialize(deserializer)?;
                Ok(Self::from(&*word.0))
            }
        }

        impl $crate::messages::value::Field for $name {
            fn decode<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                serde::Deserialize::deserialize(deserializer)
            }
            fn node(&self) -> $crate::messages::Node<'_> {
                $crate::messages::Node::Str(self.as_str())
            }
            fn type_ref() -> $crate::messages::TypeRef {
                $crate::messages::TypeRef::Words(Self::WORDS)
            }
        }
    )*};
}

/// Declares a union of messages that the value of their `type` field distinguishes. An unknown value makes the variant
/// `Unknown`, which keeps all fields. In another message, an object that cannot be read becomes `Unknown`, too: one
/// such item must not invalidate the whole message.
macro_rules! tagged_union {
    (
        $(#[doc = $doc:expr])*
        $name:ident {
            $($(#[doc = $vdoc:expr])* $variant:ident($ty:ident) = $tag:literal),* $(,)?
        } else $unknown:ident
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[doc = $vdoc])* $variant($ty),)*
            /// A type that this SDK does not know, with all fields.
            Unknown($unknown),
        }

        impl $name {
            /// The type names of the variants, for the catalogue.
            pub const MEMBERS: &'static [&'static str] = &[$(stringify!($ty),)* stringify!($unknown)];

            fn read(json: &str) -> serde_json::Result<Self> {
                match &*$crate::messages::value::tag_of(json)? {
                    $($tag => serde_json::from_str(json).map(Self::$variant),)*
                    _ => serde_json::from_str(json).map(Self::Unknown),
                }
            }

            /// Makes the variant for an object that cannot be read, with all fields.
            fn kept(json: &$crate::messages::Json) -> Option<Self> {
                let (kind, extra) = $crate::messages::value::kept_object(json)?;
                Some(Self::Unknown($unknown { kind, extra }))
            }

            /// Returns whether this is an object that could not be read: of a known type, or without a type.
            pub fn is_unreadable(&self) -> bool {
                match self {
                    Self::Unknown(unknown) => unknown.kind.is_empty() || [$($tag),*].contains(&&*unknown.kind),
                    _ => false,
                }
            }

            fn inner(&self) -> &dyn $crate::messages::Reflect {
                match self {
                    $(Self::$variant(inner) => inner,)*
                    Self::Unknown(inner) => inner,
                }
            }
        }

        $(impl From<$ty> for $name {
            fn from(inner: $ty) -> Self {
                Self::$variant(inner)
            }
        })*

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let json = <$crate::messages::Json as serde::Deserialize>::deserialize(deserializer)?;
                Self::read(json.get()).map_err(serde::de::Error::custom)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$variant(inner) => inner.serialize(serializer),)*
                    // Its `type` was not a string.
                    Self::Unknown(inner) if inner.kind.is_empty() => inner.extra.serialize(serializer),
                    Self::Unknown(inner) => inner.serialize(serializer),
                }
            }
        }

        impl $crate::messages::value::Field for $name {
            fn decode<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let json = <$crate::messages::Json as serde::Deserialize>::deserialize(deserializer)?;
                Self::read(json.get()).or_else(|error| Self::kept(&json).ok_or_else(|| serde::de::Error::custom(error)))
            }
            fn node(&self) -> $crate::messages::Node<'_> {
                $crate::messages::Node::Message(self.inner())
            }
            fn type_ref() -> $crate::messages::TypeRef {
                $crate::messages::TypeRef::Ref(stringify!($name))
            }
        }
    };
}
