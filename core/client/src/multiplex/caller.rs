//! Whoever asks a process something that is no session's.

use serde::Serialize;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::CHUNK;
use crate::dialect::echo_error;
use crate::error::{AgentExit, Error, Result};
use crate::transport::{Process, Transport, read_some};
use crate::wire::Json;
use crate::wire::framing::LineBuffer;
use crate::wire::jsonrpc::{self, Message, RpcFailure};

/// Asks one thing after the other. Dropped, it leaves the process.
pub(crate) struct Caller {
    reader: Box<dyn AsyncRead + Send + Unpin>,
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    process: Box<dyn Process>,
    lines: LineBuffer,
    next_id: u64,
}

impl Caller {
    pub(crate) fn new(transport: Transport, max_line_bytes: usize) -> Self {
        let Transport { reader, writer, process } = transport;
        Self { reader, writer, process, lines: LineBuffer::new(max_line_bytes), next_id: 0 }
    }

    /// The agent's answer; whatever else it says meanwhile is passed over.
    pub(crate) async fn call(
        &mut self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<std::result::Result<Json, RpcFailure>> {
        let id = self.next_id;
        self.next_id += 1;
        let question = format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        if self.writer.write_all(question.as_bytes()).await.is_err() {
            return Err(self.gone().await);
        }
        let awaited = id.to_string();
        loop {
            while let Some(line) = self.lines.next_line()? {
                match jsonrpc::parse(line) {
                    Message::Response { id: Some(id), outcome } if id == awaited => {
                        return Ok(outcome.map(Json::from_raw));
                    }
                    Message::Request { method: echoed, .. } if echoed == "initialize" => {
                        return Err(Error::Handshake(echo_error("the Agent Client Protocol", &echoed)));
                    }
                    _ => {}
                }
            }
            let lines = &mut self.lines;
            match read_some::<CHUNK>(&mut self.reader, |bytes| lines.extend(bytes)).await {
                Ok(n) if n > 0 => {}
                _ => return Err(self.gone().await),
            }
        }
    }

    async fn gone(&mut self) -> Error {
        let exit = self.process.wait().await;
        let stderr = self.process.stderr_tail();
        match exit.reason {
            Some(reason) => *reason,
            None => Error::AgentExited(AgentExit { exit_code: exit.code, signal: exit.signal, stderr, hint: None }),
        }
    }
}
