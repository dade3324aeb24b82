//! Calls of tools of the program over the MCP server of the SDK, as agents of ACP make them. Each request has a
//! connection of its own: with HTTP 1.0 the server sends no chunks, and the answer ends with the connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::player::ToolAnswer;

/// The name of the SDK's server.
const NAME: &str = "program";
const PROTOCOL: &str = "2025-06-18";
/// The header with the id of the MCP session.
const SESSION: &str = "mcp-session-id";
/// The limit of a line of the answer, in bytes.
const MAX_LINE: u64 = 256 << 20;

/// The MCP server with the program's tools, as the session's first call names it.
#[derive(Clone, Debug)]
pub(super) struct ToolsServer {
    url: String,
    headers: Vec<(String, String)>,
    /// The id of the MCP session, once it is open.
    session: Arc<Mutex<Option<String>>>,
    /// The number of requests. Calls at the same time need different ids: the server finds the answers by them.
    requests: Arc<AtomicU64>,
}

impl PartialEq for ToolsServer {
    fn eq(&self, other: &Self) -> bool {
        (&self.url, &self.headers) == (&other.url, &other.headers)
    }
}

/// A connection that another thread can close.
pub(super) type Line = Arc<Mutex<Option<TcpStream>>>;

impl ToolsServer {
    /// Finds the server in the list of servers that `session/new` has.
    pub(super) fn of(servers: &Value) -> Option<Self> {
        let server = servers.as_array()?.iter().find(|server| server["name"] == NAME)?;
        let headers = server["headers"].as_array().map(Vec::as_slice).unwrap_or_default();
        let header = |header: &Value| Some((header["name"].as_str()?.to_owned(), header["value"].as_str()?.to_owned()));
        Some(Self {
            url: server["url"].as_str()?.to_owned(),
            headers: headers.iter().filter_map(header).collect(),
            session: Arc::default(),
            requests: Arc::default(),
        })
    }

    /// Calls a tool, and waits for its result. Closing the connection in `line` withdraws the call.
    pub(super) fn call(&self, name: &str, arguments: Option<Value>, line: &Line) -> ToolAnswer {
        let params = json!({"name": name, "arguments": arguments.unwrap_or_else(|| json!({}))});
        let called = self.open().and_then(|session| {
            let call = json!({"jsonrpc": "2.0", "id": self.next_id(), "method": "tools/call", "params": params});
            self.post(&call, Some(&session), line)
        });
        match called.map(|(answer, _)| answer) {
            Ok(Some(mut answer)) => match answer.get_mut("result") {
                Some(result) => ToolAnswer::Result(result.take()),
                None => ToolAnswer::Failed(answer["error"]["message"].as_str().unwrap_or("no result").to_owned()),
            },
            Ok(None) => ToolAnswer::Failed("the program's tools gave no answer".to_owned()),
            Err(error) => ToolAnswer::Failed(error.to_string()),
        }
    }

    fn next_id(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed)
    }

    /// Opens the MCP session, unless it is open. Returns its id.
    fn open(&self) -> io::Result<String> {
        let mut known = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = &*known {
            return Ok(session.clone());
        }
        let client = json!({"name": "kimi-scripted-agent", "version": env!("CARGO_PKG_VERSION")});
        let params = json!({"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client});
        let call = json!({"jsonrpc": "2.0", "id": self.next_id(), "method": "initialize", "params": params});
        let (_, session) = self.post(&call, None, &Line::default())?;
        let session = session.ok_or_else(|| io::Error::other("the program's tools have opened no session"))?;
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.post(&done, Some(&session), &Line::default())?;
        *known = Some(session.clone());
        Ok(session)
    }

    /// Sends a message. Returns the answer, if it has one, and the id of the session, if the server named it.
    fn post(&self, message: &Value, session: Option<&str>, line: &Line) -> io::Result<(Option<Value>, Option<String>)> {
        let invalid = || io::Error::other(format!("{} is not an address of tools", self.url));
        let (host, path) =
            self.url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).ok_or_else(invalid)?;
        let mut stream = TcpStream::connect(host)?;
        stream.set_nodelay(true)?;
        *line.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream.try_clone()?);
        let body = message.to_string();
        let mut head = format!(
            "POST /{path} HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n",
            body.len()
        );
        let session = session.map(|id| (SESSION.to_owned(), id.to_owned()));
        let version = session.is_some().then(|| ("mcp-protocol-version".to_owned(), PROTOCOL.to_owned()));
        for (name, value) in self.headers.iter().chain(&session).chain(&version) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes())?;
        read_answer(BufReader::new(stream), &message["id"])
    }
}

fn read_answer(mut input: impl BufRead, id: &Value) -> io::Result<(Option<Value>, Option<String>)> {
    let status = next_line(&mut input)?.unwrap_or_default();
    let mut session = None;
    while let Some(header) = next_line(&mut input)?.filter(|header| !header.is_empty()) {
        let (name, value) = header.split_once(':').unwrap_or((&header, ""));
        if name.eq_ignore_ascii_case(SESSION) {
            session = Some(value.trim().to_owned());
        }
    }
    if !status.split(' ').nth(1).is_some_and(|code| code.starts_with('2')) {
        return Err(io::Error::other(format!("the program's tools refuse the call: {status}")));
    }
    if id.is_null() {
        return Ok((None, session));
    }
    // Either one line of JSON, or events with one line of JSON each.
    while let Some(text) = next_line(&mut input)? {
        let text = text.strip_prefix("data:").unwrap_or(&text);
        if let Ok(answer) = serde_json::from_str::<Value>(text)
            && answer["id"] == *id
        {
            return Ok((Some(answer), session));
        }
    }
    Ok((None, session))
}

/// Returns the next line without its end. `None` at the end of the input.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    if input.take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()))
}

/// Returns whether a tool's result in MCP is an error, and its texts.
pub(super) fn shown_result(result: &Value) -> Value {
    let content = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<_> = content.iter().filter_map(|block| block.get("text").cloned()).collect();
    json!({"is_error": result["isError"] == true, "output": texts})
}

/// Returns a recorded result of a tool as MCP shows it.
pub(super) fn recorded_result(result: &Value) -> Value {
    let mut texts = Vec::new();
    let message = result["message"].as_str().filter(|message| !message.is_empty());
    texts.extend(message.map(Value::from));
    match &result["output"] {
        Value::String(text) if text.is_empty() && !texts.is_empty() => {}
        Value::Array(parts) => texts.extend(parts.iter().filter_map(|part| {
            part.get("text").or_else(|| part.get("think")).filter(|text| text.is_string()).cloned()
        })),
        output => texts.push(output.clone()),
    }
    json!({"is_error": result["is_error"] == true, "output": texts})
}
