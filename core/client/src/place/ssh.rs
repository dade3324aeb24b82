//! Another machine, over the system's `ssh`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kimi_agent_protocol::place::PathMap;

use super::{Checked, Place, find_client};
use crate::error::AgentExit;
use crate::options::Inherited;
use crate::transport::launch::{Launch, Placed};
use crate::{Error, Result};

/// The shell script on the other machine. Arguments: the directory, the seconds that the agent has after the end of its input, and
/// the agent's command line. The input begins with the variables, a line each, and an empty line.
///
/// `cat` passes the input on, so that the script sees its end also if the agent does not. Then the agent must exit: after the
/// seconds, or as soon as the connection is gone, its process group gets TERM, and 2 seconds later KILL. The group also ends with
/// the agent. It has no line break, because some login shells do not take one.
const REMOTE: &str = concat!(
    r#"while IFS= read -r line && [ -n "$line" ]; do "#,
    r#"value=$(printf "%b." "${line#*=}"); export "${line%%=*}=${value%.}"; done; "#,
    r#"cd -- "$1" 2>/dev/null || { echo "kimi-agent: the directory $1 cannot be entered" >&2; exit 125; }; "#,
    r#"grace=$2 parent=$PPID; shift 2; "#,
    r#"command -v -- "$1" >/dev/null || { echo "kimi-agent: the program $1 was not found, PATH is $PATH" >&2; exit 127; }; "#,
    // A shell may write `Killed` of its own for the feeder, so only the agent has the error output.
    r#"{ { sh -c "echo \$PPID \$\$; exec cat"; trap "" HUP TERM; exec </dev/null >/dev/null; "#,
    r#"while [ "$grace" -gt 0 ] && kill -0 "$parent"; do sleep 1; grace=$((grace - 1)); done; "#,
    r#"kill -TERM 0; sleep 2; kill -KILL 0; } 3>&- | "#,
    r#"{ read -r feeder cat; "$@" 2>&3 3>&-; code=$?; "#,
    r#"kill -PIPE "$feeder" "$cat"; kill -KILL "$feeder" "$cat"; "#,
    // The code 255 is that of ssh itself.
    r#"[ "$code" = 255 ] && code=254; exit "$code"; }; code=$?; } 3>&2 2>/dev/null; "#,
    r#"( exec </dev/null >/dev/null 2>&1; while kill -0 $$; do sleep 1; done; kill -KILL 0 ) & exit "$code""#,
);

/// A place on another machine. [`Place::ssh`] makes it.
///
/// The agent's variables are those of `env` only.
///
/// ```
/// use kimi_agent::Place;
/// let remote = Place::ssh("build.example", "/home/ada/app").options(["-p", "2222"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ssh {
    pub(super) host: String,
    pub(super) work_dir: String,
    pub(super) options: Vec<OsString>,
    /// The directory of this machine that has the path `work_dir` there, once it is known.
    pub(super) base: Option<PathBuf>,
    /// How long the agent may take to exit after the end of its input.
    pub(super) grace: Duration,
}

impl Ssh {
    pub(super) fn new(host: String, work_dir: String) -> Self {
        Self { host, work_dir, options: Vec::new(), base: None, grace: Duration::from_secs(5) }
    }

    /// Sets arguments of `ssh` before the host. A setter replaces the value. Default: none, so the configuration of `ssh` decides.
    ///
    /// ```
    /// let remote = kimi_agent::Place::ssh("build", "/srv/app").options(["-J", "gate.example"]);
    /// ```
    #[must_use]
    pub fn options<W: Into<OsString>>(mut self, options: impl IntoIterator<Item = W>) -> Self {
        self.options = options.into_iter().map(Into::into).collect();
        self
    }

    pub(super) fn problem(&self) -> Option<String> {
        if self.host.is_empty() || self.host.starts_with('-') || self.host.contains(['\0', '\n']) {
            return Some(
                "`host`: expected a host of ssh, such as \"build.example\" or \"ada@build.example\"".to_owned(),
            );
        }
        if !self.work_dir.starts_with('/') || self.work_dir.contains(['\0', '\n']) {
            let got = &self.work_dir;
            return Some(format!(
                "`work_dir`: expected an absolute path on the host, such as \"/srv/app\", got {got:?}"
            ));
        }
        let has_nul = |word: &OsString| word.as_encoded_bytes().contains(&0);
        self.options.iter().any(has_nul).then(|| "`options`: it contains a NUL byte".to_owned())
    }

    pub(super) fn settle(&mut self, base: &Path, close_timeout: Duration) {
        self.base = Some(base.to_owned());
        self.grace = close_timeout;
    }

    pub(super) fn path_map(&self) -> Checked<Option<PathMap>> {
        let base = self.base.clone().unwrap_or_default();
        PathMap::new([(base, self.work_dir.clone())]).map(Some).map_err(|problem| format!("`work_dir`: {problem}"))
    }

    pub(super) fn apply(&self, launch: Launch) -> Result<Launch> {
        let install = "; install it, for example with `apt-get install openssh-client`";
        let program = find_client("ssh".as_ref(), &launch, install)?;
        let args = self.words(&launch)?;
        let input = variables(&launch)?;
        let (host, agent) = (self.host.clone(), launch.program.display().to_string());
        let work_dir = self.work_dir.clone();
        let explain = move |exit: &AgentExit| explanation(exit, &host, &work_dir, &agent);
        let placed = Box::new(Placed { input, explain: Some(Box::new(explain)), ..*launch.placed });
        // `ssh` has the variables of this program, and the agent has those of its input.
        Ok(Launch { program, args, env: Vec::new(), inherited: Inherited::default(), placed, ..launch })
    }

    fn words(&self, launch: &Launch) -> Result<Vec<OsString>> {
        // The first value of an option counts. A connection that others can use would outlive the agent.
        let mut words: Vec<OsString> = ["-T", "-o", "BatchMode=yes", "-o", "ControlMaster=no"].map(Into::into).into();
        words.extend(self.options.iter().cloned());
        for option in ["RemoteCommand=none", "ConnectTimeout=20", "ServerAliveInterval=15", "ServerAliveCountMax=3"] {
            words.extend(["-o".into(), option.into()]);
        }
        let grace = (self.grace.as_secs() + 1).to_string();
        let mut command = vec!["exec", "/bin/sh", "-c", REMOTE, "kimi-agent", &*self.work_dir, &*grace];
        let agent = std::iter::once(launch.program.as_os_str()).chain(launch.args.iter().map(|word| &**word));
        for word in agent {
            command.push(word.to_str().ok_or_else(|| not_unicode("an argument of the agent"))?);
        }
        let command: Vec<String> = command.into_iter().map(quoted).collect();
        words.extend(["--".into(), self.host.clone().into(), command.join(" ").into()]);
        Ok(words)
    }
}

impl From<Ssh> for Place {
    fn from(ssh: Ssh) -> Self {
        Self::Ssh(ssh)
    }
}

fn not_unicode(what: &str) -> Error {
    Error::Spawn(format!("can't start the agent over ssh: {what} is not Unicode"))
}

/// Returns the variables as the script reads them. Other users of the host can read a command line, but not the input.
fn variables(launch: &Launch) -> Result<Vec<u8>> {
    let mut lines = Vec::new();
    for (name, value) in &launch.env {
        let name = name.to_str().ok_or_else(|| not_unicode("the name of a variable"))?;
        let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_plain || name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
            let reason = format!("{name} cannot be set over ssh: expected a name of letters, digits and `_`");
            return Err(Error::InvalidOption { option: "env".to_owned(), reason });
        }
        let value = value.to_str().ok_or_else(|| not_unicode(&format!("the value of {name}")))?;
        let value = value.replace('\\', "\\\\").replace('\n', "\\n");
        lines.extend_from_slice(format!("{name}={value}\n").as_bytes());
    }
    lines.push(b'\n');
    Ok(lines)
}

/// Quotes a word for sh, bash, zsh, fish and csh.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:,".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    let mut quoted = String::from("'");
    for character in word.chars() {
        match character {
            // In single quotes fish reads backslashes, and the others do not.
            '\'' | '\\' => quoted.extend(["'\\", &*character.to_string(), "'"]),
            other => quoted.push(other),
        }
    }
    quoted + "'"
}

/// Texts of ssh, and what to do about it.
const ADVICE: [(&str, &str); 8] = [
    (
        "Permission denied",
        "it did not accept a key: load it with `ssh-add`, or name it in `options`, such as [\"-i\", \"/path/of/key\"]; ssh is not allowed \
         to ask for a password",
    ),
    ("Host key verification failed", "its key is not known: connect once with `ssh` in a terminal, and check the key"),
    ("Could not resolve hostname", "the name is not known: correct `host`, or add it to ~/.ssh/config"),
    ("Connection refused", "no ssh server listens there: start it, or set another port in `options`"),
    ("timed out", "it did not answer: check the network and the firewall"),
    ("No route to host", "it cannot be reached: check the network"),
    ("not responding", "it stopped answering"),
    ("Broken pipe", "the connection broke"),
];

/// Returns the cause of an exit, for the text of the error.
fn explanation(exit: &AgentExit, host: &str, work_dir: &str, agent: &str) -> Option<String> {
    let says = |text: &str| exit.stderr.contains(text);
    match exit.exit_code {
        Some(125) if says("kimi-agent: the directory ") => Some(format!(
            "because {host} has no directory {work_dir}, or its user may not enter it; make it, or set another `work_dir` of the place"
        )),
        Some(127) if says("kimi-agent: the program ") => Some(format!(
            "because the program {agent} was not found on {host}; install it, or name its absolute path in `executable`, since \
             a session of ssh without a terminal often has a shorter PATH"
        )),
        // ssh's own code.
        Some(255) => {
            let advice = ADVICE.iter().find(|(text, _)| says(text));
            let advice = advice.map_or("the connection was closed", |(_, advice)| advice);
            Some(format!("because ssh has no connection to {host}: {advice}"))
        }
        _ => None,
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Output, Stdio};

    use super::*;
    use crate::place::tests::launch;

    fn remote() -> Ssh {
        let mut ssh = Place::ssh("ada@build", "/srv/app").options(["-p", "2222"]);
        ssh.settle(Path::new("/home/ada/app"), Duration::from_secs(7));
        ssh
    }

    #[test]
    fn words_of_ssh_come_before_the_quoted_agent() {
        let words = remote().words(&launch("kimi", &["--work-dir=/srv/app", "it's"])).unwrap();
        let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(words[..7], ["-T", "-o", "BatchMode=yes", "-o", "ControlMaster=no", "-p", "2222"]);
        let [.., end, host, command] = &words[..] else { panic!("{words:?}") };
        assert_eq!((*end, *host), ("--", "ada@build"));
        assert!(command.starts_with("exec /bin/sh -c 'while "), "{command}");
        assert!(command.ends_with(r" kimi-agent /srv/app 8 kimi '--work-dir=/srv/app' 'it'\''s'"), "{command}");
        assert!(!command.contains('\n'), "{command}");
    }

    #[test]
    fn variables_in_input_only() {
        let mut launch = launch("kimi", &[]);
        launch.env = vec![("KEY".into(), "a b\n\\c".into()), ("_E1".into(), "".into())];
        assert_eq!(variables(&launch).unwrap(), b"KEY=a b\\n\\\\c\n_E1=\n\n");
        let launch = remote().apply(launch).unwrap();
        assert!(launch.env.is_empty() && !launch.args.iter().any(|word| word.to_string_lossy().contains("KEY")));
        for name in ["1A", "A.B", ""] {
            let launch = Launch { env: vec![(name.into(), "".into())], ..super::tests::launch("kimi", &[]) };
            assert_eq!(variables(&launch).unwrap_err().code(), "invalid_option", "{name}");
        }
    }

    /// Runs the script as the login shell of another machine does.
    fn ran(work_dir: &Path, agent: &[&str], input: &str) -> Output {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", REMOTE, "kimi-agent"]).arg(work_dir).arg("60").args(agent);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    #[test]
    fn variables_input_and_exit_code_of_script() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let agent = ["/bin/sh", "-c", "pwd; printf '[%s][%s]\\n' \"$A\" \"$B\"; cat; exit 7"];
        let output = ran(&dir, &agent, "A=x  y \\n\\\\n\nB=\n\nhello\n");
        let expected = format!("{}\n[x  y \n\\n][]\nhello\n", dir.display());
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
        assert_eq!((output.status.code(), &*String::from_utf8_lossy(&output.stderr)), (Some(7), ""));
    }

    #[test]
    fn missing_directory_and_program_are_explained() {
        for (dir, agent, code, reason) in [
            ("/no/such/directory", "/bin/sh", 125, "because build has no directory "),
            ("/", "no-such-program", 127, "because the program no-such-program was not found on build; "),
        ] {
            let output = ran(Path::new(dir), &[agent], "\n");
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            let exit = AgentExit { exit_code: output.status.code(), stderr, ..AgentExit::default() };
            assert_eq!(exit.exit_code, Some(code));
            let explained = explanation(&exit, "build", dir, agent).unwrap();
            assert!(explained.starts_with(reason), "{explained}");
        }
    }

    #[test]
    fn failures_of_ssh_are_explained() {
        let explained = |code: i32, stderr: &str| {
            let exit = AgentExit { exit_code: Some(code), stderr: stderr.to_owned(), ..AgentExit::default() };
            explanation(&exit, "build", "/srv/app", "kimi")
        };
        for (stderr, part) in [
            ("ada@build: Permission denied (publickey).", "`ssh-add`"),
            ("Host key verification failed.", "connect once"),
            ("ssh: Could not resolve hostname build: Name or service not known", "~/.ssh/config"),
            ("ssh: connect to host build port 22: Connection refused", "another port"),
            ("Timeout, server build not responding.", "stopped answering"),
            ("Connection to build closed by remote host.", "the connection was closed"),
        ] {
            let text = explained(255, stderr).unwrap();
            assert!(text.starts_with("because ssh has no connection to build: ") && text.contains(part), "{text}");
        }
        assert_eq!(explained(1, "Permission denied"), None);
        assert_eq!(explained(127, "sh: x: not found"), None);
    }

    #[test]
    fn quoting_is_that_of_many_shells() {
        let cases =
            [("a-b_c./:,1", "a-b_c./:,1"), ("", "''"), ("a b", "'a b'"), ("~x", "'~x'"), ("a\\'", r"'a'\\''\'''")];
        for (word, expected) in cases {
            assert_eq!(quoted(word), expected);
            let output = Command::new("/bin/sh").args(["-c", &format!("printf %s {}", quoted(word))]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), word);
        }
    }

    #[test]
    fn wrong_hosts_and_directories_are_refused() {
        for (host, work_dir, setting) in [
            ("", "/w", "`host`"),
            ("-oProxyCommand=x", "/w", "`host`"),
            ("a", "w", "`work_dir`"),
            ("a", "~/w", "`work_dir`"),
        ] {
            assert!(Place::ssh(host, work_dir).problem().unwrap().starts_with(setting), "{host} {work_dir}");
        }
        assert_eq!(remote().problem(), None);
    }
}
