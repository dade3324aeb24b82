//! The Node binding: translates between JSON text and the core's bridge, and does nothing else.
//!
//! Events cross the border in batches, as one JSON text each; the one call into JavaScript is a bridge's bell.

mod agent;
mod bell;
mod deliveries;
mod session;
mod turn;

use std::sync::OnceLock;
use std::time::Duration;

use kimi_agent::Error;
use kimi_agent::bridge;
use kimi_agent::testing::Script;
use kimi_agent::wire::ContentPart;
use napi::bindgen_prelude::Uint8Array;
use napi_derive::napi;
use serde_json::{Map, Value, json};
use tokio::runtime::{Handle, Runtime};

/// How long agents may take to end by themselves when the process exits, before they are ended.
const EXIT_GRACE: Duration = Duration::from_secs(2);

/// The process's one runtime, shared by all of its JavaScript environments.
static RUNTIME: OnceLock<&'static Runtime> = OnceLock::new();

pub(crate) fn runtime() -> napi::Result<Handle> {
    let runtime = bridge::runtime().map_err(|error| thrown(&error))?;
    Ok(RUNTIME.get_or_init(|| runtime).handle().clone())
}

/// The core's error as JSON, which the TypeScript side makes a real one of.
pub(crate) fn error_json(error: &Error) -> Value {
    let (message, fields) = error.told(bridge::Naming::Camel);
    json!({"code": error.code(), "message": message, "fields": fields})
}

pub(crate) fn thrown(error: &Error) -> napi::Error {
    napi::Error::from_reason(error_json(error).to_string())
}

/// JSON text of the TypeScript side's.
pub(crate) fn parse(what: &str, text: &str) -> napi::Result<Value> {
    serde_json::from_str(text).map_err(|error| {
        thrown(&Error::InvalidOption { option: what.to_owned(), reason: format!("it is not JSON: {error}") })
    })
}

pub(crate) fn parse_object(what: &str, text: &str) -> napi::Result<Map<String, Value>> {
    match parse(what, text)? {
        Value::Object(map) => Ok(map),
        _ => Err(thrown(&Error::InvalidOption { option: what.to_owned(), reason: "expected an object".to_owned() })),
    }
}

/// Closes every session of the process, within bounds. Called at its exit.
#[napi]
pub fn shutdown() {
    if let Some(runtime) = RUNTIME.get() {
        runtime.block_on(bridge::close_all(EXIT_GRACE));
    }
}

/// A folder of files that only this user can read.
#[napi]
#[derive(Default)]
pub struct PrivateFolder {
    folder: bridge::PrivateFolder,
}

#[napi]
impl PrivateFolder {
    /// One that is made with its first file.
    #[napi(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes a file; returns its path.
    #[napi]
    pub fn write(&self, name: String, content: String) -> napi::Result<String> {
        let path = self.folder.write(&name, &content).map_err(|error| thrown(&error))?;
        Ok(path.to_string_lossy().into_owned())
    }

    /// Removes it, and all that is in it.
    #[napi]
    pub fn remove(&self) {
        self.folder.remove();
    }
}

/// An image part from a file, as JSON text.
#[napi]
pub fn image_file(path: String) -> napi::Result<String> {
    part_json(ContentPart::image_file(path))
}

/// An image part from the bytes of an image file, as JSON text.
#[napi]
pub fn image_bytes(bytes: Uint8Array) -> napi::Result<String> {
    part_json(ContentPart::image_bytes(&*bytes))
}

fn part_json(made: Result<ContentPart, Error>) -> napi::Result<String> {
    let part = made.map_err(|error| thrown(&error))?;
    serde_json::to_string(&part).map_err(|error| thrown(&Error::Internal(error.to_string())))
}

/// Checks the names of options, before anything is done with their values.
#[napi]
pub fn check_names(names: Vec<String>) -> napi::Result<()> {
    bridge::check_names(names.iter().map(String::as_str), bridge::Naming::Camel).map_err(|error| thrown(&error))
}

/// Throws the error for an option whose value has no form as JSON.
#[napi]
pub fn wrong_type(option: String, got: String) -> napi::Result<()> {
    Err(thrown(&bridge::wrong_type(&option, &got, bridge::Naming::Camel)))
}

/// Text with control and bidirectional characters as escapes.
#[napi]
pub fn printable(text: String) -> String {
    kimi_agent::printable(&text).into_owned()
}

/// Is the scripted agent, on this process's stdin and stdout; returns the exit code.
#[napi]
pub fn run_scripted_agent(argv: Vec<String>) -> i32 {
    kimi_agent::testing::run_scripted_agent(argv.into_iter().map(Into::into))
}

/// Throws `InvalidOption` for `script` if the scripted agent would refuse it; `is_path`: it is the path of a file.
#[napi]
pub fn check_script(script: String, is_path: bool) -> napi::Result<()> {
    let script = if is_path { Script::File(script.into()) } else { Script::Json(script) };
    script.check().map_err(|error| thrown(&error))
}
