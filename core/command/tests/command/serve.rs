//! `kimi-agent serve`: clients over WebSocket and HTTP, in front of scripted agents.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr};
use std::time::Duration;

use kimi_agent_client::testing::ScriptedAgent;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

use super::support::{agent, command, ended};

const TOKEN: &str = "0123456789abcdef0123";
/// A program that can be an agent. It is started only for clients.
const AGENT: &str = env!("CARGO_BIN_EXE_kimi-agent");

/// A server, which is killed if the test ends early.
struct Server {
    child: Child,
    /// The host and the port.
    address: String,
    notes: BufReader<ChildStderr>,
    /// Its script is deleted with it.
    _agent: Option<ScriptedAgent>,
}

impl Server {
    fn start(dir: &Path, options: &[&str], words: &[&str]) -> Self {
        let mut command = command(None, &[&["serve"], options, &["--"], words].concat());
        // The machine's own settings do not matter here.
        let mut child = command.env("XDG_CONFIG_HOME", dir).env("APPDATA", dir).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let notes = BufReader::new(child.stderr.take().unwrap());
        let address = url.trim().strip_prefix("ws://").and_then(|url| url.strip_suffix("/acp"));
        Self { address: address.expect("a URL").to_owned(), child, notes, _agent: None }
    }

    fn scripted(dir: &Path, options: &[&str], agent: ScriptedAgent) -> Self {
        let words: Vec<_> = agent.iter().map(|word| word.to_str().unwrap()).collect();
        let mut server = Self::start(dir, options, &words);
        server._agent = Some(agent);
        server
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Opens a WebSocket. Returns the HTTP status if it is refused.
    fn socket(&self) -> Result<Socket, u16> {
        let mut request = format!("ws://{}/acp", self.address).into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {TOKEN}").parse().unwrap());
        match tungstenite::client(request, self.connect()) {
            Ok((socket, response)) => {
                assert!(response.headers().contains_key("acp-connection-id"));
                Ok(Socket(socket))
            }
            Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(response))) => {
                Err(response.status().as_u16())
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Sends a request of HTTP/1.1, whose body is complete. Returns the connection, at the start of the answer.
    fn request(&self, head: &str, body: &str) -> TcpStream {
        let mut stream = self.connect();
        let head = head.replace("HOST", &self.address).replace('\n', "\r\n");
        let length = format!("content-length: {}\r\n", body.len());
        stream.write_all(format!("{head}\r\n{length}\r\n{body}").as_bytes()).unwrap();
        stream
    }

    /// Returns the head of an answer, in small letters, and the body of an answer that has a length.
    fn answer(&self, head: &str, body: &str) -> (String, String) {
        let mut reader = BufReader::new(self.request(head, body));
        let head = read_head(&mut reader);
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.unwrap_or("0").parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        (head, String::from_utf8(body).unwrap())
    }

    fn status(&self, head: &str, body: &str) -> u16 {
        let (head, _) = self.answer(head, body);
        head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// Waits for a note with this text.
    fn wait_for_note(&mut self, text: &str) {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert_ne!(self.notes.read_line(&mut line).unwrap(), 0, "no note with {text:?}");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn read_head(reader: &mut BufReader<TcpStream>) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).unwrap(), 0, "{head}");
    }
    head.to_ascii_lowercase().replace("\r\n", "\n")
}

/// A client over WebSocket.
struct Socket(WebSocket<TcpStream>);

impl Socket {
    fn send(&mut self, message: &Value) {
        self.0.send(Message::text(format!("{message:#}"))).unwrap();
    }

    /// Sends a call. Returns its answer, and the messages before.
    fn call(&mut self, id: u64, method: &str, params: &Value) -> (Value, Vec<Value>) {
        self.send(&call(id, method, params));
        let mut before = Vec::new();
        loop {
            let message = self.next().unwrap_or_else(|code| panic!("closed: {code}"));
            match message["id"] == id && message.get("method").is_none() {
                true => return (message, before),
                false => before.push(message),
            }
        }
    }

    /// Returns the next message, or the code with which the server has closed the WebSocket.
    fn next(&mut self) -> Result<Value, u16> {
        loop {
            match self.0.read().unwrap() {
                Message::Text(text) => return Ok(serde_json::from_str(&text).unwrap()),
                Message::Close(frame) => return Err(frame.map_or(0, |frame| frame.code.into())),
                _ => {}
            }
        }
    }

    /// Opens a session.
    fn session(&mut self, dir: &Path) -> String {
        let (hello, _) = self.call(0, "initialize", &json!({"protocolVersion": 1}));
        assert_eq!(hello["result"]["protocolVersion"], 1);
        let (opened, _) = self.call(1, "session/new", &json!({"cwd": dir, "mcpServers": []}));
        opened["result"]["sessionId"].as_str().expect("a session").to_owned()
    }
}

fn call(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn prompt(session: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]})
}

fn shell(command: &str) -> Value {
    json!({"tool_call": {"name": "Bash", "arguments": {"command": command}, "approve": {"description": command},
        "effect": {"write_file": "effect.txt", "content": command}, "result": "done"}})
}

fn acp(actions: Value) -> ScriptedAgent {
    agent(json!({"wire": "acp", "turns": [actions]}))
}

/// A file with the token.
fn token_file(dir: &Path) -> String {
    let path = dir.join("token.txt");
    std::fs::write(&path, format!("{TOKEN}\n")).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn socket_client_is_guarded_and_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let (policy, runs) = (dir.path().join("policy.toml"), dir.path().join("runs"));
    std::fs::write(&policy, "deny = [\"execute(rm *)\"]\nallow = [\"execute(git status)\"]\n").unwrap();
    let options = ["--policy", policy.to_str().unwrap(), "--record", runs.to_str().unwrap()];
    for (command, effect) in [("git status", true), ("rm -rf x", false)] {
        let mut server = Server::scripted(dir.path(), &options, acp(json!([shell(command), {"text": "After."}])));
        let mut client = server.socket().unwrap();
        let session = client.session(dir.path());
        let (answer, before) = client.call(2, "session/prompt", &prompt(&session));
        assert_eq!(answer["result"]["stopReason"], "end_turn");
        assert!(before.iter().all(|message| message["method"] == "session/update"), "{before:?}");
        assert_eq!(before.iter().any(|message| message.to_string().contains("denied: ")), !effect);
        let file = dir.path().join("effect.txt");
        assert_eq!(file.exists(), effect, "{command}");
        std::fs::remove_file(file).ok();
        client.0.close(None).unwrap();
        server.wait_for_note("client 1 has ended, because it has closed the WebSocket");
    }
    let ran = ended(command(None, &["inspect", "--json", runs.to_str().unwrap()]).spawn().unwrap());
    let summary: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(summary.as_array().unwrap().len(), 2, "{summary:#}");
}

#[test]
fn each_socket_has_an_agent_and_a_place() {
    let dir = tempfile::tempdir().unwrap();
    // Only the first turn of an agent has this text.
    let agent = acp(json!([{"text": "First."}]));
    let mut server = Server::scripted(dir.path(), &["--max-clients", "2"], agent);
    let mut clients = [server.socket().unwrap(), server.socket().unwrap()];
    assert_eq!(server.socket().err(), Some(503));
    let sessions = clients.each_mut().map(|client| client.session(dir.path()));
    for (client, session) in clients.iter_mut().zip(&sessions) {
        let (_, before) = client.call(2, "session/prompt", &prompt(session));
        assert!(before.iter().any(|message| message.to_string().contains("First.")), "{before:?}");
    }
    drop(clients);
    server.wait_for_note("has ended");
    server.wait_for_note("has ended");
    server.socket().unwrap().session(dir.path());
}

#[test]
fn http_client_reads_streams_until_it_deletes_the_connection() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::scripted(dir.path(), &[], acp(json!([{"text": "One.\rTwo."}])));
    let post = |more: &str, body: &Value| {
        server
            .answer(&format!("POST /acp HTTP/1.1\nhost: HOST\ncontent-type: application/json{more}"), &body.to_string())
    };
    let stream = |more: &str| {
        let head = format!("GET /acp HTTP/1.1\nhost: HOST\naccept: text/event-stream\nconnection: close{more}");
        let mut reader = BufReader::new(server.request(&head, ""));
        let head = read_head(&mut reader);
        assert!(head.starts_with("http/1.1 200") && head.contains("content-type: text/event-stream"), "{head}");
        reader
    };
    let next = |reader: &mut BufReader<TcpStream>| loop {
        let mut line = String::new();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0, "the stream has ended");
        if let Some(data) = line.strip_prefix("data: ") {
            break serde_json::from_str::<Value>(data).unwrap();
        }
    };
    let (head, hello) = post("", &call(0, "initialize", &json!({"protocolVersion": 1})));
    assert!(head.starts_with("http/1.1 200") && hello.contains("\"protocolVersion\":1"), "{head}{hello}");
    let id = head.lines().find_map(|line| line.strip_prefix("acp-connection-id: ")).unwrap();
    let connection = format!("\nacp-connection-id: {id}");
    let mut of_connection = stream(&connection);
    let (head, body) = post(&connection, &call(1, "session/new", &json!({"cwd": dir.path(), "mcpServers": []})));
    assert!(head.starts_with("http/1.1 202") && body.is_empty(), "{head}{body}");
    let opened = next(&mut of_connection);
    assert_eq!(opened["id"], 1);
    let session = opened["result"]["sessionId"].as_str().unwrap();
    let both = format!("{connection}\nacp-session-id: {session}");
    // The prompt comes before the stream, which gets what has waited.
    let (head, _) = post(&both, &call(2, "session/prompt", &prompt(session)));
    assert!(head.starts_with("http/1.1 202"), "{head}");
    let mut of_session = stream(&both);
    let mut texts = String::new();
    loop {
        let message = next(&mut of_session);
        if message["id"] == 2 {
            assert_eq!(message["result"]["stopReason"], "end_turn");
            break;
        }
        assert_eq!(message["params"]["sessionId"], session);
        texts += message["params"]["update"]["content"]["text"].as_str().unwrap_or_default();
    }
    assert_eq!(texts, "One.\rTwo.");
    let busy = format!("GET /acp HTTP/1.1\nhost: HOST\naccept: text/event-stream{both}");
    assert_eq!(server.status(&busy, ""), 409);
    let other = prompt("other");
    assert!(post(&both, &call(3, "session/prompt", &other)).0.starts_with("http/1.1 400"));
    let delete = format!("DELETE /acp HTTP/1.1\nhost: HOST{connection}");
    assert_eq!(server.status(&delete, ""), 202);
    let mut rest = String::new();
    of_session.read_to_string(&mut rest).unwrap();
    of_connection.read_to_string(&mut rest).unwrap();
    assert!(!rest.contains("data: "), "{rest}");
    assert!(post(&connection, &call(4, "session/new", &json!({}))).0.starts_with("http/1.1 404"));
    server.wait_for_note("it has deleted the connection");
}

#[test]
fn idle_http_client_ends() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::scripted(dir.path(), &["--idle-timeout", "0.1"], acp(json!([])));
    let body = call(0, "initialize", &json!({"protocolVersion": 1})).to_string();
    let (head, _) = server.answer("POST /acp HTTP/1.1\nhost: HOST\ncontent-type: application/json", &body);
    assert!(head.contains("acp-connection-id: "), "{head}");
    server.wait_for_note("client 1 has ended, because it was idle");
}

#[test]
fn request_that_may_not_pass_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let open = Server::start(dir.path(), &[], &[AGENT]);
    let locked = Server::start(dir.path(), &["--token-file", &token_file(dir.path())], &[AGENT]);
    let hello = call(0, "initialize", &json!({})).to_string();
    let json = "content-type: application/json";
    for (head, body, status) in [
        ("POST /acp HTTP/1.1\nhost: evil.example", &*hello, 403),
        ("POST /acp HTTP/1.1\nhost: HOST\norigin: http://HOST", &hello, 403),
        ("GET /acp HTTP/1.1\nhost: HOST\norigin: null", "", 403),
        ("GET / HTTP/1.1\nhost: HOST", "", 404),
        ("PUT /acp HTTP/1.1\nhost: HOST", "", 405),
        ("GET /acp HTTP/1.1\nhost: HOST", "", 406),
        ("GET /acp HTTP/1.1\nhost: HOST\naccept: text/event-stream", "", 400),
        ("GET /acp HTTP/1.1\nhost: HOST\naccept: text/event-stream\nacp-connection-id: x", "", 404),
        ("DELETE /acp HTTP/1.1\nhost: HOST", "", 400),
        ("DELETE /acp HTTP/1.1\nhost: HOST\nacp-connection-id: x", "", 404),
        ("POST /acp HTTP/1.1\nhost: HOST", &hello, 415),
        ("POST /acp HTTP/1.1\nhost: HOST\nJSON", "[]", 501),
        ("POST /acp HTTP/1.1\nhost: HOST\nJSON", "{", 400),
        ("POST /acp HTTP/1.1\nhost: HOST\nJSON", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/new\"}", 400),
        ("POST /acp HTTP/1.1\nhost: HOST\nJSON\nacp-connection-id: x", &hello, 404),
        ("GET /acp HTTP/1.1\nhost: HOST\nupgrade: websocket\nconnection: upgrade\nsec-websocket-version: 7", "", 426),
        ("GET /acp HTTP/1.1\nhost: HOST\nupgrade: websocket\nsec-websocket-version: 13", "", 400),
    ] {
        assert_eq!(open.status(&head.replace("JSON", json), body), status, "{head}");
    }
    for (given, status) in [
        ("", 401),
        ("\nauthorization: Bearer 0123456789abcdef0124", 401),
        ("\nauthorization: Basic 0123456789abcdef0123", 401),
        ("\nauthorization: Bearer 0123456789abcdef0123", 400),
        ("\norigin: http://evil.example\nauthorization: Bearer 0123456789abcdef0123", 403),
    ] {
        let head = format!("POST /acp HTTP/1.1\nhost: any.example\n{json}{given}");
        assert_eq!(locked.status(&head, "{}"), status, "{given}");
    }
    let large = format!("POST /acp HTTP/1.1\nhost: HOST\n{json}\ntransfer-encoding: chunked\n\n{:x}\n", 1_u64 << 40);
    let mut stream = open.connect();
    stream.write_all(large.replace("HOST", &open.address).replace('\n', "\r\n").as_bytes()).unwrap();
    drop(stream);
    assert_eq!(open.status(&format!("POST /acp HTTP/1.1\nhost: HOST\n{json}"), "{}"), 400);
}

#[test]
fn hostile_frame_closes_one_socket() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::scripted(dir.path(), &[], acp(json!([{"text": "Hi"}])));
    let mut other = server.socket().unwrap();
    let session = other.session(dir.path());
    // The header of a masked frame: its first byte, and its length.
    for (first, length, code) in [(0x81_u8, 1_u64 << 62, 1009), (0x81, (64 << 20) + 1, 1009), (0xf1, 1, 1002)] {
        let mut hostile = server.socket().unwrap();
        let mut frame = vec![first, 0xff];
        frame.extend(length.to_be_bytes());
        frame.extend([0; 8]);
        hostile.0.get_mut().write_all(&frame).unwrap();
        assert_eq!(hostile.next(), Err(code), "{first:x} {length}");
    }
    for text in ["nonsense", "[]", "{\"id\":1}", "{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"initialize\"}"] {
        let mut hostile = server.socket().unwrap();
        hostile.0.send(Message::text(text)).unwrap();
        assert!(hostile.next().unwrap()["error"]["message"].as_str().unwrap().contains("refused"), "{text}");
    }
    let mut binary = server.socket().unwrap();
    binary.0.send(Message::binary(vec![0; 10])).unwrap();
    binary.session(dir.path());
    let (answer, _) = other.call(2, "session/prompt", &prompt(&session));
    assert_eq!(answer["result"]["stopReason"], "end_turn");
}

#[test]
fn agent_that_exits_closes_the_client_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let words: &[&str] = if cfg!(windows) { &["hostname"] } else { &["sh", "-c", "echo broken >&2; exit 3"] };
    let server = Server::start(dir.path(), &[], words);
    let mut client = server.socket().unwrap();
    client.0.send(Message::text(call(0, "initialize", &json!({})).to_string())).ok();
    let closed = loop {
        match client.0.read().unwrap() {
            Message::Close(frame) => break frame.unwrap(),
            Message::Text(text) => assert!(text.contains("error"), "{text}"),
            _ => {}
        }
    };
    assert_eq!(u16::from(closed.code), 1011, "{closed:?}");
    assert!(closed.reason.contains("exit"), "{closed:?}");
    let body = call(0, "initialize", &json!({})).to_string();
    let (head, body) = server.answer("POST /acp HTTP/1.1\nhost: HOST\ncontent-type: application/json", &body);
    assert!(!head.contains("acp-connection-id"), "{head}");
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert!(answer["id"] == 0 && answer["error"]["message"].as_str().unwrap().contains("exit"), "{answer}");
}

#[cfg(unix)]
#[test]
fn signal_ends_agents() {
    use rustix::process::{Pid, Signal, kill_process, test_kill_process};

    for (signals, trap) in [(1, ""), (2, "trap '' TERM INT;")] {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        // It does not exit at the end of its input.
        let script =
            format!("{trap} echo $$ > {0}.new; mv {0}.new {0}; while :; do read x || sleep 1000; done", pid.display());
        let mut server = Server::start(dir.path(), &[], &["sh", "-c", &script]);
        let mut client = server.socket().unwrap();
        while !pid.exists() {
            assert!(server.child.try_wait().unwrap().is_none());
            std::thread::yield_now();
        }
        let pid = std::fs::read_to_string(pid).unwrap().trim().parse().ok().and_then(Pid::from_raw).unwrap();
        kill_process(Pid::from_child(&server.child), Signal::TERM).unwrap();
        server.wait_for_note("the agents get the end of their input");
        if signals == 2 {
            kill_process(Pid::from_child(&server.child), Signal::INT).unwrap();
        } else {
            assert_eq!(client.next(), Err(1001));
            assert!(client.0.read().is_err());
        }
        assert_eq!(server.child.wait().unwrap().code(), Some(130));
        // The system removes a killed process a little later.
        while test_kill_process(pid).is_ok() {
            std::thread::yield_now();
        }
    }
}

#[test]
fn wrong_arguments_say_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let busy = Server::start(dir.path(), &[], &[AGENT]);
    let short = dir.path().join("short.txt");
    std::fs::write(&short, "secret").unwrap();
    for (arguments, code, text) in [
        (&["--listen", &*busy.address, "--", AGENT][..], 1, "is in use; choose another port"),
        (
            &["--listen", "192.0.2.1:0", "--token-file", &token_file(dir.path()), "--", AGENT],
            2,
            "not an address of this machine",
        ),
        (&["--listen", "no.such.invalid:80", "--", AGENT], 2, "is not known"),
        (&["--listen", "8421", "--", AGENT], 2, "expected HOST:PORT"),
        (&["--listen", "0.0.0.0:0", "--", AGENT], 2, "--token-file or KIMI_AGENT_TOKEN"),
        (&["--listen", "[::]:0", "--", AGENT], 2, "--token-file or KIMI_AGENT_TOKEN"),
        (&["--token-file", short.to_str().unwrap(), "--", AGENT], 2, "at least 16"),
        (&["--token-file", "/no/such", "--", AGENT], 2, "cannot be read"),
        (&["--max-clients", "0", "--", AGENT], 2, "--max-clients"),
        (&["--policy", "/no/such.toml", "--", AGENT], 2, "--policy"),
        (&["--idle-timeout", "-1", "--", AGENT], 2, "--idle-timeout"),
        (&["--", "/no/such/agent"], 127, "/no/such/agent"),
        (&["--policy", "read-only"], 2, "AGENT"),
    ] {
        let mut command = command(None, &[&["serve"], arguments].concat());
        let command = command.env("XDG_CONFIG_HOME", dir.path()).env("APPDATA", dir.path());
        let ran = ended(command.env_remove("KIMI_AGENT_TOKEN").spawn().unwrap());
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(text) && !ran.err.contains(TOKEN), "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn agent_does_not_get_the_token() {
    let dir = tempfile::tempdir().unwrap();
    let seen = dir.path().join("seen.txt");
    let script = format!("env > {0}.new; mv {0}.new {0}; cat", seen.display());
    if cfg!(windows) {
        return;
    }
    let mut command = command(None, &["serve", "--", "sh", "-c", &script]);
    let command = command.env("XDG_CONFIG_HOME", dir.path()).env("KIMI_AGENT_TOKEN", TOKEN);
    let mut child = command.spawn().unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let address = url.trim().strip_prefix("ws://").and_then(|url| url.strip_suffix("/acp")).unwrap().to_owned();
    let notes = BufReader::new(child.stderr.take().unwrap());
    let server = Server { child, address, notes, _agent: None };
    let _client = server.socket().unwrap();
    while !seen.exists() {
        std::thread::yield_now();
    }
    let seen = std::fs::read_to_string(seen).unwrap();
    assert!(seen.contains("XDG_CONFIG_HOME") && !seen.contains(TOKEN), "{seen}");
}
