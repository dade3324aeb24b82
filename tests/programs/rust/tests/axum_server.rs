//! The server with axum: clients, some of which disconnect in the middle of a turn.

#![cfg(unix)]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use kimi_agent::testing::{ScriptedAgent, scripted_agent};
use serde_json::{Value, json};

struct Server {
    child: Child,
    address: String,
    _agent: ScriptedAgent,
}

impl Server {
    /// Starts the server with an agent that follows this script. The words of `before` start the agent.
    fn start(script: Value, before: &[&str]) -> Self {
        let agent = scripted_agent(script);
        let words = before.iter().map(|word| (*word).to_owned());
        let words: Vec<String> = words.chain(agent.iter().map(|word| word.to_string_lossy().into_owned())).collect();
        let mut child = Command::new(env!("CARGO_BIN_EXE_axum_server"))
            .env("KIMI_AGENT_EXECUTABLE", json!(words).to_string())
            .env("PORT", "0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("stdout")).read_line(&mut line).expect("an address");
        let address = line.trim().strip_prefix("http://").expect("an address").to_owned();
        Self { child, address, _agent: agent }
    }

    /// Sends a question, and returns the connection.
    fn ask(&self, question: &str, headers: &str) -> TcpStream {
        let body = json!({ "question": question }).to_string();
        let mut client = TcpStream::connect(&self.address).expect("a connection");
        let head =
            format!("POST /ask HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n\r\n", body.len());
        client.write_all((head + &body).as_bytes()).expect("it listens");
        client
    }

    /// Asks as the client of the cookbook does. Returns the whole response.
    fn answer(&self, question: &str) -> String {
        let mut text = String::new();
        self.ask(question, "host: localhost\r\ncontent-type: application/json")
            .read_to_string(&mut text)
            .expect("UTF-8");
        text
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn clients_get_their_own_answers() {
    let server = Server::start(json!([[{"text": ["Hello ", "{{prompt}}"]}]]), &[]);
    std::thread::scope(|scope| {
        for question in ["a", "b", "c"] {
            let server = &server;
            scope.spawn(move || {
                let answer = server.answer(question);
                assert!(answer.contains("content-type: text/event-stream"), "{answer}");
                let texts = ["\"Hello \"".to_owned(), format!("\"{question}\"")];
                assert!(texts.iter().all(|text| answer.contains(&format!("event: text\ndata: {text}\n"))), "{answer}");
                assert!(answer.contains("event: end\ndata: \"finished\"\n"), "{answer}");
            });
        }
    });
}

#[test]
fn failed_turn_is_event() {
    let server = Server::start(json!([[{"error": {"code": -32003, "message": "overloaded"}}]]), &[]);
    assert!(server.answer("x").contains("event: error\ndata: \"llm_service_error\"\n"));
}

#[test]
fn other_sites_are_refused() {
    let server = Server::start(json!([[{"text": "secret"}]]), &[]);
    for (headers, status) in [
        ("host: rebound.example\r\ncontent-type: application/json", "403"),
        ("host: localhost\r\ncontent-type: text/plain", "415"),
    ] {
        let mut text = String::new();
        server.ask("x", headers).read_to_string(&mut text).expect("UTF-8");
        assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{text}");
    }
}

#[test]
fn client_that_disconnects_ends_its_agent() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("agents");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    // Each agent has the pipe open for writing as long as it lives.
    let opens = format!("exec 3>'{}'; exec \"$@\"", pipe.display());
    let script = json!([[{"text": "I wait."}, {"wait_cancel": true}]]);
    let server = Server::start(script, &["sh", "-c", &opens, "sh"]);
    for _ in 0..2 {
        let client = server.ask("x", "host: localhost\r\ncontent-type: application/json");
        let mut agent = File::open(&pipe).expect("an agent has opened it");
        let mut lines = BufReader::new(client);
        let mut line = String::new();
        while !line.contains("I wait.") {
            line.clear();
            assert_ne!(lines.read_line(&mut line).expect("a line"), 0);
        }
        drop(lines);
        // It ends when the agent has exited.
        agent.read_to_end(&mut Vec::new()).expect("the end");
    }
}
