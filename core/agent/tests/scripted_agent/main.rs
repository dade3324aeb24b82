//! The scripted agent as a process, spoken to in raw lines.

mod acp;
mod actions;
mod cancel;
mod client;
mod legacy;
mod process;
mod requests;
mod versions;
#[cfg(all(feature = "web", unix))]
mod web;
