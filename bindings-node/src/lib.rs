//! The Node binding: translates between JavaScript and the core's bridge.
//!
//! Messages of the protocol, options and answers cross the border as JSON text, in arguments and fields whose names end in
//! `json`; events come in batches. Everything else is typed. The build writes these types to `lib/addon.ts`.

mod agent;
mod batch;
mod bridge;
mod delivery;
mod error;
mod session;
mod turn;

use std::sync::OnceLock;
use std::time::Duration;

use kimi_agent::Error;
use kimi_agent::testing::Script;
use kimi_agent::wire::{Content, ContentPart};
use kimi_agent_bridge::{Naming, parse_content};
use napi::Env;
use napi::bindgen_prelude::Uint8Array;
use napi_derive::napi;
use serde_json::Value;
use tokio::runtime::{Handle, Runtime};

use crate::delivery::to_json;
use crate::error::OrThrow;

/// How long agents may take to end by themselves when the process exits, before they are ended.
const EXIT_GRACE: Duration = Duration::from_secs(2);

/// The process's one runtime, shared by all of its JavaScript environments.
static RUNTIME: OnceLock<&'static Runtime> = OnceLock::new();

pub(crate) fn runtime(env: &Env) -> napi::Result<Handle> {
    let runtime = kimi_agent_bridge::runtime().or_throw(env)?;
    Ok(RUNTIME.get_or_init(|| runtime).handle().clone())
}

/// Parses the JSON text of the argument `what`.
pub(crate) fn parse(env: &Env, what: &str, json: &str) -> napi::Result<Value> {
    let wrong = |error| Error::InvalidOption { option: what.to_owned(), reason: format!("it is not JSON: {error}") };
    serde_json::from_str(json).map_err(wrong).or_throw(env)
}

/// Returns the content of a prompt or a steer: text, a part, or a list of both.
pub(crate) fn content(env: &Env, json: &str) -> napi::Result<Content> {
    parse_content(parse(env, "content", json)?).or_throw(env)
}

/// Closes every session of the process at its exit. Blocks for some seconds at most.
#[napi(catch_unwind)]
pub fn shutdown() {
    if let Some(runtime) = RUNTIME.get() {
        runtime.block_on(kimi_agent_bridge::close_all(EXIT_GRACE));
    }
}

/// Kills every agent of the process.
#[napi(catch_unwind)]
pub fn kill_agents() {
    if RUNTIME.get().is_some() {
        kimi_agent_bridge::kill_all();
    }
}

/// A folder of files that only this user can read. It is made with its first file.
#[napi]
#[derive(Default)]
pub struct PrivateFolder {
    folder: kimi_agent_bridge::PrivateFolder,
}

#[napi]
impl PrivateFolder {
    /// A folder without files.
    #[napi(catch_unwind, constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes a file and returns its path.
    #[napi(catch_unwind)]
    pub fn write(&self, env: &Env, name: String, content: String) -> napi::Result<String> {
        let path = self.folder.write(&name, &content).or_throw(env)?;
        Ok(path.to_string_lossy().into_owned())
    }

    /// Deletes the folder and its files.
    #[napi(catch_unwind)]
    pub fn remove(&self) {
        self.folder.remove();
    }
}

/// Makes a content part from an image file. Returns JSON.
#[napi(catch_unwind)]
pub fn image_file_json(env: &Env, path: String) -> napi::Result<String> {
    ContentPart::image_file(path).map(|part| to_json(&part)).or_throw(env)
}

/// Makes a content part from the bytes of an image file. Returns JSON.
#[napi(catch_unwind)]
pub fn image_bytes_json(env: &Env, bytes: Uint8Array) -> napi::Result<String> {
    ContentPart::image_bytes(&*bytes).map(|part| to_json(&part)).or_throw(env)
}

/// Makes a content part from a file. Returns JSON.
#[napi(catch_unwind)]
pub fn file_part_json(env: &Env, path: String) -> napi::Result<String> {
    ContentPart::file(path).map(|part| to_json(&part)).or_throw(env)
}

/// Makes a content part from an address, and a text or bytes. Returns JSON.
#[napi(catch_unwind)]
pub fn resource_part_json(
    env: &Env,
    uri: String,
    text: Option<String>,
    data: Option<Uint8Array>,
    mime_type: Option<String>,
) -> napi::Result<String> {
    kimi_agent_bridge::resource_part(uri, text, data.as_deref(), mime_type).map(|part| to_json(&part)).or_throw(env)
}

/// Reads a policy: JSON of the name of a preset, of a path, or of a mapping. Returns JSON with the policy and its warnings.
#[napi(catch_unwind)]
pub fn read_policy_json(env: &Env, given: String) -> napi::Result<String> {
    let given = serde_json::from_str(&given).unwrap_or_default();
    kimi_agent_bridge::read_policy(&given).map(|read| read.to_string()).or_throw(env)
}

/// Decides about a tool call by a policy that was read. Takes and returns JSON.
#[napi(catch_unwind)]
pub fn check_policy_json(env: &Env, policy: String, call: String, work_dir: String) -> napi::Result<String> {
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap_or_default();
    kimi_agent_bridge::check_policy(&policy, &json(&call), work_dir.as_ref(), kimi_agent_bridge::Naming::Camel)
        .map(|verdict| verdict.to_string())
        .or_throw(env)
}

/// Throws for the first name that is not an option's.
#[napi(catch_unwind)]
pub fn check_names(env: &Env, names: Vec<String>) -> napi::Result<()> {
    kimi_agent_bridge::check_names(names.iter().map(String::as_str), Naming::Camel).or_throw(env)
}

/// Throws for the first name that is not an option of a batch.
#[napi(catch_unwind)]
pub fn check_batch_names(env: &Env, names: Vec<String>) -> napi::Result<()> {
    kimi_agent_bridge::check_batch_names(names.iter().map(String::as_str), Naming::Camel).or_throw(env)
}

/// Throws for the first name that is not an option of a prompt.
#[napi(catch_unwind)]
pub fn check_prompt_names(env: &Env, names: Vec<String>) -> napi::Result<()> {
    kimi_agent_bridge::check_prompt_names(names.iter().map(String::as_str), Naming::Camel).or_throw(env)
}

/// Throws the error for an option whose value has no JSON form; `got` describes the value.
#[napi(catch_unwind, ts_return_type = "never")]
pub fn wrong_type(env: &Env, option: String, got: String) -> napi::Result<()> {
    Err(kimi_agent_bridge::wrong_type(&option, &got, Naming::Camel)).or_throw(env)
}

/// The names of the instrumentation scope and of the metrics, as JSON.
#[napi(catch_unwind)]
pub fn telemetry_names() -> String {
    kimi_agent_bridge::telemetry_names()
}

/// Returns text with control and bidirectional characters as escapes.
#[napi(catch_unwind)]
pub fn printable(text: String) -> String {
    kimi_agent::printable(&text).into_owned()
}

/// Runs the scripted agent on this process's stdin and stdout and returns its exit code.
#[napi(catch_unwind)]
pub fn run_scripted_agent(argv: Vec<String>) -> i32 {
    kimi_agent::testing::run_scripted_agent(argv.into_iter().map(Into::into))
}

/// Runs the command `kimi-agent`, and returns its exit code. The arguments begin with the name of the program.
#[napi(catch_unwind)]
pub fn run_command(argv: Vec<String>) -> i32 {
    kimi_agent_bridge::run_command(argv)
}

/// Throws if the scripted agent would refuse the script, which is JSON or the path of a file.
#[napi(catch_unwind)]
pub fn check_script(env: &Env, script: String, is_path: bool) -> napi::Result<()> {
    let script = if is_path { Script::File(script.into()) } else { Script::Json(script) };
    script.check().or_throw(env)
}

/// The file of a cassette.
#[napi(object)]
pub struct CassetteFile {
    /// The absolute path of the recording.
    pub path: String,
    /// Whether the test records.
    pub is_recording: bool,
}

/// Opens a cassette with this name or path. `mode` is that of the program.
#[napi(catch_unwind)]
pub fn open_cassette(env: &Env, name: String, mode: Option<String>) -> napi::Result<CassetteFile> {
    let (path, is_recording) =
        kimi_agent_bridge::open_cassette(name.as_ref(), mode.as_deref(), None, None).or_throw(env)?;
    Ok(CassetteFile { path: path.to_string_lossy().into_owned(), is_recording })
}
