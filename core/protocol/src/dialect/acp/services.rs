//! Files and terminals of the program (`fs/*`, `terminal/*`), which the agent uses if the program offers them.

use std::path::PathBuf;

use agent_client_protocol_schema::v1 as acp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{Acp, Asks, OpenRequest, request_id, unknown};
use crate::dialect::{Incoming, Services, TerminalAnswer, TerminalCall, TerminalExit};
use crate::json::exact;
use crate::jsonrpc::{self, Params, RpcFailure, is_too_deep};
use crate::messages::{Event, ReadFileRequest, TerminalRequest, WriteFileRequest};

/// The code of ACP for a file that does not exist.
const RESOURCE_NOT_FOUND: i64 = -32002;
const INTERNAL_ERROR: i64 = -32603;
/// The limit of bytes of a file that are sent. The output to an agent that does not read has the same limit.
const MAX_CONTENT: usize = 16 << 20;

/// The requests of the agent that handlers of the program answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Method {
    ReadFile,
    WriteFile,
    CreateTerminal,
    Terminal(TerminalCall),
}

impl Method {
    /// Returns the method with this name, if the program offers it.
    pub(super) fn named(method: &str, offered: Services) -> Option<Self> {
        let found = match method {
            "fs/read_text_file" => Self::ReadFile,
            "fs/write_text_file" => Self::WriteFile,
            "terminal/create" => Self::CreateTerminal,
            "terminal/output" => Self::Terminal(TerminalCall::Output),
            "terminal/wait_for_exit" => Self::Terminal(TerminalCall::WaitForExit),
            "terminal/kill" => Self::Terminal(TerminalCall::Kill),
            "terminal/release" => Self::Terminal(TerminalCall::Release),
            _ => return None,
        };
        let is_offered = match found {
            Self::ReadFile => offered.read_file,
            Self::WriteFile => offered.write_file,
            Self::CreateTerminal | Self::Terminal(_) => offered.terminal,
        };
        is_offered.then_some(found)
    }
}

/// Returns the capabilities that the program offers in the handshake.
pub(super) fn offered(services: Services, capabilities: acp::ClientCapabilities) -> acp::ClientCapabilities {
    let Services { read_file, write_file, terminal } = services;
    let files = acp::FileSystemCapabilities::new().read_text_file(read_file).write_text_file(write_file);
    capabilities.fs(files).terminal(terminal)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AboutTerminal {
    session_id: acp::SessionId,
    terminal_id: String,
}

type Read<T> = std::result::Result<T, String>;

fn decoded<T: DeserializeOwned>(params: &Params<'_>) -> Read<T> {
    if is_too_deep(params.get()) {
        return Err("nested too deep, and left out".to_owned());
    }
    exact(params.get())
}

/// Checks that no text was changed when its line was read. A file must not get other text than the agent wrote.
fn check_lost(params: &Params<'_>, field: &str, texts: impl IntoIterator<Item = impl AsRef<str>>) -> Read<()> {
    match texts.into_iter().any(|text| params.may_have_lost(text.as_ref())) {
        true => {
            Err(format!("{field}: expected valid Unicode, got half of a surrogate pair, or bytes that are not UTF-8"))
        }
        false => Ok(()),
    }
}

/// Returns the path as text. Handlers may access another system than this one, so absolute paths of Unix and of Windows
/// are accepted.
fn absolute(field: &str, path: PathBuf) -> Read<String> {
    let text = path.into_os_string().into_string().map_err(|_| format!("{field}: it is not Unicode"))?;
    let mut characters = text.chars();
    let has_drive = characters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && characters.next() == Some(':')
        && matches!(characters.next(), Some('/' | '\\'));
    if !(has_drive || text.starts_with('/') || text.starts_with("\\\\")) {
        return Err(format!("{field}: expected an absolute path, got {text:?}"));
    }
    if text.contains('\0') {
        return Err(format!("{field}: it contains a NUL byte"));
    }
    Ok(text)
}

impl Acp {
    pub(super) fn read_service(&mut self, rpc_id: &str, name: &str, method: Method, params: &Params<'_>) -> Incoming {
        let read = match method {
            Method::ReadFile => self.read_read(rpc_id, params),
            Method::WriteFile => self.read_write(rpc_id, params),
            Method::CreateTerminal => self.read_create(rpc_id, params),
            Method::Terminal(call) => self.read_terminal_call(rpc_id, call, params),
        };
        read.unwrap_or_else(|error| {
            let request = Box::new(unknown(name, params.to_json().get(), Some(error)));
            Incoming::Request { rpc_id: rpc_id.to_owned(), request }
        })
    }

    fn check_session(&self, session: &acp::SessionId) -> Read<()> {
        if self.is_ours(&session.0) { Ok(()) } else { Err(format!("sessionId: no session `{}` here", session.0)) }
    }

    fn read_read(&mut self, rpc_id: &str, params: &Params<'_>) -> Read<Incoming> {
        let asked: acp::ReadTextFileRequest = decoded(params)?;
        self.check_session(&asked.session_id)?;
        let path = absolute("path", asked.path)?;
        let request = ReadFileRequest {
            id: request_id(rpc_id),
            path: path.clone(),
            line: asked.line.map(i64::from),
            limit: asked.limit.map(i64::from),
            extra: Default::default(),
        };
        let (line, limit) = (asked.line.map_or(0, |line| line.saturating_sub(1)), asked.limit);
        Ok(self.ask_service(rpc_id, Asks::ReadFile { path, line, limit }, request))
    }

    fn read_write(&mut self, rpc_id: &str, params: &Params<'_>) -> Read<Incoming> {
        let asked: acp::WriteTextFileRequest = decoded(params)?;
        self.check_session(&asked.session_id)?;
        let path = absolute("path", asked.path)?;
        check_lost(params, "path", [&*path])?;
        check_lost(params, "content", [&*asked.content])?;
        let request =
            WriteFileRequest { id: request_id(rpc_id), path, content: asked.content, extra: Default::default() };
        Ok(self.ask_service(rpc_id, Asks::WriteFile, request))
    }

    fn ask_service(&mut self, rpc_id: &str, asks: Asks, request: impl Into<Event>) -> Incoming {
        let mut all = Vec::new();
        self.begin_step(&mut all);
        let order = self.next_order();
        self.open.insert(rpc_id.to_owned(), OpenRequest { order, of_turn: self.prompting, asks });
        all.push(Incoming::Request { rpc_id: rpc_id.to_owned(), request: Box::new(request.into()) });
        Incoming::batch(all)
    }

    fn read_create(&mut self, rpc_id: &str, params: &Params<'_>) -> Read<Incoming> {
        let asked: acp::CreateTerminalRequest = decoded(params)?;
        self.check_session(&asked.session_id)?;
        check_lost(params, "command", [&asked.command].into_iter().chain(&asked.args))?;
        let cwd = asked.cwd.unwrap_or_else(|| self.params.work_dir.clone());
        let env: Map<String, Value> =
            asked.env.into_iter().map(|variable| (variable.name, json!(variable.value))).collect();
        let request = TerminalRequest {
            // The connection chooses the id of the terminal.
            id: String::new(),
            command: asked.command,
            args: asked.args,
            env,
            cwd: absolute("cwd", cwd)?,
            output_byte_limit: asked.output_byte_limit.and_then(|limit| i64::try_from(limit).ok()),
            extra: Default::default(),
        };
        let mut all = Vec::new();
        self.begin_step(&mut all);
        all.push(Incoming::Request { rpc_id: rpc_id.to_owned(), request: Box::new(request.into()) });
        Ok(Incoming::batch(all))
    }

    fn read_terminal_call(&mut self, rpc_id: &str, call: TerminalCall, params: &Params<'_>) -> Read<Incoming> {
        let asked: AboutTerminal = decoded(params)?;
        self.check_session(&asked.session_id)?;
        Ok(Incoming::Terminal { rpc_id: rpc_id.to_owned(), terminal: asked.terminal_id, call })
    }
}

/// Returns the bytes of the answer with a file's text. Without a text the file does not exist.
pub(super) fn file_read(rpc_id: &str, asked: &Asks, text: Option<&str>) -> Vec<u8> {
    let Asks::ReadFile { path, line, limit } = asked else { return Vec::new() };
    match text.map(|text| lines(text, *line, *limit)) {
        Some(content) if content.len() > MAX_CONTENT => {
            let message = format!(
                "{path}: these lines have {} bytes, and at most {MAX_CONTENT} are sent; ask for fewer lines with `line` and `limit`",
                content.len()
            );
            jsonrpc::refusal(rpc_id, &RpcFailure { code: INTERNAL_ERROR, message, data: None })
        }
        Some(content) => jsonrpc::answer(rpc_id, &json!({"content": content})),
        None => {
            let message = format!("Resource not found: {path} does not exist");
            let data = Some(json!({"uri": path}).into());
            jsonrpc::refusal(rpc_id, &RpcFailure { code: RESOURCE_NOT_FOUND, message, data })
        }
    }
}

/// Returns this many lines of a text, with their ends, after the skipped lines.
fn lines(text: &str, skipped: u32, limit: Option<u32>) -> &str {
    let mut ends = text.match_indices('\n').map(|(at, _)| at + 1);
    let start = match skipped {
        0 => 0,
        skipped => ends.nth(skipped as usize - 1).unwrap_or(text.len()),
    };
    let end = match limit {
        None => text.len(),
        Some(0) => start,
        Some(limit) => ends.nth(limit as usize - 1).unwrap_or(text.len()),
    };
    &text[start..end.max(start)]
}

/// Returns the bytes of an answer about a terminal.
pub(super) fn terminal_answer(rpc_id: &str, answer: TerminalAnswer<'_>) -> Vec<u8> {
    let status = |exit: &TerminalExit| json!({"exitCode": exit.exit_code, "signal": exit.signal});
    let result = match answer {
        TerminalAnswer::Created(terminal) => json!({"terminalId": terminal}),
        TerminalAnswer::Output { output, truncated, exit: None } => json!({"output": output, "truncated": truncated}),
        TerminalAnswer::Output { output, truncated, exit: Some(exit) } => {
            json!({"output": output, "truncated": truncated, "exitStatus": status(exit)})
        }
        TerminalAnswer::Exited(exit) => status(exit),
        TerminalAnswer::Done => json!({}),
    };
    jsonrpc::answer(rpc_id, &result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selected_lines_keep_their_line_ends() {
        let text = "a\nb\r\nc";
        for (skipped, limit, expected) in [
            (0, None, text),
            (1, None, "b\r\nc"),
            (1, Some(1), "b\r\n"),
            (0, Some(2), "a\nb\r\n"),
            (2, Some(9), "c"),
            (3, None, ""),
            (9, Some(1), ""),
            (u32::MAX, Some(u32::MAX), ""),
            (0, Some(0), ""),
        ] {
            assert_eq!(lines(text, skipped, limit), expected, "{skipped} {limit:?}");
        }
        assert_eq!(lines("", 0, Some(1)), "");
    }

    #[test]
    fn relative_paths_are_refused() {
        for path in ["/a", "C:\\a", "c:/a", "\\\\host\\share"] {
            assert_eq!(absolute("path", path.into()).as_deref(), Ok(path));
        }
        for path in ["", "a", "./a", "~/a", "C:a", "1:/a", "/a\0"] {
            assert!(absolute("path", path.into()).is_err(), "{path:?}");
        }
    }
}
