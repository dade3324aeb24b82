//! The messages as types, each declared once, and their catalogue for the generators.

#[macro_use]
mod macros;

pub mod added;
mod breaks;
pub mod catalog;
#[doc(hidden)]
pub mod description;
mod event_union;
pub mod lenient;
pub mod types;
pub mod value;

pub use crate::json::Json;
pub use added::{Added, written_for_host};
#[doc(hidden)]
pub use breaks::{MESSAGE_BREAK, Messages};
pub use event_union::{Event, decode_body};
pub use types::*;
pub use value::{Extra, Node, Reflect, TypeRef};
