//! Two declarations, `message!` and `string_enum!`, from which all of Wire's types are made: the struct, its serde
//! (unknown fields kept, nothing buffered twice), its reflection, and its page in the catalogue.

/// Declares message types, once a file. A field whose type is an `Option` or a list may be absent; any other is required.
/// A field marked `or raw` whose value can't be read is absent, and its value is kept in `extra`.
/// `since "x.y"` names the Wire version that brought a type or a field.
macro_rules! message {
    ($(
        $(#[doc = $doc:expr])*
        $name:ident $(tagged $tag:literal)? since $since:literal $(derive $derive:ident)? $(adds $added:ident)? {
            $(
                $(#[doc = $fdoc:expr])*
                $field:ident $(as $wire:literal)? $(or $keep:ident)? : $ty:ty $(= $fsince:literal)?
            ),* $(,)?
        }
    )*) => {$(
        $(#[doc = $doc])*
        #[doc = concat!("\n\nSince Wire ", $since, ".")]
        #[derive(Clone, Debug, PartialEq $(, $derive)?)]
        pub struct $name {
            $(
                $(#[doc = $fdoc])*
                $(#[doc = concat!(" Since Wire ", $fsince, ".")])?
                pub $field: $ty,
            )*
            /// Fields that this SDK does not know, kept as they came.
            pub extra: $crate::wire::Extra,
            $(
                /// The tool call that this is about, with its complete arguments; empty if the agent never named the call.
                /// The SDK adds it: it is not part of the wire form, and equality does not look at it.
                pub $added: $crate::wire::Added,
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
                        let mut extra = $crate::wire::Extra::default();
                        while let Some(key) = map.next_key::<$crate::wire::value::Key<'de>>()? {
                            match &*key.0 {
                                $("type" => {
                                    message!(@skip $tag);
                                    map.next_value::<serde::de::IgnoredAny>()?;
                                })?
                                $(message!(@wire $field $($wire)?) => {
                                    message!(@take map, key, extra, $field: $ty $(, $keep)?);
                                })*
                                _ => {
                                    let raw = map.next_value::<$crate::wire::Json>()?;
                                    $crate::wire::value::keep_unknown(&mut extra, key.0.into_owned(), raw);
                                }
                            }
                        }
                        Ok($name {
                            $($field: $crate::wire::value::required($field, message!(@wire $field $($wire)?))?,)*
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
                use $crate::wire::value::Field as _;
                let mut map = serializer.serialize_map(None)?;
                $(map.serialize_entry("type", $tag)?;)?
                $(if !self.$field.is_absent() {
                    map.serialize_entry(message!(@wire $field $($wire)?), &self.$field)?;
                })*
                self.extra.serialize_into(&mut map)?;
                $(if $crate::wire::added::for_host() {
                    // After the unknown fields, so that an agent's field of this name does not count.
                    map.serialize_entry($crate::wire::added::KEY, &self.$added.get())?;
                })?
                map.end()
            }
        }

        impl $crate::wire::Reflect for $name {
            fn type_name(&self) -> &'static str {
                stringify!($name)
            }
            #[allow(unused_variables, reason = "messages without fields visit nothing")]
            fn for_each_field<'a>(&'a self, visit: &mut dyn FnMut(&'static str, $crate::wire::Node<'a>)) {
                #[allow(unused_imports, reason = "messages without fields do not need it")]
                use $crate::wire::value::Field as _;
                $(visit(message!(@wire $field $($wire)?), self.$field.node());)*
            }
            fn extra(&self) -> &$crate::wire::Extra {
                &self.extra
            }
            $(fn $added(&self) -> Option<&$crate::wire::ToolCallInfo> {
                self.$added.get()
            })?
        }

        impl $crate::wire::value::Field for $name {
            fn decode<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                serde::Deserialize::deserialize(deserializer)
            }
            fn node(&self) -> $crate::wire::Node<'_> {
                $crate::wire::Node::Message(self)
            }
            fn type_ref() -> $crate::wire::TypeRef {
                $crate::wire::TypeRef::Ref(stringify!($name))
            }
        }

        impl $crate::wire::catalog::Describe for $name {
            fn describe() -> $crate::wire::catalog::MessageType {
                #[allow(unused_imports, reason = "messages without fields do not need it")]
                use $crate::wire::value::Field as _;
                $crate::wire::catalog::MessageType {
                    name: stringify!($name),
                    doc: $crate::wire::catalog::join_doc(&[$($doc),*]),
                    since: $since,
                    tag: message!(@tag $($tag)?),
                    adds: message!(@adds $($added)?),
                    fields: vec![$($crate::wire::catalog::FieldType {
                        name: message!(@wire $field $($wire)?),
                        doc: $crate::wire::catalog::join_doc(&[$($fdoc),*]),
                        since: message!(@since $since $($fsince)?),
                        ty: <$ty>::type_ref(),
                        required: <$ty as $crate::wire::value::Field>::absent().is_none(),
                    }),*],
                }
            }
        }
    )*

        /// What the file declares, for the catalogue.
        pub(super) fn described() -> Vec<$crate::wire::catalog::MessageType> {
            vec![$(<$name as $crate::wire::catalog::Describe>::describe()),*]
        }
    };
    (@skip $tag:literal) => {};
    (@take $map:ident, $key:ident, $extra:ident, $field:ident: $ty:ty) => {
        $field = Some($map.next_value::<$crate::wire::value::Decoded<$ty>>()?.0)
    };
    (@take $map:ident, $key:ident, $extra:ident, $field:ident: $ty:ty, $keep:ident) => {{
        let raw = $map.next_value::<$crate::wire::Json>()?;
        match serde_json::from_str::<$crate::wire::value::Decoded<$ty>>(raw.get()) {
            Ok(value) => $field = Some(value.0),
            Err(_) => $crate::wire::value::keep_unknown(&mut $extra, $key.0.into_owned(), raw),
        }
    }};
    (@adds $added:ident) => { Some(stringify!($added)) };
    (@adds) => { None };
    (@tag $tag:literal) => { Some($tag) };
    (@tag) => { None };
    (@wire $field:ident $wire:literal) => { $wire };
    (@wire $field:ident) => { stringify!($field) };
    (@since $since:literal $fsince:literal) => { $fsince };
    (@since $since:literal) => { $since };
}

/// Declares a set of words that a field may hold; a word that is not among them is kept, not refused.
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
            /// A word that this SDK does not know.
            Other(String),
        }

        impl $name {
            /// The words of the protocol.
            pub const WORDS: &'static [&'static str] = &[$($word),*];

            /// The word as it stands on the wire.
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
                let word = <$crate::wire::value::Key<'de> as serde::Deserialize>::deserialize(deserializer)?;
                Ok(Self::from(&*word.0))
            }
        }

        impl $crate::wire::value::Field for $name {
            fn decode<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                serde::Deserialize::deserialize(deserializer)
            }
            fn node(&self) -> $crate::wire::Node<'_> {
                $crate::wire::Node::Str(self.as_str())
            }
            fn type_ref() -> $crate::wire::TypeRef {
                $crate::wire::TypeRef::Words(Self::WORDS)
            }
        }
    )*};
}

/// Declares a union of messages told apart by the word in their `type` field; a word that is not among them makes
/// the variant `Unknown`, which keeps everything. Inside of another message, so does an object that can't be read: one
/// such item must not cost the whole message.
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
            /// A type that this SDK does not know, whole.
            Unknown($unknown),
        }

        impl $name {
            /// The variants' type names, for the catalogue.
            pub const MEMBERS: &'static [&'static str] = &[$(stringify!($ty),)* stringify!($unknown)];

            /// An object that can't be read, whole.
            fn kept(json: &$crate::wire::Json) -> Option<Self> {
                let (kind, extra) = $crate::wire::value::kept_object(json)?;
                Some(Self::Unknown($unknown { kind, extra }))
            }

            /// Whether this is an object of a known type, or of none, that could not be read.
            pub fn is_unreadable(&self) -> bool {
                match self {
                    Self::Unknown(unknown) => unknown.kind.is_empty() || [$($tag),*].contains(&&*unknown.kind),
                    _ => false,
                }
            }

            fn inner(&self) -> &dyn $crate::wire::Reflect {
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
                use serde::de::Error as _;
                let json = <$crate::wire::Json as serde::Deserialize>::deserialize(deserializer)?;
                let tag = $crate::wire::value::tag_of(json.get()).map_err(D::Error::custom)?;
                match &*tag {
                    $($tag => serde_json::from_str(json.get()).map(Self::$variant),)*
                    _ => serde_json::from_str(json.get()).map(Self::Unknown),
                }
                .map_err(D::Error::custom)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$variant(inner) => inner.serialize(serializer),)*
                    // It had no type that is a word.
                    Self::Unknown(inner) if inner.kind.is_empty() => inner.extra.serialize(serializer),
                    Self::Unknown(inner) => inner.serialize(serializer),
                }
            }
        }

        impl $crate::wire::value::Field for $name {
            fn decode<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                use serde::de::Error as _;
                let json = <$crate::wire::Json as serde::Deserialize>::deserialize(deserializer)?;
                serde_json::from_str(json.get()).or_else(|error| Self::kept(&json).ok_or_else(|| D::Error::custom(error)))
            }
            fn node(&self) -> $crate::wire::Node<'_> {
                $crate::wire::Node::Message(self.inner())
            }
            fn type_ref() -> $crate::wire::TypeRef {
                $crate::wire::TypeRef::Ref(stringify!($name))
            }
        }
    };
}
