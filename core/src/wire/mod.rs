//! Messages as types, the framing of lines, and JSON-RPC. No I/O.

#[macro_use]
mod macros;

pub(crate) mod added;
pub mod catalog;
mod event_union;
pub(crate) mod framing;
pub(crate) mod jsonrpc;
mod message;
pub(crate) mod value;

pub use added::Added;
#[cfg(feature = "bridge")]
pub use added::written_for_host;
pub use event_union::Event;
pub(crate) use event_union::decode_body;
pub use message::*;
pub use value::{Extra, Json, Node, Reflect, TypeRef};
