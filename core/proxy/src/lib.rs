//! A guard between an ACP client, such as an editor, and an ACP agent: a policy decides about what the agent asks for, budgets
//! hold, and sessions are recorded. Everything else passes as it is.
//!
//! Programs use the crate `kimi-agent` with its feature `proxy`. This crate promises no stable API.

#![deny(missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod day;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod observed;
mod options;
mod place;
mod pump;
#[cfg(feature = "serve")]
pub mod serve;
mod settings;
mod tape;
#[cfg(test)]
mod tests;
mod texts;

use std::time::Duration;

use kimi_agent_client::proxied::{self, RecordedFile, RunningAgent};
use kimi_agent_client::{Error, Result, SessionOptions};
use kimi_agent_protocol::error::invalid_option;
use tokio::io::{AsyncRead, AsyncWrite};

use guard::Guard;
pub use options::ProxyOptions;
use pump::{Ended, Side};
use settings::Settings;

/// How long the agent may take to exit after its output has ended, or after a failure.
const PATIENCE: Duration = Duration::from_millis(100);

/// Starts an agent, and stands between it and a client: `reader` is what the client writes, `writer` is what the client reads.
/// Returns when the client has closed `reader`, and the agent has exited. Dropping the future ends the agent.
///
/// # Errors
/// [`Error::InvalidOption`] for wrong settings, [`Error::Spawn`] if the agent cannot be started, [`Error::AgentExited`] if it
/// exits before the client closes `reader`, [`Error::Protocol`] if the agent or the client cannot be understood. The calls of the
/// client that are open get an error, and the agent is ended.
///
/// # Examples
/// ```no_run
/// # use kimi_agent_proxy as kimi_agent;
/// # async fn example(reader: tokio::io::Empty, writer: tokio::io::Sink) -> kimi_agent_protocol::Result<()> {
/// use kimi_agent::{ProxyOptions, proxy};
/// proxy(reader, writer, ProxyOptions::new(["gemini", "--acp"]).record_to("runs/")).await
/// # }
/// ```
pub async fn proxy<R, W>(reader: R, writer: W, options: ProxyOptions) -> Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let (session, settings) = options.resolved()?;
    guarded(reader, writer, session, settings).await
}

/// Does what [`proxy`] does, with options that were read.
async fn guarded<R, W>(reader: R, writer: W, session: SessionOptions, settings: Settings) -> Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let limit = proxied::max_line_bytes(&session);
    let paths = proxied::paths(&session)?;
    let RunningAgent { reader: output, writer: input, mut process } = proxied::start(&session).await?;
    let mut client = Side::new(reader, writer, limit);
    let mut agent = Side::new(output, input, limit);
    let mut guard = Guard::new(session, settings, paths);
    let ended = pump::relay(&mut client, &mut agent, &mut guard, process.wait()).await;
    drop(agent);
    let outcome = match ended {
        Ok(Ended::Client) => {
            process.end(PATIENCE).await;
            Ok(())
        }
        Ok(Ended::Agent(exit)) => {
            let exit = match exit {
                Some(exit) => exit,
                None => process.end(PATIENCE).await,
            };
            Err(Error::AgentExited(exit))
        }
        Err(error) => {
            process.end(PATIENCE).await;
            Err(error)
        }
    };
    let reason = outcome.as_ref().err().cloned().unwrap_or_else(Error::session_closed);
    let recordings = guard.end(&reason);
    pump::last_words(&mut client, &mut guard).await;
    let problem = completed(recordings).await;
    outcome.and_then(|()| match problem {
        Some(problem) => Err(invalid_option(
            "record",
            format!("a recording is incomplete, because its file cannot be written: {problem}"),
        )),
        None => Ok(()),
    })
}

/// Waits until all recordings are written. Returns the first problem.
async fn completed(recordings: Vec<RecordedFile>) -> Option<String> {
    let mut problem = None;
    for file in recordings {
        let found = file.complete().await;
        problem = problem.or(found);
    }
    problem
}
