//! The lines between two sides, through pipes in memory.

use std::future::pending;

use kimi_agent_client::{Error, SessionOptions};
use kimi_agent_protocol::AgentExit;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf, duplex, split};

use super::{permission, selected};
use crate::guard::Guard;
use crate::pump::{Ended, Side, last_words, relay};
use crate::settings::Settings;

const LIMIT: usize = 1 << 20;

type Pipe = Side<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

/// A side of the relay, and the other end of its pipe.
fn side(capacity: usize) -> (Pipe, DuplexStream) {
    side_with(capacity, LIMIT)
}

fn side_with(capacity: usize, limit: usize) -> (Pipe, DuplexStream) {
    let (ours, other) = duplex(capacity);
    let (reader, writer) = split(ours);
    (Side::new(reader, writer, limit), other)
}

fn guard() -> Guard {
    Guard::new(SessionOptions::new(), Settings::default(), None)
}

#[tokio::test]
async fn lines_pass_through_small_pipes_in_order() {
    let (mut client, client_end) = side(64);
    let (mut agent, agent_end) = side(64);
    let mut guard = guard();
    let lines = |from: &str| -> String {
        (0..500)
            .map(|n| format!("{{\"method\":\"_{from}\",\"params\":{{\"n\":{n},\"pad\":\"{}\"}}}}\n", "x".repeat(n)))
            .collect()
    };
    let exchange = |end: DuplexStream, sent: String, expected: String| async move {
        let (mut reader, mut writer) = split(end);
        let read = async {
            let mut got = vec![0; expected.len()];
            reader.read_exact(&mut got).await.unwrap();
            assert_eq!(String::from_utf8(got).unwrap(), expected);
        };
        let write = async {
            writer.write_all(sent.as_bytes()).await.unwrap();
        };
        tokio::join!(read, write);
        reader.unsplit(writer)
    };
    let both = async {
        tokio::join!(
            exchange(client_end, lines("client"), lines("agent")),
            exchange(agent_end, lines("agent"), lines("client"))
        )
    };
    tokio::select! {
        ends = both => drop(ends),
        _ = relay(&mut client, &mut agent, &mut guard, pending()) => panic!("it ended"),
    }
}

#[tokio::test]
async fn unread_side_stops_other_side() {
    let (mut client, mut client_end) = side(1 << 10);
    let (mut agent, agent_end) = side(1 << 10);
    let mut guard = guard();
    let line = format!("{{\"method\":\"_x\",\"params\":{{\"pad\":\"{}\"}}}}\n", "x".repeat(100 << 10));
    let write = async {
        let mut written = 0_usize;
        loop {
            client_end.write_all(line.as_bytes()).await.unwrap();
            written += line.len();
            // What the guard keeps, a chunk, a line and the pipes.
            assert!(written < (1 << 20) + 4 * (100 << 10));
        }
    };
    tokio::select! {
        biased;
        _ = relay(&mut client, &mut agent, &mut guard, pending()) => panic!("it ended"),
        () = write => {}
        // Both wait.
        () = idle() => {}
    }
    drop(agent_end);
}

/// Waits until the other tasks of the runtime have nothing to do.
async fn idle() {
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn end_of_the_client_ends_the_relay() {
    let (mut client, mut client_end) = side(64);
    let (mut agent, mut agent_end) = side(64);
    let mut guard = guard();
    let agent_side = async {
        let mut got = String::new();
        agent_end.read_to_string(&mut got).await.unwrap();
        assert_eq!(got, "{\"method\":\"_last\"}\n");
        // The agent still writes, and exits.
        agent_end.write_all(b"{\"method\":\"_rest\"}\n").await.unwrap();
        drop(agent_end);
    };
    let client_side = async {
        client_end.write_all(b"{\"method\":\"_last\"}").await.unwrap();
        client_end.shutdown().await.unwrap();
        let mut got = [0; 19];
        client_end.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"{\"method\":\"_rest\"}\n");
    };
    let (ended, (), ()) = tokio::join!(relay(&mut client, &mut agent, &mut guard, pending()), agent_side, client_side);
    assert!(matches!(ended, Ok(Ended::Client)));
}

#[tokio::test]
async fn exit_of_the_agent_passes_what_it_wrote() {
    let (mut client, mut client_end) = side(1 << 10);
    let (mut agent, mut agent_end) = side(1 << 10);
    let mut guard = guard();
    let request = b"{\"id\":1,\"method\":\"initialize\"}\n";
    client_end.write_all(request).await.unwrap();
    let exit = async move {
        agent_end.read_exact(&mut [0; 31]).await.unwrap();
        agent_end.write_all(b"{\"method\":\"_a\"}\n{\"method\":\"_cut").await.unwrap();
        AgentExit { exit_code: Some(3), ..AgentExit::default() }
    };
    let ended = relay(&mut client, &mut agent, &mut guard, exit).await;
    let Ok(Ended::Agent(exit)) = ended else { panic!("no exit") };
    // The end of the output can be noticed first.
    assert_eq!(exit.map_or(Some(3), |exit| exit.exit_code), Some(3));
    drop(guard.end(&Error::AgentExited(AgentExit::default())));
    last_words(&mut client, &mut guard).await;
    drop(client);
    let mut got = String::new();
    client_end.read_to_string(&mut got).await.unwrap();
    let lines: Vec<serde_json::Value> = got.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0], json!({"method": "_a"}));
    assert!(lines[1]["id"] == 1 && lines[1]["error"]["message"].is_string(), "{got}");
}

#[tokio::test]
async fn line_that_is_too_long_ends_the_relay() {
    for of_agent in [true, false] {
        let (mut client, client_end) = side(1 << 10);
        let (mut agent, agent_end) = side(1 << 10);
        let mut guard = guard();
        let mut end = if of_agent { agent_end } else { client_end };
        let write = async move {
            end.write_all(&vec![b'x'; LIMIT + 1]).await.ok();
            pending::<()>().await;
        };
        let ended = tokio::select! {
            ended = relay(&mut client, &mut agent, &mut guard, pending()) => ended,
            () = write => panic!("it was read"),
        };
        assert_eq!(ended.err().map(|error| error.code()), Some("protocol_error"));
    }
}

#[tokio::test]
async fn request_without_session_is_refused_over_pipes() {
    let (mut client, _client_end) = side(1 << 10);
    let (mut agent, mut agent_end) = side(8 << 10);
    let mut guard = guard();
    let asks = async {
        agent_end.write_all(format!("{}\n", permission(json!(1), "make")).as_bytes()).await.unwrap();
        let mut got = vec![0; 1 << 10];
        let count = agent_end.read(&mut got).await.unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&got[..count]).unwrap();
        assert!(answer["error"].is_object() && answer != selected(json!(1), "yes"));
    };
    tokio::select! {
        () = asks => {}
        _ = relay(&mut client, &mut agent, &mut guard, pending()) => panic!("it ended"),
    }
}

#[tokio::test]
async fn line_of_many_values_ends_the_relay() {
    for from_agent in [true, false] {
        let (mut client, client_end) = side_with(1 << 20, 8 << 20);
        let (mut agent, agent_end) = side_with(1 << 20, 8 << 20);
        let (mut writer, _other) = if from_agent { (agent_end, client_end) } else { (client_end, agent_end) };
        let write = async {
            let line = format!("{{\"method\":\"_x\",\"params\":[{}0]}}\n", "0,".repeat(1 << 20));
            writer.write_all(line.as_bytes()).await.unwrap();
            pending::<()>().await;
        };
        let mut guard = guard();
        let ended = tokio::select! {
            ended = relay(&mut client, &mut agent, &mut guard, pending()) => ended,
            () = write => panic!("nothing ended"),
        };
        let Err(error) = ended else { panic!("it was not an error") };
        assert!(error.to_string().contains("1048576 JSON values"), "{error}");
    }
}
