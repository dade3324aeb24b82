//! Messages as types, the framing of lines, and JSON-RPC. No I/O.

#[macro_use]
mod macros;

pub mod added;
pub mod catalog;
mod event_union;
#[allow(missing_docs, reason = "not an API for programs")]
pub mod framing;
#[allow(missing_docs, reason = "not an API for programs")]
pub mod jsonrpc;
pub mod message;
pub(crate) mod scan;
pub mod value;

pub use added::{Added, written_for_host};
pub use event_union::{Event, decode_body};
pub use message::*;
pub use value::{Extra, Json, Node, Reflect, TypeRef};
