//! Warnings about turns and batches whose errors the program did not read.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use kimi_agent::batch::{BatchOptions, Progress};
use kimi_agent::{SessionState, run_batch};
use serde_json::json;
use tracing::subscriber::DefaultGuard;

use super::*;

/// The records of this thread.
#[derive(Clone, Default)]
struct Records(Arc<Mutex<Vec<u8>>>);

impl Write for Records {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Records {
    fn taken() -> (Self, DefaultGuard) {
        let records = Self::default();
        let writer = records.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
        (records, tracing::subscriber::set_default(subscriber))
    }

    fn count(&self, text: &str) -> usize {
        String::from_utf8_lossy(&self.0.lock().unwrap()).matches(text).count()
    }
}

const FAILED: &str = "and the error of a turn was not read";
const ENDED: &str = "and a turn that has ended was not read";

#[tokio::test]
async fn unread_turn_that_has_ended_is_logged_once_by_close() {
    let fails = json!({"error": {"code": -32003, "message": "the model is down"}});
    let text = json!({"text": "a"});
    for (turn, is_read, closes, expected) in [
        (fails.clone(), false, true, [1, 0]),
        (fails.clone(), true, true, [0, 0]),
        // The turn may still be read.
        (fails, false, false, [0, 0]),
        (text.clone(), false, true, [0, 1]),
        (text.clone(), true, true, [0, 0]),
        (text, false, false, [0, 0]),
        (json!({"exit": 3}), false, true, [1, 0]),
    ] {
        let (records, _subscriber) = Records::taken();
        let has_failed = turn.get("text").is_none();
        let executable = scripted_agent(json!([[turn]]));
        let session = Session::builder().executable(&executable).start().await.unwrap();
        let mut turn = session.prompt("hi").unwrap();
        while session.state() == SessionState::Active {
            tokio::task::yield_now().await;
        }
        if is_read {
            turn.result().await.ok();
        }
        if closes {
            session.close().await.unwrap();
            session.close().await.unwrap();
        } else {
            drop(session);
        }
        assert_eq!([records.count(FAILED), records.count(ENDED)], expected);
        drop(turn);
        // Without a close, the drop of the turn is logged.
        assert_eq!(records.count("failed turn dropped unread"), usize::from(!closes && has_failed));
    }
}

#[tokio::test]
async fn unread_batch_is_logged_once() {
    let fails = json!([[{"error": {"code": -32003, "message": "the model is down"}}]]);
    for (script, ends, is_read, expected) in [
        (fails.clone(), true, false, ["failed batch dropped unread", "the model is down"]),
        (fails, true, true, ["", ""]),
        (json!([[{"text": "a"}]]), true, false, ["batch dropped unread", ""]),
        (json!([[{"wait_cancel": true}]]), false, false, ["batch dropped unread, and cancelled", ""]),
    ] {
        let (records, _subscriber) = Records::taken();
        let executable = scripted_agent(script);
        let (sender, mut done) = tokio::sync::watch::channel((0, 0));
        let options = BatchOptions::new().session(SessionOptions::new().executable(&executable));
        let options = options.retry(1).on_progress(move |progress: Progress| {
            sender.send_replace((progress.running, progress.done));
        });
        let mut batch = run_batch(["hi"], options);
        done.wait_for(|state| *state == if ends { (0, 1) } else { (1, 0) }).await.unwrap();
        if is_read {
            batch.next().await.unwrap().unwrap();
        }
        drop(batch);
        assert_eq!(records.count("batch dropped unread"), usize::from(!is_read));
        assert!(expected.iter().all(|text| text.is_empty() || records.count(text) > 0));
    }
}
