//! What always holds, as functions of bytes: the targets of `fuzz/` call them with whatever a fuzzer makes up, and the
//! tests below with the inputs that are kept. None returns anything; a broken promise panics.

#![allow(clippy::panic, clippy::unwrap_used, reason = "that is how a fuzzer hears of it")]

mod acp;
mod dialects;
mod envelope;
mod framing;
pub(crate) mod model;
pub(crate) mod play;
pub(crate) mod scenario;
mod script;

use arbitrary::{Arbitrary, Unstructured};

/// Any split of the bytes gives the same lines, and no more is kept than the limit allows.
pub fn framing(data: &[u8]) {
    framing::check(data);
}

/// The envelope of a line says what a plain JSON parser says.
pub fn envelope(data: &[u8]) {
    envelope::check(data);
}

/// What any dialect reads is written and read again as the same, and what it writes is one line. The first byte picks
/// the dialect, the rest is the line; with ACP, lines.
pub fn dialect(data: &[u8]) {
    if let Some((&which, line)) = data.split_first() {
        dialects::check(which, line);
    }
}

/// A program and an agent that do anything in any order, read from the bytes as `arbitrary` does.
pub fn connection(data: &[u8]) {
    if let Ok(scenario) = scenario::Scenario::arbitrary_take_rest(Unstructured::new(data)) {
        play::play(&scenario);
    }
}

/// The same as text: lines of an agent, and between them what the program does. Recorded traffic is such a text.
pub fn conversation(data: &[u8]) {
    if let Some(scenario) = script::read(data) {
        play::play(&scenario);
    }
}

/// The same with an agent of ACP.
pub fn acp(data: &[u8]) {
    if let Ok(conversation) = acp::Conversation::arbitrary_take_rest(Unstructured::new(data)) {
        acp::play(&conversation);
    }
}

/// A scenario as it reads, for whoever looks at a crash.
pub fn describe(data: &[u8]) -> String {
    match scenario::Scenario::arbitrary_take_rest(Unstructured::new(data)) {
        Ok(scenario) => format!("{scenario:#?}"),
        Err(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
