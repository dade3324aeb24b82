//! `kimi-agent serve`: an agent over WebSocket and HTTP.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use kimi_agent_protocol::printable::printable_line;
use kimi_agent_proxy::serve::{PATH, ServeError, ServeOptions, Server, TOKEN_VARIABLE};

use crate::failure::Failure;
use crate::interrupts::Interrupts;
use crate::proxy::GuardArguments;
use crate::session_arguments::{Seconds, duration};
use crate::write_out;

/// The arguments of `serve`.
#[derive(Args, Debug)]
pub(crate) struct ServeArguments {
    /// The address to listen on. With port 0, the system chooses a free port.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    listen: String,
    /// A file with the token that clients send as `Authorization: Bearer TOKEN`. Default: $KIMI_AGENT_TOKEN.
    ///
    /// An address that other machines can reach needs a token. The agent does not get the variable.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The number of clients that can be connected. Each has an agent.
    #[arg(long, value_name = "NUMBER", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    max_clients: u16,
    /// How long a client over HTTP may be silent without an open stream, in seconds. Then its agent ends.
    #[arg(long, value_name = "SECONDS", default_value = "300", allow_negative_numbers = true)]
    idle_timeout: Seconds,
    #[command(flatten)]
    guard: GuardArguments,
}

/// Serves clients until Ctrl-C.
pub(crate) async fn run(arguments: ServeArguments) -> Result<i32, Failure> {
    let mut interrupts = Interrupts::new()?;
    let server = Server::bind(arguments.options()?).await.map_err(|error| match error {
        ServeError::Address(problem) => Failure::wrong("--listen", problem),
        ServeError::Token(problem) => Failure::wrong(arguments.token_argument(), problem),
        ServeError::Unavailable(problem) => Failure::Because(problem),
        ServeError::Agent(error) => error.into(),
    })?;
    write_out(format!("ws://{}{PATH}\n", server.address()).as_bytes())?;
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let running = server.run(async move {
        ended.await.ok();
    });
    tokio::pin!(running);
    tokio::select! {
        biased;
        () = interrupts.next() => {}
        () = &mut running => {}
    }
    note("the server ends, and the agents get the end of their input; Ctrl-C ends them immediately");
    end.send(()).ok();
    tokio::select! {
        biased;
        // The agents end with the runtime.
        () = interrupts.next() => {}
        () = running => {}
    }
    Err(Failure::Cancelled)
}

/// Writes a line to the standard error, which can be closed.
fn note(text: &str) {
    writeln!(std::io::stderr(), "kimi-agent: {}", printable_line(text)).ok();
}

impl ServeArguments {
    fn options(&self) -> Result<ServeOptions, Failure> {
        let mut options = ServeOptions::new(self.guard.options()?, &self.listen)
            .max_clients(self.max_clients.into())
            .idle_timeout(duration("--idle-timeout", &self.idle_timeout)?)
            .on_note(note);
        if let Some(token) = self.token()? {
            options = options.token(token);
        }
        Ok(options)
    }

    fn token(&self) -> Result<Option<String>, Failure> {
        let Some(path) = &self.token_file else {
            return match std::env::var(TOKEN_VARIABLE) {
                Ok(token) => Ok(Some(token)),
                Err(std::env::VarError::NotPresent) => Ok(None),
                Err(_) => Err(Failure::wrong(self.token_argument(), "expected text")),
            };
        };
        let failed = |problem: String| Failure::wrong("--token-file", format!("{}: {problem}", path.display()));
        let bytes = kimi_agent_files::read_file(path).map_err(|error| failed(format!("it cannot be read: {error}")))?;
        let text = String::from_utf8(bytes).map_err(|_| failed("expected text".to_owned()))?;
        Ok(Some(text.trim().to_owned()))
    }

    /// Returns the name of what sets the token.
    fn token_argument(&self) -> &'static str {
        if self.token_file.is_some() { "--token-file" } else { TOKEN_VARIABLE }
    }
}
