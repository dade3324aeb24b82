//! Wire's messages as types, by subject.

mod content;
mod display;
mod event;
mod handshake;
mod request;
mod tool;

pub use content::*;
pub use display::*;
pub use event::*;
pub use handshake::*;
pub use request::*;
pub use tool::*;

/// Every type that is declared here, for the catalogue.
pub(super) fn described() -> Vec<super::description::MessageType> {
    [
        content::described(),
        display::described(),
        event::described(),
        tool::described(),
        request::described(),
        handshake::described(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
