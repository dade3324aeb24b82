//! `kimi-agent login`: runs the agent's own login in the terminal.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use clap::Args;
use kimi_agent_client::host::{LoginOffer, login_offer, program};
use kimi_agent_client::{AgentOptions, Dialect, Error, Executable, SessionOptions};
use kimi_agent_protocol::dialect::{LoginWay, login_command};
use kimi_agent_protocol::printable::printable_line;

use crate::interrupts::Interrupts;
use crate::session_arguments::{Seconds, duration, executable_of};
use crate::{Failure, exit, write_out};

/// The arguments of `login`.
#[derive(Args, Debug)]
pub(crate) struct LoginArguments {
    /// The agent: a name, a path or a command line.
    #[arg(value_name = "AGENT")]
    agent: String,
    /// The way to log in, by its id. Needed if the agent offers several.
    #[arg(long, value_name = "ID")]
    method: Option<String>,
    /// Lists the ways to log in, and starts none.
    #[arg(long, conflicts_with = "method")]
    list: bool,
    /// The time for the agent to start and to name its ways to log in, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "30", allow_negative_numbers = true)]
    timeout: Seconds,
}

/// A login that runs in the terminal.
#[derive(Debug, PartialEq)]
struct Login {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(String, String)>,
}

/// Runs the login of an agent. Returns the exit code: 0 if the login succeeded.
pub(crate) async fn run(arguments: LoginArguments) -> Result<i32, Failure> {
    let mut interrupts = Interrupts::new()?;
    let timeout = duration("--timeout", &arguments.timeout)?;
    let executable = executable_of(&arguments.agent)?;
    let (path, args) = program(&SessionOptions::new().executable(executable.clone()))?;
    let known = login_command(&path).filter(|_| args.is_empty() && arguments.method.is_none() && !arguments.list);
    if let Some(words) = known {
        let login = Login { program: path, args: words.iter().map(OsString::from).collect(), env: Vec::new() };
        return carried_out(login, interrupts).await;
    }
    let options = AgentOptions::new().executable(executable).dialect(Dialect::Acp).handshake_timeout(timeout);
    let offer = tokio::select! {
        biased;
        () = interrupts.next() => return Err(Failure::Cancelled),
        offer = offered(options) => offer?,
    };
    if arguments.list {
        write_out(listed(&offer.ways).as_bytes())?;
        return Ok(exit::SUCCEEDED);
    }
    let login = chosen(offer, arguments.method.as_deref(), &arguments.agent)?;
    carried_out(login, interrupts).await
}

async fn offered(options: AgentOptions) -> Result<LoginOffer, Failure> {
    let agent = options.open()?;
    let offer = login_offer(&agent).await;
    // The agent has said everything. It is ended also if it does not end by itself.
    agent.close().await.ok();
    Ok(offer?)
}

fn listed(ways: &[LoginWay]) -> String {
    let row = |way: &LoginWay| {
        let method = &way.method;
        let line = format!("{:<20} {:<9} {}", method.id, method.kind, method.name);
        format!("{}\n", printable_line(line.trim_end()))
    };
    ways.iter().map(row).collect()
}

/// Returns the login for a terminal that was chosen, or the only one.
fn chosen(offer: LoginOffer, method: Option<&str>, agent: &str) -> Result<Login, Failure> {
    let LoginOffer { program, mut args, ways } = offer;
    let ids = |ways: &[&LoginWay]| ways.iter().map(|way| format!("{:?}", way.method.id)).collect::<Vec<_>>().join(", ");
    let terminal: Vec<&LoginWay> = ways.iter().filter(|way| way.needs_terminal()).collect();
    let way = match (method, &*terminal) {
        (Some(method), _) => match ways.iter().find(|way| way.method.id == method) {
            Some(way) if way.needs_terminal() => way,
            Some(_) => {
                let problem = format!("{method:?} needs no terminal: pass it as the option `auth` of a session");
                return Err(Failure::wrong("--method", problem));
            }
            None => {
                let all: Vec<&LoginWay> = ways.iter().collect();
                let known = if all.is_empty() { "none".to_owned() } else { ids(&all) };
                return Err(Failure::wrong("--method", format!("there is no {method:?}; the agent offers {known}")));
            }
        },
        (None, [way]) => way,
        (None, []) => return Err(Error::Unsupported(without_terminal(&ways, agent)).into()),
        (None, several) => {
            return Err(Failure::Wrong {
                argument: "--method".to_owned(),
                problem: format!("the agent offers several ways; choose one of {}", ids(several)),
            });
        }
    };
    args.extend(way.args.iter().map(OsString::from));
    Ok(Login { program, args, env: way.env.clone().into_iter().collect() })
}

/// Returns why there is no login for a terminal, and what to do instead.
fn without_terminal(ways: &[LoginWay], agent: &str) -> String {
    let ways: Vec<_> = ways.iter().map(|way| format!("{:?} ({})", way.method.id, way.method.name)).collect();
    let instead = "start its own program in a terminal and log in there, or pass a key in its environment";
    match &*ways {
        [] => format!("`{agent}` offers no way to log in; {instead}"),
        ways => format!(
            "`{agent}` offers no login for a terminal; {instead}; for a session, the option `auth` takes these: {}",
            ways.join(", ")
        ),
    }
}

/// Runs a login. The agent gets Ctrl-C, too, and decides.
async fn carried_out(login: Login, interrupts: Interrupts) -> Result<i32, Failure> {
    let shown = shown(&login);
    writeln!(io::stderr(), "kimi-agent: {shown}").ok();
    let mut command = Command::new(&login.program);
    command.args(&login.args).envs(login.env);
    let status = tokio::task::spawn_blocking(move || command.status()).await;
    drop(interrupts);
    match status.unwrap_or_else(|error| Err(io::Error::other(error))) {
        Ok(status) if status.success() => Ok(exit::SUCCEEDED),
        Ok(status) if was_interrupted(status) => Err(Failure::Cancelled),
        Ok(status) => Err(Failure::Because(format!("the login has failed: {shown} {}", manner(status)))),
        Err(error) => Err(Error::Spawn(format!("can't start the login: {shown}: {error}")).into()),
    }
}

/// Returns whether Ctrl-C has ended the login.
fn was_interrupted(status: ExitStatus) -> bool {
    #[cfg(unix)]
    if std::os::unix::process::ExitStatusExt::signal(&status) == Some(libc::SIGINT) {
        return true;
    }
    status.code() == Some(exit::CANCELLED)
}

fn manner(status: ExitStatus) -> String {
    status.code().map_or_else(|| "was ended by a signal".to_owned(), |code| format!("exited with code {code}"))
}

fn shown(login: &Login) -> String {
    let name = |program: &Path| program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let words =
        std::iter::once(name(&login.program)).chain(login.args.iter().map(|arg| arg.to_string_lossy().into_owned()));
    printable_line(&format!("`{}`", words.collect::<Vec<_>>().join(" "))).into_owned()
}

/// Returns the command that logs in to an agent, for a hint. `None` without a name that a shell reads as one word.
pub(crate) fn hint(executable: &Executable) -> Option<String> {
    let program = executable.program()?.to_str().filter(|_| executable.args().is_empty())?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    program.chars().all(is_plain).then(|| format!("kimi-agent login {program}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn offer(methods: Value) -> LoginOffer {
        let answer = Ok(kimi_agent_protocol::messages::Json::from(json!({"authMethods": methods})));
        let ways = kimi_agent_protocol::dialect::login_ways(answer).expect("ways");
        LoginOffer { program: "/opt/agent".into(), args: vec!["acp".into()], ways }
    }

    fn problem(methods: Value, method: Option<&str>) -> String {
        chosen(offer(methods), method, "agent").expect_err("a failure").reason().expect("a reason")
    }

    #[test]
    fn login_has_arguments_of_agent_and_way() {
        let methods = json!([{"id": "key"}, {"id": "tty", "type": "terminal", "args": ["--login"], "env": {"A": "b"}}]);
        let expected = Login {
            program: "/opt/agent".into(),
            args: vec!["acp".into(), "--login".into()],
            env: vec![("A".to_owned(), "b".to_owned())],
        };
        assert_eq!(chosen(offer(methods.clone()), None, "agent").expect("a login"), expected);
        assert_eq!(chosen(offer(methods.clone()), Some("tty"), "agent").expect("a login"), expected);
        assert_eq!(shown(&expected), "`agent acp --login`");
        let text = problem(methods.clone(), Some("key"));
        assert!(text.contains("\"key\" needs no terminal"), "{text}");
        assert!(problem(methods, Some("other")).contains("the agent offers \"key\", \"tty\""));
    }

    #[test]
    fn several_logins_need_choice() {
        let methods = json!([{"id": "a", "type": "terminal"}, {"id": "b", "type": "terminal"}]);
        assert!(problem(methods, None).contains("choose one of \"a\", \"b\""));
    }

    #[test]
    fn agent_without_terminal_login_is_unsupported() {
        let failure = chosen(offer(json!([{"id": "key", "name": "Key"}])), None, "agent").expect_err("a failure");
        assert_eq!(failure.exit_code(), exit::WRONG_ARGUMENTS);
        let text = failure.reason().expect("a reason");
        assert!(text.contains("takes these: \"key\" (Key)"), "{text}");
        assert!(problem(json!([]), None).contains("offers no way to log in"));
    }

    #[test]
    fn hint_names_plain_programs_only() {
        assert_eq!(hint(&"codex-acp".into()).as_deref(), Some("kimi-agent login codex-acp"));
        assert_eq!(hint(&"/opt/my agent".into()), None);
        assert_eq!(hint(&["a", "b"].into()), None);
    }
}
