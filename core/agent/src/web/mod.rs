//! The scripted agent as Kimi Code's server: HTTP and a WebSocket on a port of the loopback device. Each session has an
//! agent on a thread of its own, which runs the whole script.

mod http;
mod hub;
mod socket;

use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::mpsc::channel;

use tokio::net::TcpListener;
use tokio::runtime::Builder;

use super::io::Io;
use super::run::{Agent, Options};
use super::script::Script;
use hub::Hub;

/// Runs until a signal stops the server, or until the script ends the process. Returns the exit code.
pub(crate) fn run(mut script: Script, options: Options) -> i32 {
    let before = std::mem::take(&mut script.before_handshake);
    let (_sender, lines) = channel();
    let agent = Agent::new(&script, options.clone(), Io::of(lines));
    let cut = agent.cut();
    if let Some(code) = agent.run_before(&before) {
        return code;
    }
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return 1 };
    let port = port(&options.argv);
    let hub = Arc::new(Hub::new(script, options, cut, runtime.handle().clone()));
    match runtime.block_on(serve(&hub, port)) {
        Ok(()) => 0,
        Err(error) => {
            let _ = writeln!(io::stderr(), "kimi-scripted-agent: {error}");
            1
        }
    }
}

fn port(argv: &[String]) -> u16 {
    let named = argv.iter().position(|argument| argument == "--port").and_then(|at| argv.get(at + 1));
    named.and_then(|port| port.parse().ok()).unwrap_or(0)
}

async fn serve(hub: &Arc<Hub>, port: u16) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let banner = banner(&hub.script.profile.server.version, listener.local_addr()?.port(), &hub.token);
    // A closed output is not a reason to stop.
    let _ = io::stdout().write_all(banner.as_bytes());
    let _ = io::stdout().flush();
    let mut stop = Stop::new()?;
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted?;
                let _ = stream.set_nodelay(true);
                tokio::spawn(http::serve(hub.clone(), stream));
            }
            () = stop.asked() => break,
            () = hub.shutdown.notified() => break,
        }
    }
    // The real server does not exit while a socket is open. A second signal ends it.
    tokio::select! {
        () = hub.no_sockets() => Ok(()),
        () = stop.asked() => {
            stop.die();
            Ok(())
        }
    }
}

fn banner(version: &str, port: u16, token: &str) -> String {
    format!(
        "\n  Kimi server ready  {version}\n  Local web UI is available from this machine.\n\n  \
         Local:    http://127.0.0.1:{port}/#token={token}\n  Network:  off  use --host to enable\n\n  \
         Token:    {token}\n\n  Logs:     off  use --log-level info to enable\n  Stop:     Ctrl+C\n"
    )
}

/// The signals that ask the server to stop.
#[cfg(unix)]
struct Stop {
    term: tokio::signal::unix::Signal,
    int: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Stop {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        // A handler of the host would be called as well. Node's handler raises the signal again, without end.
        crate::turn::ignore(libc::SIGTERM);
        crate::turn::ignore(libc::SIGINT);
        Ok(Self { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
        }
    }

    /// Exits by SIGTERM.
    fn die(&self) {
        crate::turn::raise(libc::SIGTERM);
    }
}

#[cfg(not(unix))]
struct Stop;

#[cfg(not(unix))]
impl Stop {
    #[allow(clippy::unnecessary_wraps, reason = "as on Unix")]
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    async fn asked(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn die(&self) {
        std::process::abort();
    }
}
