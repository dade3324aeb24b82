//! The prompt: the argument, the standard input, or both.

use std::io::{self, BufRead, IsTerminal, Read};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::Failure;
use crate::console::Console;

/// The time for the first byte of the standard input, if there is a prompt without it. A pipe can stay open without
/// any text, for example in CI.
const PATIENCE: Duration = Duration::from_secs(3);

/// Returns the prompt.
///
/// # Errors
/// It is missing or empty, or the standard input cannot be read.
pub(super) async fn read(given: Option<&str>, console: &Console) -> Result<String, Failure> {
    let is_terminal = io::stdin().is_terminal();
    let prompt = match given {
        None if is_terminal => {
            return Err(Failure::wrong("PROMPT", "it is missing; pass it as an argument, or pipe it into the command"));
        }
        None | Some("-") => Input::open().text().await?,
        Some(given) if is_terminal || given.trim().is_empty() => given.to_owned(),
        Some(given) => with_input(given, console).await?,
    };
    if prompt.trim().is_empty() {
        let problem = "it is empty; pass a text as the argument, or pipe it into the command";
        return Err(Failure::wrong("PROMPT", problem));
    }
    Ok(prompt)
}

/// Appends the text of the standard input, if there is any.
async fn with_input(given: &str, console: &Console) -> Result<String, Failure> {
    let mut input = Input::open();
    match timeout(PATIENCE, &mut input.has_text).await {
        Ok(Ok(())) => {}
        // It is empty, or it cannot be read at all.
        Ok(Err(_)) => return Ok(given.to_owned()),
        Err(_) => {
            let seconds = PATIENCE.as_secs();
            console.warn(&format!(
                "warning: the standard input is open, but had no text for {seconds} seconds, and is ignored; close it with \
                 </dev/null, or pass `-` as the prompt to wait for it"
            ));
            return Ok(given.to_owned());
        }
    }
    let text = input.text().await?;
    Ok(if text.trim().is_empty() { given.to_owned() } else { format!("{given}\n\n{text}") })
}

/// The standard input, which a thread reads, because nothing interrupts the reading.
struct Input {
    /// Resolves at the first byte, and is closed without it.
    has_text: oneshot::Receiver<()>,
    text: oneshot::Receiver<io::Result<String>>,
}

impl Input {
    fn open() -> Self {
        let (first, has_text) = oneshot::channel();
        let (whole, text) = oneshot::channel();
        std::thread::spawn(move || {
            let mut input = io::stdin().lock();
            if input.fill_buf().is_ok_and(|bytes| !bytes.is_empty()) {
                first.send(()).ok();
            } else {
                drop(first);
            }
            let mut text = String::new();
            let read = input.read_to_string(&mut text).map(|_| text);
            whole.send(read).ok();
        });
        Self { has_text, text }
    }

    /// Returns the text, when the standard input has ended.
    async fn text(self) -> Result<String, Failure> {
        let read = self.text.await.unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into()));
        read.map_err(|error| Failure::wrong("PROMPT", format!("the standard input cannot be read: {error}")))
    }
}
