//! The agent's side of the protocol: a Wire server on which an agent can be built, for every version of Wire and for
//! the legacy protocol. The [scripted agent](scripted) is one.
//!
//! The server follows the protocol by itself. It answers the handshake and registers the program's tools. It runs one
//! turn at a time, confirms a cancel, a steer and plan mode, and replays the history. It refuses invalid calls with the
//! right code, and converts messages to its version. The agent behind it decides what to send and to ask, and when a
//! turn ends.
//!
//! [`Server`] does no I/O; [`Connection`] adds two blocking streams:
//!
//! ```
//! use std::io::Cursor;
//!
//! use kimi_agent_testing::{Connection, Incoming, Outcome, Profile, Server};
//! use serde_json::json;
//!
//! let input = Cursor::new(concat!(
//!     r#"{"jsonrpc":"2.0","id":"1","method":"initialize","params":{"protocol_version":"1.10"}}"#, "\n",
//!     r#"{"jsonrpc":"2.0","id":"2","method":"prompt","params":{"user_input":"hi"}}"#, "\n",
//! ));
//! let mut output = Vec::new(); // really: std::io::stdin().lock(), std::io::stdout()
//! let mut client = Connection::new(Server::new(Profile::new("echo", "1.0")), input, &mut output);
//! while let Some(incoming) = client.next()? {
//!     if let Incoming::Prompt(content) = incoming {
//!         client.server.event_of("StepBegin", json!({"n": 1}));
//!         client.server.event_of("ContentPart", json!({"type": "text", "text": content.text()}));
//!         client.server.finish(Outcome::Finished);
//!     }
//! }
//! let output = String::from_utf8(output).unwrap();
//! assert_eq!(output.lines().count(), 4);
//! assert!(output.lines().nth(2).unwrap().ends_with(r#"{"type":"text","text":"hi"}}}"#));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! A program that uses this SDK can talk with such an agent: `core/kimi-agent/examples/echo_agent.rs` is an example.

#![deny(missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod calls;
mod command;
mod connection;
mod cut;
mod entry;
mod fields;
mod history;
mod hooks;
mod io;
mod lanes;
mod legacy;
mod release;
mod replay;
mod run;
mod script;
mod server;
mod spelling;
mod template;
mod tools;
mod turn;
mod types;
#[cfg(feature = "web")]
mod web;

pub use connection::Connection;
pub use server::Server;
pub use tools::OfferedTool;
pub use types::{Client, Failure, HookSubscription, Incoming, Outcome, Profile};

/// The scripted agent: an agent that follows a script.
pub mod scripted {
    pub use crate::command::main;
    pub use crate::entry::{FLAG, run_if_asked};

    /// Checks a script without running it.
    ///
    /// # Errors
    /// Returns the problem of the script, with its place.
    ///
    /// ```
    /// let error = kimi_agent_testing::scripted::check(r#"[7]"#).unwrap_err();
    /// assert!(error.starts_with("turn 1"), "{error}");
    /// ```
    pub fn check(script: &str) -> Result<(), String> {
        crate::script::Script::parse(script).map(drop)
    }
}

use kimi_agent_protocol::{dialect, error, jsonrpc, messages};
