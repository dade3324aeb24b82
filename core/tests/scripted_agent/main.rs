//! The scripted agent as a process, spoken to in raw lines.

mod actions;
mod cancel;
mod client;
mod legacy;
mod process;
mod requests;
mod versions;
