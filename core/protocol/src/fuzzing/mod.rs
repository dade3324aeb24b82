//! Invariants as functions of bytes: the targets of `fuzz/` call them with the input of a fuzzer, and the
//! tests below with the inputs that are kept. None returns anything; a broken promise panics.

#![allow(clippy::panic, clippy::unwrap_used, reason = "that is how a fuzzer hears of it")]

mod acp;
mod dialects;
mod envelope;
mod framing;
pub(crate) mod kimi_web;
mod lenient;
pub(crate) mod model;
pub(crate) mod play;
mod records;
pub(crate) mod scenario;
mod schema;
mod script;
mod shapes;
mod texts;

use arbitrary::{Arbitrary, Unstructured};

/// Any split of the bytes gives the same lines, and no more is kept than the limit allows.
pub fn framing(data: &[u8]) {
    framing::check(data);
}

/// The envelope of a line says what a plain JSON parser says.
pub fn envelope(data: &[u8]) {
    envelope::check(data);
}

/// Nearly-JSON becomes strict JSON, and strict JSON keeps its value.
pub fn lenient(data: &[u8]) {
    lenient::check(data);
}

/// Checks that each message survives writing and reading, and is written as one line. The first byte picks
/// the dialect, the rest is the line; with ACP, lines.
pub fn dialect(data: &[u8]) {
    if let Some((&which, line)) = data.split_first() {
        dialects::check(which, line);
    }
}

/// A line that is read by the shape of earlier lines is what the general decoder reads. The first byte picks the dialect,
/// the rest is lines.
pub fn shapes(data: &[u8]) {
    if let Some((&which, lines)) = data.split_first() {
        shapes::check(which, lines);
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

/// Lines of the records of a turn, and of the index that leads to them.
pub fn turn_records(data: &[u8]) {
    records::check(data);
}

/// Compiles a JSON Schema without a panic, and accepts a value again that it has accepted once.
pub fn schema(data: &[u8]) {
    schema::check(data);
}

/// Reads values in an answer, redacts lines, reads recordings and shows texts, without a panic and without a secret.
pub fn texts(data: &[u8]) {
    texts::check(data);
}

/// A program and Kimi Code's server, over a connection that breaks.
pub fn kimi_web(data: &[u8]) {
    if let Ok(course) = kimi_web::Course::arbitrary_take_rest(Unstructured::new(data)) {
        kimi_web::play(&course);
    }
}

/// A scenario as text, to analyse a crash.
pub fn describe(data: &[u8]) -> String {
    match scenario::Scenario::arbitrary_take_rest(Unstructured::new(data)) {
        Ok(scenario) => format!("{scenario:#?}"),
        Err(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
