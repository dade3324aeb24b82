//! The other side of the protocol: a Wire server without I/O ([`server`]), and on it an agent that follows a script.

mod calls;
mod fields;
mod history;
mod hooks;
mod io;
mod run;
mod script;
mod server;
mod spelling;
mod template;
mod turn;

pub(crate) use run::main;
pub(crate) use script::Script;
