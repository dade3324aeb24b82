//! Wire: its messages as types, the framing of lines, and the JSON-RPC envelope. No I/O.

#[macro_use]
mod macros;

pub(crate) mod added;
pub mod catalog;
pub(crate) mod envelope;
mod event_union;
pub(crate) mod framing;
mod message;
mod parcel;
pub(crate) mod value;

pub use added::Added;
#[cfg(feature = "bridge")]
pub use added::written_for_host;
pub use event_union::Event;
pub(crate) use event_union::decode_body;
pub use message::*;
pub(crate) use parcel::Parcel;
pub use value::{Extra, Json, Node, Reflect, TypeRef};
