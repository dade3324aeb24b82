//! The command, started as people start it, with scripted agents.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod atif;
mod batch;
mod completions;
mod doctor;
mod outputs;
mod policy;
mod run;
#[cfg(unix)]
mod signals;
mod support;
#[cfg(unix)]
mod terminal;
mod verify;
