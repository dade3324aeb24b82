//! The other side of the protocol: a Wire server that an agent can be built on, for every version and for what was
//! there before. The scripted agent of [`testing`](crate::testing) is one.
//!
//! The server keeps to the protocol by itself. It answers the handshake and registers the program's tools, runs one turn
//! at a time, confirms a cancel, a steer and plan mode, replays what was sent, refuses what it must with the right code,
//! and spells messages as its version does. The agent behind it decides what to say and to ask, and when a turn ends.
//!
//! [`Server`] does no I/O; [`Connection`] is one on two blocking streams:
//!
//! ```
//! use std::io::Cursor;
//!
//! use kimi_agent::agent::{Connection, Incoming, Outcome, Profile, Server};
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
//! A program that uses this SDK can talk with such an agent: `core/examples/echo_agent.rs` is one.

#[cfg(feature = "testing")]
mod calls;
mod connection;
#[cfg(feature = "testing")]
mod cut;
#[cfg(feature = "testing")]
mod fields;
#[cfg_attr(not(feature = "testing"), allow(dead_code, reason = "only the scripted agent keeps its past in a file"))]
mod history;
#[cfg(feature = "testing")]
mod hooks;
#[cfg(feature = "testing")]
mod io;
#[cfg(feature = "testing")]
mod lanes;
mod legacy;
#[cfg(feature = "testing")]
mod release;
#[cfg(feature = "testing")]
mod run;
#[cfg(feature = "testing")]
mod script;
#[cfg_attr(not(feature = "testing"), allow(dead_code, reason = "only the scripted agent breaks the protocol"))]
mod server;
mod spelling;
#[cfg(feature = "testing")]
mod template;
mod tools;
#[cfg(feature = "testing")]
mod turn;
mod types;

pub use connection::Connection;
#[cfg(feature = "testing")]
pub(crate) use run::main;
#[cfg(feature = "testing")]
pub(crate) use script::Script;
pub use server::Server;
pub use types::{Client, Failure, HookSubscription, Incoming, OfferedTool, Outcome, Profile};
