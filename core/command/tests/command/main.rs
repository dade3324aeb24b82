//! The command, started as people start it, with scripted agents.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod atif;
mod batch;
mod completions;
mod doctor;
#[cfg(unix)]
mod login;
mod outputs;
mod policy;
mod proxy;
mod run;
mod serve;
#[cfg(unix)]
mod signals;
mod support;
#[cfg(unix)]
mod terminal;
mod verify;
